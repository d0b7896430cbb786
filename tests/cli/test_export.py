"""`export`: every form, what it refuses, and that no secret gets out unseen."""

import itertools
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pi_session_cli.commands.export import FORMS, PATH, TREE
from tests.cli.launcher import Terminal
from tests.cli.test_pictures import SAMPLE
from tests.sessions.pi_files import CASES
from tests.sessions.test_secrets import SETTINGS, SHAPES, key_of

NAMES = [form.name for form in FORMS]
READ = {"markdown": "markdown", "html": "html", "json": "json", "openai": "json", "anthropic": "json"}
CUT = 24


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a shell with the demo's session."""
    shell = Terminal(tmp_path_factory.mktemp("export"), cwd="/home/dev/tideline")
    shell.ok("import", str(SAMPLE))
    return shell


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Terminal, list[str]]:
    """Return a shell with the case of the secrets, and the secrets."""
    shell = Terminal(tmp_path_factory.mktemp("secrets"), cwd="/home/dev/demo")
    text = (CASES / "s29-secrets" / "secrets.jsonl.in").read_text("utf-8").replace("~", "")
    file = shell.folder / "secrets.jsonl"
    file.write_text(text, "utf-8")
    shell.ok("import", str(file))
    shell.ok("branch", "sk-proj-" + "EXAMPLE" * 6)
    shell.ok("label", "@", "key " + "ghp_" + "EXAMPLE" * 6)
    shapes = r"(?:sk-proj-|sk-ant-|ghp_|github_pat_|AKIA|xox[bp]-|eyJ)[A-Za-z0-9_\-.]{8,}|-----BEGIN [^\"]*?KEY-----"
    found = sorted(set(re.findall(shapes, text)))
    assert len(found) >= 5
    return shell, found


def exported(shell: Terminal, form: str, *words: str) -> str:
    """Return an export as text, in UTF-8."""
    return shell.ok("export", "--format", form, *words).out


@pytest.mark.parametrize("form", NAMES)
def test_no_secret_is_left_in_any_form(secrets: tuple[Terminal, list[str]], form: str) -> None:
    shell, values = secrets
    everything = () if next(each for each in FORMS if each.name == form).holds == PATH else ("--all-branches",)
    ran = shell.ok("export", "--format", form, "--redact", *everything)
    assert not [value for value in values if value[:CUT] in ran.out]
    assert "[redacted:" in ran.out
    assert "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39" in ran.out
    assert "00000000-0000-7000-8000-000000000129" in ran.out
    (said,) = re.findall(r"^Replaced (\d+) likely secrets$", ran.err, re.MULTILINE)
    assert int(said) == len(re.findall(r"\[redacted:[a-z0-9-]+-\d+\]", ran.out))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Terminal, list[str]]:
    """Return a shell with a session in which a made-up key of every published shape stands in every setting."""
    shell = Terminal(tmp_path_factory.mktemp("corpus"), cwd="/home/dev/demo")
    chance = random.Random(6)
    keys, lines = [], []
    for shape in SHAPES:
        for setting in SETTINGS:
            keys.append(key_of(shape, chance))
            content = [{"type": "text", "text": setting.format(keys[-1])}]
            lines.append(json.dumps({"role": "user", "content": content, "timestamp": 1772442000000}))
    shell.ok("new", "corpus")
    shell.ok("append", "--json-lines", "-", stdin="\n".join(lines).encode())
    return shell, keys


@pytest.mark.parametrize("form", NAMES)
def test_no_key_of_a_generated_corpus_is_left_in_any_form(corpus: tuple[Terminal, list[str]], form: str) -> None:
    shell, keys = corpus
    plain = exported(shell, form, "--no-redact")
    assert sum(key in plain for key in keys) == len(keys), "the corpus goes out when nothing is replaced"
    safe = exported(shell, form, "--redact")
    assert not [key for key in keys if key[-CUT:] in safe]


def test_a_page_is_redacted_unless_that_is_refused(secrets: tuple[Terminal, list[str]]) -> None:
    shell, values = secrets
    assert not [value for value in values if value[:CUT] in exported(shell, "html")]
    ran = shell.ok("export", "--format", "html", "--no-redact")
    assert [value for value in values if value[:CUT] in ran.out]
    assert re.search(r"^Warning: \d+ likely secrets in this file; --redact replaces them$", ran.err, re.MULTILINE)


@pytest.mark.parametrize("form", [form.name for form in FORMS if not form.redact])
def test_other_forms_say_how_many_secrets_go_out(secrets: tuple[Terminal, list[str]], form: str) -> None:
    ran = secrets[0].ok("export", "--format", form)
    (said,) = re.findall(r"^Warning: (\d+) likely secrets", ran.err, re.MULTILINE)
    safe = secrets[0].ok("export", "--format", form, "--redact").out
    assert int(said) == len(re.findall(r"\[redacted:[a-z0-9-]+-\d+\]", safe))


def test_the_persons_own_keys_are_replaced(talk: Terminal) -> None:
    talk.ok("append", "use plain-looking-value-12345 for it")
    env = {"MY_SERVICE_TOKEN": "plain-looking-value-12345"}
    assert "plain-looking-value" not in talk.ok("export", "--format", "markdown", "--redact", env=env).out
    assert "plain-looking-value" in talk.ok("export", "--format", "markdown", "--redact").out


def test_the_report_names_kind_place_and_number(secrets: tuple[Terminal, list[str]], tmp_path: Path) -> None:
    told = json.loads(secrets[0].ok("export", "-o", str(tmp_path / "a.html"), "--json").out)
    assert told["format"] == "html"
    assert told["secrets"] == 0
    assert {"session name", "dd000002", "dd000003"} <= {place for each in told["redacted"] for place in each["where"]}
    page = (tmp_path / "a.html").read_text("utf-8")
    assert {each["mark"]: each["count"] for each in told["redacted"]} == Counter(
        re.findall(r"\[redacted:[a-z0-9-]+-\d+\]", page)
    )
    told = json.loads(secrets[0].ok("export", "-o", str(tmp_path / "a.jsonl"), "--json").out)
    assert told["secrets"] > 5
    assert told["redacted"] == []


def test_the_store_is_not_changed_by_redaction(secrets: tuple[Terminal, list[str]]) -> None:
    shell, values = secrets
    before = exported(shell, "pi")
    exported(shell, "pi", "--redact")
    assert exported(shell, "pi") == before
    assert values[0][:CUT] in before


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", "pi"),
        ("a.json", "json"),
        ("a.md", "markdown"),
        ("a.html", "html"),
        ("a.openai.json", "openai"),
        ("a.anthropic.json", "anthropic"),
        ("A.HTML", "html"),
    ],
)
def test_the_ending_says_the_form(sample: Terminal, tmp_path: Path, name: str, form: str) -> None:
    told = json.loads(sample.ok("export", "-o", str(tmp_path / name), "--json").out)
    assert told["format"] == form
    assert told["bytes"] == (tmp_path / name).stat().st_size


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "a.txt"], "names no form"),
        (["--branch", "main", "--at", "@"], "both say where the path ends"),
        (["--redact", "--no-redact"], "exclude each other"),
        (["--format", "markdown", "--all-branches"], "holds one path"),
        (["--last", "3"], "--last means nothing for the form pi"),
        (["--tools", "none", "--format", "openai"], "--tools means nothing"),
        (["--no-thinking"], "--no-thinking means nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(sample: Terminal, words: list[str], said: str) -> None:
    ran = sample.run("export", *words)
    assert (ran.code, ran.raw) == (2, b"")
    assert said in ran.err


def test_a_branch_is_exported_without_the_others(sample: Terminal) -> None:
    sample.ok("branch", "first-way", "--at", "072860a1")
    for form in ("pi", "json", "markdown", "html"):
        text = exported(sample, form, "--branch", "first-way")
        assert "Take the simple way first" in text
        assert "Two things" not in text
    assert "There is no branch nowhere" in sample.run("export", "--branch", "nowhere").err
    whole = exported(sample, "html")
    assert "Take the simple way first" in whole
    assert "Two things" in whole


def test_json_has_everything(sample: Terminal) -> None:
    told = json.loads(exported(sample, "json", "--all-branches"))
    assert told["format"] == "pi-session"
    assert told["session"]["name"] == "Nightly import loses its lease"
    assert len(told["entries"]) == 58
    assert told["wholeTree"] is True
    assert told["leaf"] == "4b1295b7"
    assert {label["text"] for label in told["labels"]} == {"renewal-works"}
    path = json.loads(exported(sample, "json"))
    lines = [json.loads(line) for line in exported(sample, "pi").splitlines()[1:]]
    ours = {entry["id"]: entry for entry in path["entries"]}
    messages = [line for line in lines if line["type"] == "message"]
    assert len(messages) > 30
    assert all(ours[line["id"]]["message"] == line["message"] for line in messages)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "pi", "--all-branches"], ""),
        (["--format", "json", "--all-branches"], ""),
        (["--format", "html"], ""),
        (["--format", "pi"], "Not in the pi file: 8 entries off the path"),
        (["--format", "markdown"], "Not in the markdown file: 8 entries off the path, 4 signatures of thinking, "),
        (
            ["--format", "openai"],
            "Not in the openai file: 8 entries off the path, 38 entries before the compaction, 1 label, "
            "1 name of the session, the session's folder, ids and times of 9 messages, the usage of 5 answers, "
            "the details of a message, further fields of a message; only as text: 1 compaction; "
            "otherwise: 1 message joined to the one before",
        ),
        (["--format", "anthropic"], "Not in the anthropic file: 8 entries off the path, 38 entries before the "),
        (["--format", "claude-code"], "Not in the claude-code file: 8 entries off the path, 1 label, 2 changes of "),
        (["--format", "codex"], "Not in the codex file: 8 entries off the path, 1 label, 1 system message, "),
    ],
)
def test_one_line_says_what_a_file_does_not_hold(
    sample_alone: Terminal, tmp_path: Path, words: list[str], said: str
) -> None:
    told = [line for line in sample_alone.ok("export", *words).err.splitlines() if not line.startswith("Warning")]
    assert len(told) == (said != "")
    assert "".join(told).startswith(said)
    losses = json.loads(sample_alone.ok("export", *words, "-o", str(tmp_path / "file"), "--json").out)["losses"]
    assert losses == {} if said == "" else losses["entries off the path"] == 8
    assert all(count >= 1 for count in losses.values())


@pytest.fixture(scope="module")
def sample_alone(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a shell with the demo's session, which no test changes."""
    shell = Terminal(tmp_path_factory.mktemp("losses"), cwd="/home/dev/tideline")
    shell.ok("import", str(SAMPLE))
    return shell


def test_every_form_but_the_page_counts_its_losses() -> None:
    """A page is a view, not read back by anything: it says nothing."""
    assert [form.name for form in FORMS if form.losses_function is None] == ["html"]


def test_the_readme_says_of_every_form_what_it_holds() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    table = readme.partition("| form | holds | does not hold |\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == NAMES


def checked_openai(messages: list[dict[str, Any]]) -> None:
    """Check what Chat Completions asks of a list: each call is answered once, directly after it, in order."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


def checked_anthropic(messages: list[dict[str, Any]]) -> None:
    """Check what Messages asks of a list: roles alternate, results come first after their calls."""
    assert [message["role"] for message in messages[::2]] == ["user"] * len(messages[::2])
    assert all(message["role"] == "assistant" for message in messages[1::2])
    for before, after in itertools.pairwise(messages):
        uses = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"]
        if before["role"] == "assistant":
            assert uses == results


@pytest.mark.parametrize("words", [[], ["--at", "84f30880"], ["--branch", "main"], ["--last", "3"]])
def test_message_lists_are_what_providers_take(sample: Terminal, words: list[str]) -> None:
    chat = json.loads(exported(sample, "openai", *words))
    checked_openai(chat["messages"])
    assert set(chat) <= {"model", "messages", "tools"}
    own = json.loads(exported(sample, "anthropic", *words))
    checked_anthropic(own["messages"])
    assert set(own) <= {"model", "system", "messages", "tools", "tool_choice"}
    assert "cache_control" not in json.dumps(own)
    for made in (chat, own):
        assert made["messages"][-1]["role"] == "assistant"
        assert "Continue." not in json.dumps(made["messages"][-1])


def test_a_list_starts_from_the_compaction_and_has_the_prompt(sample: Terminal) -> None:
    assert "## Goal" in str(json.loads(exported(sample, "openai"))["messages"][0])
    early = json.loads(exported(sample, "anthropic", "--at", "84f30880"))
    assert early["system"][0]["text"].startswith("You are a careful coding agent")


def test_nothing_to_export_is_said(shell: Terminal) -> None:
    shell.ok("new")
    for form in ("pi", "markdown", "openai", "anthropic"):
        ran = shell.run("export", "--format", form)
        assert ran.code == 1
        assert "empty" in ran.err
    assert "<main" in exported(shell, "html")
    assert json.loads(exported(shell, "json"))["entries"] == []


@pytest.mark.parametrize("form", NAMES)
def test_every_form_is_utf8_whatever_the_terminal_speaks(sample: Terminal, form: str) -> None:
    assert sample.ok("export", "--format", form, encoding="cp1252").raw == sample.ok("export", "--format", form).raw
    assert "リース喪失" in exported(sample, form)


@pytest.mark.parametrize(
    "case", ["s18-repeated-image/same-image-thrice", "s19-lone-surrogate/lone-surrogate", "s25-raw-html/raw-html"]
)
@pytest.mark.parametrize("form", NAMES)
def test_difficult_cases_go_out_in_every_form(shell: Terminal, form: str, case: str) -> None:
    shell.ok("import", str(CASES / f"{case}.jsonl"))
    text = exported(shell, form)
    assert text
    if form in ("json", "openai", "anthropic"):
        json.loads(text)


def test_pages_hold_the_whole_tree_and_only_they_do_by_themselves() -> None:
    assert [form.name for form in FORMS if form.holds == TREE] == ["html"]
    assert [form.name for form in FORMS if form.redact] == ["html"]


@pytest.mark.parametrize("form", NAMES)
def test_a_deep_chain_goes_out_in_every_form(deep: Terminal, form: str) -> None:
    assert "step 4999" in exported(deep, form)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a shell with one chain of 5,000 messages."""
    shell = Terminal(tmp_path_factory.mktemp("deep"))
    shell.ok("new")
    lines = "\n".join(json.dumps({"role": "user", "content": f"step {number}"}) for number in range(5000))
    shell.ok("append", "--json-lines", "-", stdin=lines.encode())
    return shell


def test_a_file_for_another_program_comes_with_the_command_that_goes_on_with_it(shell: Terminal) -> None:
    shell.cwd = str(shell.folder)
    shell.ok("new")
    shell.ok("append", "Hello")
    named = json.loads(shell.ok("ls", "--json").out)["sessions"][0]["id"]
    assert (
        "Next: claude --resume 'my talk.jsonl'\n"
        in shell.ok("export", "--format", "claude-code", "-o", "my talk.jsonl").err
    )
    told = shell.ok("export", "-o", "talk.codex.jsonl").err
    folder = r"~/\.codex/sessions/\d{4}/\d\d/\d\d"
    copied = rf"Next: mkdir -p ({folder}) && cp talk\.codex\.jsonl \1/rollout-[\dT-]{{19}}-{named}\.jsonl\n"
    assert re.search(copied + rf" +codex resume {named}\n", told), told
    assert "Next" not in shell.ok("export", "-o", "talk.jsonl").err
