"""Any path of any tree, cut anywhere, with any model: its provider takes the request, and it is always the same."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_loop.bodies import BodyOptions, body_for
from pi_loop.repair.well_formed import well_formed_text
from pi_loop.request import build_request
from pi_loop.target import LEVELS, PROTOCOLS, Target
from pi_sessions.stored import StoredEntry
from tests.loop.histories import MAKERS, clean_runs, trees
from tests.loop.request_support import CLAUDE, GLM, GPT, KIMI, broken_rules, context_at
from tests.loop.request_support import given as context

TARGETS = (*MAKERS, CLAUDE.replace(vision=False), CLAUDE.replace(compat={"forceAdaptiveThinking": True}))
options = st.builds(
    lambda level, tokens, temperature: BodyOptions(
        reasoning=level, max_tokens=tokens, temperature=temperature, session_id="s" * 70, cache_retention="long"
    ),
    st.sampled_from((None, *LEVELS)),
    st.sampled_from((None, 1, 3000)),
    st.sampled_from((None, 0.5)),
)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def user_texts(messages: tuple[Any, ...]) -> list[str]:
    """Return every text a user said that says something."""
    found = []
    for given_message in messages:
        if given_message.message["role"] == "user":
            content = given_message.message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            found += [block["text"] for block in blocks if block.get("type") == "text" and "text" in block]
    return [well_formed_text(said) for said in found if said.strip()]


def sent_texts(request: Any) -> list[str]:
    return [
        block["text"]
        for message in request.messages
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "text"
    ]


def check_any_history(entries: list[StoredEntry], targets: list[Target], chosen: BodyOptions) -> None:
    """Cut the tree at every entry and before the first."""
    for leaf in (None, *(entry.id for entry in entries)):
        messages = context_at(entries, leaf)
        before = repr(messages)
        for target in targets:
            request = build_request(messages, target)
            body = body_for(request, chosen)
            assert broken_rules(body, target) == []
            sent = sent_texts(request)
            assert [said for said in user_texts(messages) if said not in sent] == []
            again = build_request(copy.deepcopy(messages), target)
            assert json.dumps(body_for(again, chosen)) == json.dumps(body)
            assert again.repairs == request.repairs
        assert repr(messages) == before


three_targets = st.tuples(*(st.sampled_from([target for target in TARGETS if target.api == api]) for api in PROTOCOLS))


@settings(max_examples=500, deadline=None, suppress_health_check=SLOW)
@given(trees(), three_targets, options)
def test_any_history_gives_a_request_its_provider_takes(
    entries: list[StoredEntry], targets: list[Target], chosen: BodyOptions
) -> None:
    check_any_history(entries, targets, chosen)


@pytest.mark.soak
@settings(max_examples=10_000, deadline=None, suppress_health_check=SLOW)
@given(trees(), three_targets, options)
def test_any_history_gives_a_request_its_provider_takes_long(
    entries: list[StoredEntry], targets: list[Target], chosen: BodyOptions
) -> None:
    check_any_history(entries, targets, chosen)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from((CLAUDE, GPT, GLM, KIMI)))
def test_a_clean_history_needs_no_repair_and_keeps_its_prefix(data: st.DataObject, target: Target) -> None:
    """Caches hold: what was sent for the start of a conversation is the start of what is sent later."""
    messages = data.draw(clean_runs(target))
    request = build_request(context(*messages), target)
    assert request.repairs == ()
    key = {"openai-responses": "input"}.get(target.api, "messages")
    whole = body_for(request, BodyOptions(reasoning="high", cache_retention="none"))[key]
    asked = [place for place, message in enumerate(messages) if message["role"] in ("user", "toolResult")]
    cut = data.draw(st.sampled_from(asked))
    if messages[cut + 1 :][:1] and messages[cut + 1]["role"] == "toolResult":
        return
    earlier = build_request(context(*messages[: cut + 1]), target)
    assert earlier.repairs == ()
    start = body_for(earlier, BodyOptions(reasoning="high", cache_retention="none"))[key]
    assert whole[: len(start)] == start
