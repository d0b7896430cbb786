"""Known and configured models, what can be used now, which one is meant, and where keys come from."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pi_loop.models.catalog import abilities_of, all_known_models, known_model
from pi_loop.models.custom import ModelsConfig, config_folders, load_config
from pi_loop.models.discovery import served_models
from pi_loop.models.providers import PROVIDERS
from pi_loop.models.registry import (
    ModelNotFoundError,
    all_models,
    credentials,
    find_model,
    local_models,
    usable_models,
)
from pi_loop.models.values import CommandFailedError, missing_variables, resolve, run_command, source_of
from pi_loop.target import ANTHROPIC, CHAT, PROTOCOLS, RESPONSES, target_of
from pi_loop.types import Model
from pi_sessions.errors import AmbiguousReferenceError
from pi_sessions.messages import to_wire

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SECRET = "not-a-real-key-0123456789"
PI_MODELS = {
    "providers": {
        "ollama": {
            "baseUrl": "http://localhost:11434/v1",
            "api": "openai-completions",
            "apiKey": "ollama",
            "compat": {"supportsDeveloperRole": False},
            "models": [
                {"id": "llama3.1:8b"},
                {"id": "gpt-oss:20b", "reasoning": True, "compat": {"supportsReasoningEffort": False}},
            ],
        },
        "proxy": {
            "baseUrl": "https://proxy.invalid/v1",
            "apiKey": "$PROXY_KEY",
            "api": "anthropic-messages",
            "authHeader": True,
            "headers": {"x-team": "${TEAM}-a", "x-secret": "!print-secret"},
            "models": [
                {
                    "id": "big",
                    "name": "Big One",
                    "reasoning": True,
                    "input": ["text", "image"],
                    "contextWindow": 500_000,
                    "cost": {"input": 1, "output": 2, "tiers": [{"inputTokensAbove": 10, "input": 5}]},
                    "thinkingLevelMap": {"off": None, "max": "max"},
                },
                {"id": "gemini", "api": "google-generative-ai"},
            ],
        },
        "anthropic": {
            "baseUrl": "https://gateway.invalid",
            "modelOverrides": {"claude-sonnet-4-5": {"contextWindow": 1_000_000, "cost": {"input": 9}}},
        },
    }
}


def folder(path: Path, models: object = None, auth: object = None) -> Path:
    path.mkdir(parents=True)
    for name, content in (("models.json", models), ("auth.json", auth)):
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path) -> ModelsConfig:
    return load_config([folder(tmp_path / "pi", PI_MODELS), tmp_path / "none"])


def find(text: str, config: ModelsConfig | None = None, **environ: str) -> Model:
    return find_model(text, config or ModelsConfig(), environ=environ, now=lambda: NOW)


# --- known models -----------------------------------------------------------------------------------------------


def test_catalogue_knows_windows_and_prices() -> None:
    models = {(model.provider, model.id): model for model in all_known_models(NOW)}
    sonnet = models["anthropic", "claude-sonnet-4-5"]
    assert (sonnet.api, sonnet.context_window, sonnet.max_tokens) == (ANTHROPIC, 200_000, 64_000)
    assert (sonnet.cost.input, sonnet.cost.output, sonnet.cost.cache_read) == (3, 15, 0.3)
    assert (sonnet.cost.model_extra or {})["tiers"][0]["inputTokensAbove"] == 200_000
    assert models["openai", "gpt-5"].api == RESPONSES
    assert models["deepseek", "deepseek-v4-pro"].api == CHAT
    assert ("zai", "glm-4.7") in models
    assert not [name for _, name in models if "embedding" in name or "whisper" in name or "-tts" in name]


def test_prices_are_those_of_the_moment() -> None:
    provider = PROVIDERS["deepseek"]
    before = known_model(provider, "deepseek-v4-pro", datetime(2026, 8, 1, 12, tzinfo=UTC))
    after = known_model(provider, "deepseek-v4-pro", datetime(2026, 9, 1, 12, tzinfo=UTC))
    assert before is not None
    assert after is not None
    assert before.cost.input < after.cost.input


@pytest.mark.parametrize(
    ("model_id", "vision", "reasoning", "max_tokens"),
    [
        ("claude-3-haiku-20240307", True, False, 4096),
        ("claude-3-5-sonnet", True, False, 8192),
        ("claude-sonnet-4-5-20250929", True, True, 64_000),
        ("claude-opus-4-1", True, True, 32_000),
        ("claude-sonnet-4-6", True, True, 128_000),
        ("claude-opus-9-9", True, True, 128_000),
        ("anthropic/claude-sonnet-4.5", True, True, 64_000),
        ("gpt-4o-mini", True, False, 16_384),
        ("gpt-4.1", True, False, 32_768),
        ("gpt-5", True, True, 128_000),
        ("gpt-7-sol", True, True, 128_000),
        ("o3-mini", False, True, 100_000),
        ("gemini-2.5-pro", True, True, 65_536),
        ("deepseek-chat", False, True, 8192),
        ("brand-new-thing", False, False, 16_384),
    ],
)
def test_abilities_follow_the_family(model_id: str, vision: bool, reasoning: bool, max_tokens: int) -> None:
    abilities = abilities_of(model_id)
    assert (abilities.vision, abilities.reasoning, abilities.max_tokens) == (vision, reasoning, max_tokens)


@pytest.mark.parametrize(
    ("name", "wanted", "sent"),
    [
        ("anthropic/claude-sonnet-4-5", "xhigh", "high"),
        ("anthropic/claude-opus-4-7", "xhigh", "xhigh"),
        ("openai/gpt-5", "minimal", "minimal"),
        ("openai/gpt-5.1", "minimal", "low"),
        ("openai/gpt-5-pro", "low", "high"),
        ("openai/gpt-4o", "high", "off"),
    ],
)
def test_thinking_levels_are_what_the_model_has(name: str, wanted: str, sent: str) -> None:
    target = target_of(find(name))
    assert target.level(wanted) == sent


# --- configured models ------------------------------------------------------------------------------------------


def test_models_json_of_pi_works_unchanged(config: ModelsConfig) -> None:
    assert config.problems == ()
    llama = find("ollama/llama3.1:8b", config)
    assert (llama.api, llama.base_url) == (CHAT, "http://localhost:11434/v1")
    assert (llama.context_window, llama.max_tokens, llama.input, llama.cost.input) == (128_000, 16_384, ["text"], 0)
    assert llama.compat == {"supportsDeveloperRole": False}
    gpt = find("gpt-oss:20b", config)
    assert gpt.compat == {"supportsDeveloperRole": False, "supportsReasoningEffort": False}
    big = find("Big One", config)
    assert (big.provider, big.id, big.context_window) == ("proxy", "big", 500_000)
    assert (big.model_extra or {})["authHeader"] is True
    assert target_of(big).level("max") == "max"


def test_known_models_can_be_changed(config: ModelsConfig) -> None:
    sonnet = find("anthropic/claude-sonnet-4-5", config)
    assert sonnet.base_url == "https://gateway.invalid"
    assert (sonnet.context_window, sonnet.cost.input, sonnet.cost.output) == (1_000_000, 9, 15)
    other = find("anthropic/claude-opus-4-5", config)
    assert (other.base_url, other.context_window) == ("https://gateway.invalid", 200_000)


def test_own_folder_goes_before_pis(tmp_path: Path) -> None:
    own = {"providers": {"ollama": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "mine", "api": CHAT}]}}}
    loaded = load_config([folder(tmp_path / "pi", PI_MODELS), folder(tmp_path / "own", own)])
    assert loaded.providers["ollama"].base_url == "http://127.0.0.1:9/v1"
    assert {model.id for model in loaded.providers["ollama"].models} == {"llama3.1:8b", "gpt-oss:20b", "mine"}
    assert loaded.providers["ollama"].key == "ollama"


def test_folders_follow_pis_variable(tmp_path: Path) -> None:
    own, home = tmp_path / "own", tmp_path / "home"
    assert config_folders(own, home, {}) == [home / ".pi" / "agent", own]
    assert config_folders(own, home, {"PI_CODING_AGENT_DIR": "/elsewhere"}) == [Path("/elsewhere"), own]


def test_comments_and_last_commas_are_read(tmp_path: Path) -> None:
    text = """{
      // mine
      "providers": {"x": {"baseUrl": "http://localhost:1/v1", /* chat */ "api": "openai-completions",
        "models": [{"id": "a//b", "name": "say \\"hi\\", // no"},],},
      },
    }"""
    loaded = load_config([folder(tmp_path / "own", text)])
    assert loaded.problems == ()
    assert [(model.id, model.name) for model in loaded.providers["x"].models] == [("a//b", 'say "hi", // no')]


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ({}, "there is no object `providers`"),
        ({"providers": {"x": 1}}, "provider x is not an object"),
        ({"providers": {"x": {"baseUrl": "u", "models": [{"id": "m"}]}}}, "has no `api`"),
        ({"providers": {"x": {"api": "a", "models": [{"id": "m"}]}}}, "has no `baseUrl`"),
        ({"providers": {"x": {"api": "a", "baseUrl": "u", "models": [{"name": "m"}]}}}, "has no id"),
        (
            {
                "providers": {
                    "x": {"api": "a", "baseUrl": "u", "apiKey": SECRET, "models": [{"id": "m", "reasoning": [SECRET]}]}
                }
            },
            "reasoning",
        ),
    ],
)
def test_what_cannot_be_used_is_told(models: object, problem: str, tmp_path: Path) -> None:
    good = {"providers": {"good": {"api": CHAT, "baseUrl": "http://localhost/v1", "models": [{"id": "m"}]}}}
    loaded = load_config([folder(tmp_path / "pi", good), folder(tmp_path / "own", models)])
    assert len(loaded.problems) == 1
    assert problem in loaded.problems[0]
    assert str(tmp_path / "own") in loaded.problems[0]
    assert SECRET not in loaded.problems[0]
    assert "good" in loaded.providers


# --- keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("PLAIN_UPPER", "PLAIN_UPPER"),
        ("$A", "1"),
        ("${A}_${B}", "1_2"),
        ("x$A-y", "x1-y"),
        ("$$A", "$A"),
        ("$!go", "!go"),
        ("!cmd $A", "ran cmd $A"),
        ("100$", "100$"),
    ],
)
def test_values_stand_for_variables_and_commands(text: str, value: str) -> None:
    resolved = resolve(text, {"A": "1", "B": "2"}, run=lambda command: f"ran {command}")
    assert resolved.value == value


def test_missing_variable_is_named() -> None:
    resolved = resolve("$A-$NOPE", {"A": SECRET})
    assert resolved.value is None
    assert resolved.reason == "NOPE is not set"
    assert missing_variables("$A-$NOPE", {"A": "1"}) == ["NOPE"]
    assert missing_variables("!echo $NOPE", {}) == []
    assert (source_of("!x"), source_of("$A$B"), source_of("k")) == ("a command", "$A, $B", "the configuration file")


def test_commands_are_run_without_showing_what_they_print() -> None:
    assert run_command(f"echo '  {SECRET} '") == SECRET
    for command in (f"echo {SECRET}; exit 3", "true", f"echo {SECRET} >&2; exit 1"):
        with pytest.raises(CommandFailedError) as caught:
            run_command(command)
        assert SECRET not in str(caught.value)


def test_key_comes_from_settings_then_file_then_environment(tmp_path: Path, config: ModelsConfig) -> None:
    environ = {"ANTHROPIC_API_KEY": "from-environment", "PROXY_KEY": "from-file", "TEAM": "blue"}

    def run(command: str) -> str:
        assert command == "print-secret"
        return SECRET

    found = credentials("proxy", environ, config, run=run)
    assert found.api_key == "from-file"
    assert found.headers == {"x-team": "blue-a", "x-secret": SECRET}
    assert SECRET not in repr(found)
    assert "from-file" not in repr(found)
    assert credentials("anthropic", environ, config).api_key == "from-environment"
    with_keys = dataclasses.replace(config, keys={"anthropic": "from-settings"})
    assert credentials("anthropic", environ, with_keys).api_key == "from-settings"
    assert credentials("anthropic", {}, config).api_key is None
    broken = credentials("proxy", {"TEAM": "t"}, config, run=run)
    assert broken.api_key is None
    assert broken.reason == "key of proxy: PROXY_KEY is not set"


def test_keys_in_pis_login_file_are_used_and_its_logins_told(tmp_path: Path) -> None:
    auth = {"openai": {"type": "api_key", "key": SECRET}, "anthropic": {"type": "oauth", "access": SECRET}}
    loaded = load_config([folder(tmp_path / "pi", auth=auth)])
    assert credentials("openai", {}, loaded).api_key == SECRET
    listed = {entry.model.provider: entry for entry in usable_models({}, loaded, now=lambda: NOW)}
    assert listed["openai"].usable
    assert not listed["anthropic"].usable
    assert "OAuth" in listed["anthropic"].reason
    assert SECRET not in " ".join(entry.reason for entry in listed.values())


# --- usable models ----------------------------------------------------------------------------------------------


def test_usable_models_say_why(config: ModelsConfig) -> None:
    listed = usable_models({"OPENAI_API_KEY": SECRET, "TEAM": "x"}, config, now=lambda: NOW)
    by_name = {f"{entry.model.provider}/{entry.model.id}": entry for entry in listed}
    assert by_name["openai/gpt-5"][1:] == (True, "key from $OPENAI_API_KEY")
    assert by_name["ollama/llama3.1:8b"][1:] == (True, "key from the configuration file")
    assert by_name["proxy/big"][1:] == (False, "PROXY_KEY is not set")
    assert by_name["proxy/gemini"][1:] == (False, "its protocol google-generative-ai is not supported")
    assert by_name["anthropic/claude-sonnet-4-5"][1:] == (False, "set ANTHROPIC_API_KEY")
    usable = [entry.usable for entry in listed]
    assert usable == sorted(usable, reverse=True)
    assert SECRET not in repr(listed)
    assert all(entry.model.api in PROTOCOLS for entry in listed if entry.usable)


def test_models_hold_no_secrets(config: ModelsConfig) -> None:
    """What goes into a session or a log may hold a whole model."""
    assert "PROXY_KEY" not in json.dumps([to_wire(model) for model in all_models(config, now=lambda: NOW)])


def test_local_server_needs_no_key(tmp_path: Path) -> None:
    models = {"providers": {"mine": {"baseUrl": "http://127.0.0.1:1/v1", "api": CHAT, "models": [{"id": "m"}]}}}
    loaded = load_config([folder(tmp_path / "own", models)])
    entry = next(entry for entry in usable_models({}, loaded, now=lambda: NOW) if entry.model.provider == "mine")
    assert entry[1:] == (True, "needs no key")


# --- finding one ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        (" anthropic/claude-sonnet-4-5-20250929 ", "anthropic/claude-sonnet-4-5-20250929"),
        ("zai/glm-4.7", "zai/glm-4.7"),
        ("ollama/qwen3:4b", "ollama/qwen3:4b"),
        ("llama.cpp/anything", "llama.cpp/anything"),
        ("openrouter/maker/model-of-tomorrow", "openrouter/maker/model-of-tomorrow"),
        ("gpt-5.1", "openai/gpt-5.1"),
        ("claude-opus-4-7", "anthropic/claude-opus-4-7"),
        ("GPT-5.1-CODEX-M", "openai/gpt-5.1-codex-mini"),
    ],
)
def test_model_is_found_by_name_or_part(text: str, label: str) -> None:
    found = find(text, ANTHROPIC_API_KEY="x", OPENAI_API_KEY="x")
    assert f"{found.provider}/{found.id}" == label


def test_dated_name_has_the_models_window() -> None:
    assert find("anthropic/claude-sonnet-4-5-20250929").context_window == 200_000


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("anthropic/claude-sonet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gpt5", "openai/gpt-5"),
        ("zzzzzz", "pi-session models"),
        ("", "provider/model"),
        ("  ", "provider/model"),
        ("nobody/gpt-5", "gpt-5"),
    ],
)
def test_unknown_model_is_refused_with_a_way_on(text: str, hint: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        find(text)
    assert hint in (caught.value.hint or "")


def test_ambiguous_part_lists_its_candidates() -> None:
    with pytest.raises(AmbiguousReferenceError) as caught:
        find("sonnet", ANTHROPIC_API_KEY="x")
    assert "anthropic/claude-sonnet-4-5" in caught.value.candidates
    assert all(candidate.startswith("anthropic/") for candidate in caught.value.candidates)
    assert "anthropic/claude-sonnet-4-5" in caught.value.message


# --- asking a server --------------------------------------------------------------------------------------------


def served(answer: Any, **more: Any) -> Any:
    def open_http() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(answer))

    async def main() -> Any:
        return await served_models("http://localhost:1/v1", open_http=open_http, **more)

    return anyio.run(main)


def test_server_lists_its_models() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://localhost:1/v1/models"
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        return httpx.Response(200, json={"data": [{"id": "a"}, {"id": "b"}, {"no": "id"}, 7]})

    found = served(answer, api_key=SECRET)
    assert (found.ids, found.reason) == (("a", "b"), None)
    models = local_models("ollama", list(found.ids))
    assert [(model.provider, model.id, model.base_url) for model in models] == [
        ("ollama", "a", "http://127.0.0.1:11434/v1"),
        ("ollama", "b", "http://127.0.0.1:11434/v1"),
    ]


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(401, json={"error": {"message": f"bad key {SECRET}"}}),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"data": None}),
    ],
)
def test_server_without_a_list_is_an_answer(response: httpx.Response) -> None:
    found = served(lambda _request: response, api_key=SECRET)
    assert found.ids == ()
    assert found.reason
    assert SECRET not in found.reason


def test_absent_server_is_an_answer() -> None:
    def answer(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    assert "Cannot connect" in served(answer).reason
