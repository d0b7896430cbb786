"""`models`, `config` and the request side of `context`: what can be asked, with which key, and what would be sent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.launcher import Terminal
from tests.loop.checkers.anthropic import check_anthropic
from tests.loop.checkers.chat import check_chat
from tests.loop.checkers.responses import check_responses

KEY = "sk-ant-not-a-real-key"


def test_models_lists_what_can_be_used_and_why_the_rest_cannot(shell: Terminal) -> None:
    ran = shell.ok("models", env={"ANTHROPIC_API_KEY": KEY})
    assert "anthropic/claude-sonnet-5 " in ran.out
    assert "key from $ANTHROPIC_API_KEY" in ran.out
    assert "set OPENAI_API_KEY" in ran.out
    told = json.loads(shell.ok("models", "sonnet-5", "--json", env={"ANTHROPIC_API_KEY": KEY}).out)
    assert all(model["usable"] for model in told["models"])
    assert {model["provider"] for model in told["models"]} == {"anthropic"}
    assert KEY not in ran.out + ran.err + json.dumps(told)
    everything = json.loads(shell.ok("models", "--all", "--json").out)["models"]
    assert any(not model["usable"] and model["reason"] for model in everything)


def test_models_without_any_key_say_so(shell: Terminal) -> None:
    ran = shell.ok("models")
    assert "No model can be used now" in ran.err
    assert "set ANTHROPIC_API_KEY" in ran.out


def test_models_of_ones_own_and_pis_are_read(shell: Terminal) -> None:
    folder = shell.folder / ".pi" / "agent"
    folder.mkdir(parents=True)
    local = {"baseUrl": "http://127.0.0.1:1/v1", "api": "openai-completions", "models": [{"id": "tiny"}]}
    (folder / "models.json").write_text(json.dumps({"providers": {"mine": local}}))
    (folder / "auth.json").write_text(json.dumps({"anthropic": {"type": "oauth", "access": KEY}}))
    ran = shell.ok("models")
    assert "mine/tiny" in ran.out
    assert "OAuth, which only Pi can use" in ran.out
    assert KEY not in ran.out
    refused = shell.run("models", "--server", "mine")
    assert (refused.code, "does not list its models" in refused.err) == (1, True)
    assert shell.run("models", "--server", "nobody").code == 1


def test_config_shows_where_keys_come_from_and_never_what_they_are(shell: Terminal) -> None:
    folder = shell.folder / ".config" / "pi-session"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        f'model = "anthropic/claude-sonnet-5"\n[keys]\nanthropic = "{KEY}"\nopenai = "!print-key"\ngroq = "$MY_KEY"\n'
        "[compaction]\nreserveTokens = 1000\n"
    )
    ran = shell.ok("config", env={"PI_SESSION_THINKING": "high"})
    rows = {line.split()[0]: line for line in ran.lines}
    assert "anthropic/claude-sonnet-5" in rows["model"]
    assert "PI_SESSION_THINKING" in rows["thinking"]
    assert "(written in the file)" in rows["keys.anthropic"]
    assert "(from a command)" in rows["keys.openai"]
    assert "(from $MY_KEY)" in rows["keys.groq"]
    assert "1000" in rows["compaction.reserveTokens"]
    assert KEY not in ran.out
    assert "anthropic/claude-sonnet-5" in shell.ok("models").out
    (folder / "config.toml").write_text("keys = 3\n")
    assert shell.run("config").code == 1


@pytest.fixture
def broken(talk: Terminal) -> Terminal:
    """Return a shell whose session ends on a call without a result, after thinking of somebody else's."""
    call = {"type": "toolCall", "id": "call|1", "name": "ls", "arguments": {}}
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"}
    line = {
        "role": "assistant",
        "content": [thought, {"type": "text", "text": ""}, call],
        "api": "x",
        "provider": "other",
        "model": "m",
        "stopReason": "toolUse",
    }
    talk.ok("append", "--json-lines", "-", stdin=json.dumps(line).encode())
    return talk


def test_the_body_of_each_protocol_is_one_its_provider_accepts(broken: Terminal) -> None:
    for protocol, check in (
        ("anthropic", check_anthropic),
        ("responses", check_responses),
        ("chat", check_chat),
    ):
        out = broken.ok("context", "--request", protocol).out
        body = json.loads(out)
        assert check(body, lambda text: False) == []
        assert out == broken.ok("context", "--request", protocol).out
        told = json.loads(broken.ok("context", "--request", protocol, "--json").out)
        assert told["body"] == body
        assert any(repair["fault"] for repair in told["repairs"])


def test_explain_lists_the_repairs_by_entry(broken: Terminal) -> None:
    ran = broken.ok("context", "--explain")
    entry = json.loads(broken.ok("context", "--json").out)["leaf"]
    assert any(line.startswith(entry) and "fault" in line for line in ran.lines)
    assert "of what providers would refuse" in ran.lines[-1]
    both = broken.ok("context", "--explain", "--request", "chat")
    json.loads(both.out)
    assert entry in both.err
    assert broken.run("context", "--model", "x").code == 2


def test_a_sound_session_needs_no_repair(talk: Terminal) -> None:
    talk.ok("append", "And then?")
    assert "Nothing needs repair" in talk.ok("context", "--explain").err


def test_showing_a_request_needs_no_transport(talk: Terminal) -> None:
    code = (
        "import sys; from pi_session_cli.main import main; main(sys.argv[1:]); "
        "sys.exit(any(name in sys.modules for name in ('httpx', 'prompt_toolkit', 'pi_loop.providers.client')))"
    )
    command = [sys.executable, "-c", code, "context", "00000001", "--request", "anthropic"]
    done = subprocess.run(command, env={**talk.env, "PATH": ""}, cwd=Path.cwd(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"]
