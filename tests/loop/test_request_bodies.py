"""What the bodies of the three protocols say beside the messages: cache marks, thinking, limits, and servers' ways."""

from typing import Any

import pytest

from pi_loop.bodies import BodyOptions, UnknownProtocolError, body_for
from pi_loop.request import build_request
from pi_loop.target import CHAT, Target, target_of
from pi_loop.types import Model, StreamOptions
from tests.loop.request_support import (
    CLAUDE,
    GLM,
    GPT,
    KIMI,
    Json,
    answer,
    broken_rules,
    call,
    given,
    result,
    system,
    text,
    user,
)

TOOLS = [{"name": "read", "description": "Read.", "parameters": {"type": "object"}}, {"name": "bash"}]
HISTORY = given(system("Be brief.", toolsAdded=TOOLS), user("a"), answer(call("c"), by=KIMI), result("c"), user("b"))


def body(target: Target, history: Any = HISTORY, **options: Any) -> Json:
    made = body_for(build_request(history, target), BodyOptions(**options))
    assert broken_rules(made, target) == []
    return made


def marks(value: Any) -> list[Any]:
    """Return every cache mark in a body, in order."""
    if isinstance(value, dict):
        own = [value["cache_control"]] if "cache_control" in value else []
        return own + [mark for inner in value.values() for mark in marks(inner)]
    return [mark for inner in value for mark in marks(inner)] if isinstance(value, list) else []


def test_anthropic_marks_the_prompt_the_last_tool_and_the_last_message() -> None:
    made = body(CLAUDE)
    short = {"type": "ephemeral"}
    assert made["system"] == [{"type": "text", "text": "Be brief.", "cache_control": short}]
    assert [tool.get("cache_control") for tool in made["tools"]] == [None, short]
    assert made["messages"][-1]["content"][-1] == {"type": "text", "text": "b", "cache_control": short}
    assert len(marks(made)) == 3


def test_cache_retention_sets_the_lifetime() -> None:
    assert marks(body(CLAUDE, cache_retention="none")) == []
    assert marks(body(CLAUDE, cache_retention="long")) == [{"type": "ephemeral", "ttl": "1h"}] * 3
    limited = CLAUDE.replace(compat={"supportsLongCacheRetention": False, "supportsCacheControlOnTools": False})
    assert marks(body(limited, cache_retention="long")) == [{"type": "ephemeral"}] * 2
    made = body(GPT, session_id="s" * 70, cache_retention="long")
    assert (made["prompt_cache_key"], made["prompt_cache_retention"]) == ("s" * 64, "24h")
    assert not {"prompt_cache_key", "prompt_cache_retention"} & body(GPT, session_id="s", cache_retention="none").keys()


@pytest.mark.parametrize(
    ("level", "budget"),
    [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16384), ("max", 16384)],
)
def test_anthropic_counts_thinking_in_tokens(level: str, budget: int) -> None:
    made = body(CLAUDE, given(user()), reasoning=level, temperature=0.5)
    assert made["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert "temperature" not in made


def test_thinking_budgets_can_be_set_and_leave_room_for_an_answer() -> None:
    made = body(CLAUDE, given(user()), reasoning="high", thinking_budgets={"high": 30_000}, max_tokens=2000)
    assert (made["thinking"]["budget_tokens"], made["max_tokens"]) == (30_000, 32_000)
    made = body(CLAUDE.replace(max_tokens=4000), given(user()), reasoning="high")
    assert (made["thinking"]["budget_tokens"], made["max_tokens"]) == (2976, 4000)
    made = body(CLAUDE.replace(max_tokens=1500), given(user()), reasoning="high")
    assert made["thinking"] == {"type": "disabled"}


def test_anthropic_thinks_adaptively_where_the_model_does() -> None:
    target = CLAUDE.replace(compat={"forceAdaptiveThinking": True}, thinking_levels={"xhigh": "xhigh", "max": "max"})
    efforts = {level: body(target, reasoning=level)["output_config"]["effort"] for level in ("minimal", "high", "max")}
    assert efforts == {"minimal": "low", "high": "high", "max": "high"}
    assert body(target, reasoning="medium")["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert "output_config" not in body(target)


def test_anthropic_does_not_begin_to_think_in_the_middle_of_a_tool_loop() -> None:
    own = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    begun = (answer(own, call("c")), result("c"), answer(call("d")), result("d"))
    assert body(CLAUDE, given(user(), *begun), reasoning="high")["thinking"]["type"] == "enabled"
    foreign = (answer(call("c"), by=GPT), result("c"))
    assert body(CLAUDE, given(user(), *foreign), reasoning="high")["thinking"] == {"type": "disabled"}
    after = (*foreign, answer(text("done"), by=GPT), user("next"))
    assert body(CLAUDE, given(user(), *after), reasoning="high")["thinking"]["type"] == "enabled"
    # The other way round: a model that is not to think gets no thinking in mid-turn.
    assert "hm" not in str(body(CLAUDE, given(user(), *begun)))


def test_anthropic_declares_tools_of_the_past_when_there_are_none_now() -> None:
    made = body(CLAUDE, given(user(), answer(call("c")), result("c")))
    assert [tool["name"] for tool in made["tools"]] == ["read"]
    assert made["tool_choice"] == {"type": "none"}


def test_openai_words_for_thinking() -> None:
    made = body(GPT, reasoning="high", temperature=0.5)
    assert made["reasoning"] == {"effort": "high", "summary": "auto"}
    assert made["include"] == ["reasoning.encrypted_content"]
    assert "temperature" not in made
    assert "reasoning" not in body(GPT)
    assert body(GPT.replace(thinking_levels={"off": "none"}))["reasoning"] == {"effort": "none"}
    assert body(GPT.replace(thinking_levels={"minimal": None}), reasoning="minimal")["reasoning"]["effort"] == "low"
    assert body(GPT, reasoning="max")["reasoning"]["effort"] == "high"
    assert body(GPT.replace(reasoning=False), reasoning="high", temperature=0.5)["temperature"] == 0.5
    made = body(GPT.replace(api=CHAT), reasoning="low")
    assert made["reasoning_effort"] == "low"
    assert "reasoning_effort" not in body(GPT.replace(api=CHAT))


@pytest.mark.parametrize(
    ("target", "on", "off"),
    [
        (
            GLM,
            {"thinking": {"type": "enabled", "clear_thinking": False}},
            {"thinking": {"type": "disabled"}},
        ),
        (
            Target("deepseek", "deepseek-reasoner", CHAT, reasoning=True),
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
            {"thinking": {"type": "disabled"}},
        ),
        (
            Target("openrouter", "x/y", CHAT, reasoning=True),
            {"reasoning": {"effort": "high"}},
            {"reasoning": {"effort": "none"}},
        ),
        (
            Target("local", "qwen3", CHAT, reasoning=True, compat={"thinkingFormat": "qwen"}),
            {"enable_thinking": True, "reasoning_effort": "high"},
            {"enable_thinking": False},
        ),
        (
            Target("local", "m", CHAT, reasoning=True, compat={"thinkingFormat": "qwen-chat-template"}),
            {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
            {"chat_template_kwargs": {"enable_thinking": False, "preserve_thinking": True}},
        ),
        (
            Target("together", "m", CHAT, reasoning=True),
            {"reasoning": {"enabled": True}},
            {"reasoning": {"enabled": False}},
        ),
        (KIMI, {}, {}),
    ],
    ids=lambda value: value.provider if isinstance(value, Target) else "",
)
def test_servers_of_the_chat_protocol_are_asked_to_think_in_their_own_way(target: Target, on: Json, off: Json) -> None:
    fields = ("thinking", "reasoning", "reasoning_effort", "enable_thinking", "chat_template_kwargs")

    def asked(level: str | None) -> Json:
        made = body_for(build_request(HISTORY, target), BodyOptions(reasoning=level))
        return {field: made[field] for field in fields if field in made}

    assert (asked("high"), asked(None)) == (on, off)


def test_the_answer_is_limited_to_what_the_window_leaves() -> None:
    assert body(GPT)["max_output_tokens"] == 128_000
    assert body(GPT, max_tokens=500)["max_output_tokens"] == 500
    assert body(GPT, max_tokens=3)["max_output_tokens"] == 16
    small = KIMI.replace(context_window=8192, max_tokens=8192)
    assert 7000 < body(small)["max_tokens"] < 8192 - 400
    full = given(user("word " * 8000))
    assert body(small, full)["max_tokens"] == 1024
    assert body(CLAUDE, given(user("word " * 120_000)))["max_tokens"] == 32_768
    assert "max_tokens" not in body(KIMI)
    assert body(GPT.replace(api=CHAT))["max_completion_tokens"] == 128_000
    assert body(CLAUDE.replace(context_window=0, max_tokens=0))["max_tokens"] == 8192


def test_roles_of_the_prompt_follow_the_server() -> None:
    assert body(GPT)["input"][0] == {"role": "developer", "content": "Be brief."}
    assert body(GPT.replace(reasoning=False))["input"][0]["role"] == "system"
    assert body(GPT.replace(api=CHAT))["messages"][0]["role"] == "developer"
    assert body(GLM)["messages"][0]["role"] == "system"


def test_settings_of_a_server_change_the_conversation() -> None:
    compat = {
        "requiresToolResultName": True,
        "requiresAssistantAfterToolResult": True,
        "supportsUsageInStreaming": False,
        "maxTokensField": "max_completion_tokens",
    }
    made = body_for(build_request(HISTORY, KIMI.replace(compat=compat, max_tokens=99)), BodyOptions())
    assert made["messages"][2]["content"] == ""
    assert made["messages"][3]["name"] == "read"
    assert made["messages"][4] == {"role": "assistant", "content": "I have processed the tool results."}
    assert "stream_options" not in made
    assert made["max_completion_tokens"] == 99


def test_thinking_as_text_and_on_every_answer() -> None:
    def said(maker: Target) -> Json:
        own = {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning"}
        history = given(user(), answer(own, text("t"), by=maker), user(), answer(text("u"), by=CLAUDE), user())
        made: Json = body_for(build_request(history, maker), BodyOptions())
        return made

    as_text = said(GLM.replace(compat={"requiresThinkingAsText": True}))["messages"]
    assert as_text[1] == {"role": "assistant", "content": "hm\nt"}
    deepseek = said(Target("deepseek", "r1", CHAT, reasoning=True))["messages"]
    assert (deepseek[1]["reasoning"], deepseek[3]["reasoning_content"]) == ("hm", "")


def test_reasoning_details_go_back_whole() -> None:
    details = '[{"type":"reasoning.encrypted","data":"x","id":"r1"}]'
    maker = Target("openrouter", "openai/gpt-5", CHAT, reasoning=True)
    own = {"type": "thinking", "thinking": "", "thinkingSignature": details}
    made = body(maker, given(user(), answer(own, text("t"), by=maker), user()))
    assert made["messages"][1]["reasoning_details"] == [{"type": "reasoning.encrypted", "data": "x", "id": "r1"}]


def test_a_gateway_to_anthropic_gets_cache_marks() -> None:
    target = Target("openrouter", "anthropic/claude-sonnet-4-5", CHAT)
    made = body_for(build_request(HISTORY, target), BodyOptions())
    assert len(marks(made)) == 3
    assert made["messages"][-1]["content"] == [{"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]


def test_mistral_gets_ids_of_nine_letters() -> None:
    target = Target("mistral", "devstral", CHAT)
    made = body(target)
    sent = made["messages"][2]["tool_calls"][0]["id"]
    assert sent.isalnum()
    assert len(sent) == 9


def test_a_model_and_stream_options_fit_as_they_are() -> None:
    data = {"id": "m", "api": "anthropic-messages", "provider": "p", "baseUrl": "http://x", "reasoning": True}
    more = {"input": ["text", "image"], "maxTokens": 20_000, "thinkingLevelMap": {"minimal": None}}
    target = target_of(Model.model_validate({**data, **more}))
    assert target.vision
    assert target.level("minimal") == "low"
    made = body_for(build_request(HISTORY, target), StreamOptions(reasoning="low", metadata={"user_id": "u", "x": 1}))
    assert made["metadata"] == {"user_id": "u"}
    assert made["max_tokens"] == 20_000


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(UnknownProtocolError, match="google"):
        body_for(build_request(HISTORY, CLAUDE.replace(api="google")), BodyOptions())
