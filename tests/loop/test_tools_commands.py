"""The tool bash with real processes."""

import os
import resource
import tempfile
import time
from pathlib import Path

import anyio
import pytest

from pi_loop.abort import AbortController
from pi_loop.events import ToolResult
from pi_loop.tools.approval import Approval
from pi_loop.tools.coding import chosen_names
from pi_loop.tools.output import CommandOutput
from pi_loop.types import AfterToolCall, AgentContext, BeforeToolCall
from pi_sessions.errors import UsageError
from pi_sessions.messages import AssistantMessage, ToolCall
from tests.loop.tool_world import ToolWorld, details, told


@pytest.fixture
def world(tmp_path: Path) -> ToolWorld:
    return ToolWorld(tmp_path / "work")


def lives(pid: int) -> bool:
    """Whether a process is still there; one that only waits to be reaped is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually_gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not lives(pid)


def test_output_and_errors_come_back_as_one(world: ToolWorld) -> None:
    assert world.text("bash", command="echo out; echo err >&2") == "out\nerr\n"
    assert world.text("bash", command="true") == "(no output)"
    assert world.text("bash", command="pwd") == f"{world.folder}\n"
    assert world.text("bash", command="cat") == "(no output)"


def test_a_failure_has_its_exit_code(world: ToolWorld) -> None:
    assert world.error("bash", command="echo no; exit 3") == "no\n\n\nCommand exited with code 3"
    assert world.error("bash", command="exit 4") == "(no output)\n\nCommand exited with code 4"
    assert world.error("bash", command="kill -9 $$").endswith("Command exited with code 137")


def test_long_output_is_cut_at_the_head_and_kept_whole_in_a_file(world: ToolWorld) -> None:
    outcome = world.call("bash", command="seq 1 30000")
    text = told(outcome.result)
    path = details(outcome.result)["fullOutputPath"]
    try:
        assert text.startswith("28001\n")
        assert text.endswith(f"30000\n\n[Showing lines 28001-30000 of 30000. Full output: {path}]")
        assert Path(path).read_text() == "".join(f"{number}\n" for number in range(1, 30001))
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert world.text("read", path=path, limit=1).startswith("1\n\n[")
        assert "outside" in world.error("write", path=path, content="")
    finally:
        os.unlink(path)


def test_output_that_cannot_be_kept_whole_is_shown_all_the_same(
    world: ToolWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    outcome = world.call("bash", command="seq 1 3000; echo end")
    assert not outcome.is_error
    assert "2999\n3000\nend" in told(outcome.result)
    assert "Full output: could not be kept (No such file or directory)]" in told(outcome.result)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        output = CommandOutput()
        for _ in range(20):
            output.add(b"line\n" * 2000)
        output.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "Full output: could not be kept (File too large)]" in output.told()
    assert list(tmp_path.glob("pi-session-bash-*")) == []


def test_one_endless_line_shows_its_end(world: ToolWorld) -> None:
    outcome = world.call("bash", command="head -c 400000 /dev/zero | tr '\\0' x")
    path = details(outcome.result)["fullOutputPath"]
    os.unlink(path)
    assert "[Showing last 50.0KB of line 1. Full output: " in told(outcome.result)
    assert len(told(outcome.result)) < 60_000


def test_output_is_told_while_it_runs(world: ToolWorld) -> None:
    async def main() -> list[str]:
        heard: list[str] = []

        async def update(result: ToolResult) -> None:
            heard.append(told(result))

        (world.folder / "go").unlink(missing_ok=True)

        async def hear(result: ToolResult) -> None:
            await update(result)
            (world.folder / "go").touch()

        command = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second"
        await world.tools["bash"].execute("c", {"command": command}, None, hear)
        return heard

    assert anyio.run(main)[0] == "first\n"


def test_a_time_limit_kills_the_command(world: ToolWorld) -> None:
    said = world.error("bash", command="echo before; sleep 60", timeout=0.3)
    assert said == "before\n\n\nCommand timed out after 0.3 seconds"
    assert "finite number" in world.error("bash", command="true", timeout=0)


def test_an_abort_kills_everything_the_command_started(world: ToolWorld) -> None:
    command = "sleep 300 & echo $! > child; (sleep 300 & echo $! > grandchild; wait) & echo hello; touch ready; wait"
    outcome, took = world.aborted_when((world.folder / "ready").exists, "bash", command=command)
    assert outcome.is_error
    assert told(outcome.result) == "hello\n\n\nCommand aborted"
    assert took < 1
    assert all(eventually_gone(int((world.folder / name).read_text())) for name in ("child", "grandchild"))


def test_a_cancelled_run_leaves_no_process(world: ToolWorld) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: world.acall("bash", command="echo $$ > pid; touch ready; sleep 300"))
            while not (world.folder / "ready").exists():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert eventually_gone(int((world.folder / "pid").read_text()))


def test_what_runs_in_the_background_does_not_hold_the_command(world: ToolWorld) -> None:
    began = time.monotonic()
    assert world.text("bash", command="sleep 300 & echo $! > pid; echo started") == "started\n"
    assert time.monotonic() - began < 5
    pid = int((world.folder / "pid").read_text())
    assert lives(pid)
    os.kill(pid, 9)


def test_an_aborted_run_starts_nothing(world: ToolWorld) -> None:
    controller = AbortController()
    controller.abort()
    outcome = anyio.run(lambda: world.acall("bash", controller.signal, command="touch mark"))
    assert (outcome.is_error, told(outcome.result)) == (True, "Operation aborted")
    assert not (world.folder / "mark").exists()


def test_commands_run_on_trio_too(world: ToolWorld) -> None:
    outcome = anyio.run(lambda: world.acall("bash", command="echo trio"), backend="trio")
    assert told(outcome.result) == "trio\n"


def test_tools_are_named_by_group_or_one_by_one() -> None:
    assert chosen_names("none") == ()
    assert chosen_names("read") == ("read", "grep", "find", "ls")
    assert set(chosen_names("all")) == {"read", "write", "edit", "bash", "grep", "find", "ls"}
    assert chosen_names("read,") == ("read",)
    assert chosen_names("bash, ls,bash") == ("bash", "ls")
    with pytest.raises(UsageError, match="no tool fly"):
        chosen_names("ls,fly")


def test_two_approved_calls_with_one_id_both_say_who_approved_them() -> None:
    approval = Approval(free=frozenset({"bash"}))
    calls = [ToolCall(id="same", name="bash", arguments={"command": command}) for command in ("true", "false")]
    answer, context = AssistantMessage(content=list(calls)), AgentContext([], [])

    async def decide() -> list[object]:
        for call in calls:
            assert await approval.before(BeforeToolCall(answer, call, call.arguments, context), None) is None
        done = ToolResult(content=[])
        changes = [
            approval.after(AfterToolCall(answer, call, call.arguments, done, False, context), None) for call in calls
        ]
        return [None if change is None else change.details for change in changes]

    assert anyio.run(decide) == [{"approvedBy": "settings"}] * 2
