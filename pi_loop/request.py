"""Turns a context into a request that no provider refuses; all repair is here and in the steps of `pi_loop.repair`.

Pure: the same context and target give the same request, so provider caches hold. The store is never touched; what was
left out, changed or added is reported, entry by entry. Invariants of a built request: it begins with a user message
and ends with one or with a tool result; user messages and answers alternate; each call has exactly one result, directly
after its answer and in call order; no text is blank; call ids are unique and fit the protocol; thinking is the
receiver's own. Bodies are made of it by `pi_loop.bodies`. It does not know transport, keys or prices.
"""

from __future__ import annotations

from pi_loop.repair.answers import answer_blocks, is_own, is_unfinished
from pi_loop.repair.call_ids import CallIds, sent_tool_name
from pi_loop.repair.inputs import NO_OUTPUT, input_blocks
from pi_loop.repair.prompt import PromptState
from pi_loop.repair.report import Repair, Report
from pi_loop.target import Target
from pi_sessions.context import ContextMessage, blocks_of, to_llm
from pi_sessions.pairing import Pairing, pair_results
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pi_sessions.messages import Message
    from pi_sessions.stored import JsonObject

__all__ = ["BuiltRequest", "Repair", "build_request", "wire_messages"]

INTERRUPTED = (
    "[interrupted: no result of this call was recorded. The tool may have run, in part or in full; "
    "check before running it again]"
)
CONTINUE = "Continue."
BEGINNING = "(The beginning of the conversation is not available.)"
_SILENT_ROLES = ("bashExecution", "branchSummary")


class BuiltRequest(Record):
    """A context made ready for one model.

    Attributes:
        target: The model.
        system: The prompt in force; empty when there is none.
        tools: Declared tools: `name`, `description`, `parameters`.
        messages: In Pi's shape, roles user, assistant and toolResult. Thinking blocks hold the protocol's own form
            under `wire`; calls and texts may have an `itemId` (Responses).
        repairs: What differs from the context, in its order.
        tool_names: The declared name of each tool whose name the protocol does not accept, by the name sent.
    """

    target: Target
    system: str
    tools: tuple[JsonObject, ...]
    messages: tuple[JsonObject, ...]
    repairs: tuple[Repair, ...]
    tool_names: dict[str, str]

    def declared_name(self, sent: str) -> str:
        """Return the declared name of a tool that a model calls by the name it was sent."""
        return self.tool_names.get(sent, sent)


class _Item(Record):
    """One message on its way into the request, with its content as blocks."""

    entry_id: str
    role: str
    message: JsonObject
    blocks: list[JsonObject]


def build_request(messages: Iterable[ContextMessage], target: Target) -> BuiltRequest:
    """Build the request for a context.

    Args:
        messages: The context's messages with their entry ids, all roles; they are not changed.
        target: The model that receives it.

    Source: Pi 1.6.0, request building. Differs in that results are paired wherever they were stored, ids cannot
        collide, unreadable signatures are dropped, an unfinished answer keeps its calls that have results, roles
        alternate, and the request never ends on an answer.
    """
    report = Report()
    prompt = PromptState(report)
    items = _items(messages, prompt, report)
    pairing = pair_results(
        [item.role for item in items],
        [item.blocks for item in items],
        [_text(item.message.get("toolCallId")) if item.role == "toolResult" else "" for item in items],
    )
    built = _Conversation(target, report, items, pairing).build()
    folded = prompt.prompt()
    return BuiltRequest(target, folded.text, folded.tools, tuple(built), tuple(report), folded.tool_names)


def wire_messages(messages: Sequence[Message]) -> list[ContextMessage]:
    """Return message models as `build_request` takes them; they come from no entry."""
    return [ContextMessage("", message.model_dump()) for message in messages]


def _items(messages: Iterable[ContextMessage], prompt: PromptState, report: Report) -> list[_Item]:
    items: list[_Item] = []
    for given in messages:
        projected = to_llm(given.message)
        role = given.message.get("role")
        if not projected and role not in _SILENT_ROLES:
            report.adapt("unknown_role", f"A message of role {role!r} is not sent", given.entry_id)
        for message in projected:
            if message["role"] == "system":
                prompt.add(message, given.entry_id)
            else:
                items.append(_Item(given.entry_id, message["role"], message, blocks_of(message.get("content"))))
    return items


class _Conversation:
    """Builds the messages of one request."""

    def __init__(self, target: Target, report: Report, items: list[_Item], pairing: Pairing) -> None:
        self._target = target
        self._report = report
        self._items = items
        self._pairing = pairing
        self._ids = CallIds(target)
        self._built: list[JsonObject] = []

    def build(self) -> list[JsonObject]:
        for index, item in enumerate(self._items):
            if item.role == "user":
                self._user(item)
            elif item.role == "assistant":
                self._answer(index, item)
            else:
                self._stored_result(index, item)
        self._close()
        return self._built

    def _user(self, item: _Item) -> None:
        blocks = input_blocks(item.blocks, self._target, self._report, item.entry_id, tool=False)
        if blocks:
            self._add("user", blocks)
        else:
            self._report.fault("empty_message", "A user message with nothing to send is skipped", item.entry_id)

    def _answer(self, index: int, item: _Item) -> None:
        unfinished = is_unfinished(item.message)
        answered = {place for place in range(len(item.blocks)) if (index, place) in self._pairing.results}
        if unfinished and not answered:
            reason = item.message.get("stopReason")
            sentence = f"An answer that was cut off (stop reason {reason}) is not sent"
            self._report.adapt("unfinished_answer", sentence, item.entry_id)
            return
        kept = answer_blocks(item.message, item.blocks, answered, self._target, self._report, item.entry_id)
        if not kept:
            self._report.fault("empty_message", "An answer with nothing to send is skipped", item.entry_id)
            return
        if unfinished:
            sentence = "Of an answer that was cut off, its text and the calls that have a result are sent"
            self._report.adapt("unfinished_answer", sentence, item.entry_id)
        own = is_own(item.message, self._target)
        results: list[JsonObject] = []
        for place, block in kept:
            if block["type"] == "toolCall":
                self._name_call(block, item.entry_id, own=own)
                results.append(self._result(index, place, block, item.entry_id))
        self._add("assistant", [block for _, block in kept])
        self._built.extend(results)

    def _name_call(self, call: JsonObject, entry_id: str, *, own: bool) -> None:
        stored_id, stored_name = call["id"], call["name"]
        call["id"] = self._ids.sent(stored_id, own=own)
        call["name"] = sent_tool_name(stored_name)
        if call["id"] != stored_id and not stored_id.startswith(f"{call['id']}|"):
            sentence = f"The call id {_short(stored_id)} is sent as {call['id']}, in the call and in its result"
            self._report.adapt("call_id", sentence, entry_id)
        if call["name"] != stored_name:
            sentence = f"The tool {_short(stored_name)} is called {call['name']} in requests"
            self._report.adapt("tool_name", sentence, entry_id)

    def _result(self, index: int, place: int, call: JsonObject, entry_id: str) -> JsonObject:
        made = {"role": "toolResult", "toolCallId": call["id"], "toolName": call["name"]}
        found = self._pairing.results.get((index, place))
        if found is None:
            sentence = f"The call {call['id']} of {call['name']} has no result: an error result stands for it"
            self._report.fault("missing_result", sentence, entry_id)
            return {**made, "content": [{"type": "text", "text": INTERRUPTED}], "isError": True}
        item = self._items[found]
        blocks = input_blocks(item.blocks, self._target, self._report, item.entry_id, tool=True)
        if not blocks:
            self._report.adapt("empty_result", "An empty result is sent as a text that says so", item.entry_id)
            blocks = [{"type": "text", "text": NO_OUTPUT}]
        return {**made, "content": blocks, "isError": item.message.get("isError") is True}

    def _stored_result(self, index: int, item: _Item) -> None:
        stored = _short(_text(item.message.get("toolCallId")))
        if index in self._pairing.strays:
            sentence = f"A result of {stored} is not sent: its call is not before it on this path"
            self._report.fault("stray_result", sentence, item.entry_id)
        elif index in self._pairing.duplicates:
            self._report.fault("duplicate_result", f"A second result of {stored} is not sent", item.entry_id)
        elif index in self._pairing.moved:
            self._report.fault("moved_result", f"The result of {stored} is sent directly after its call", item.entry_id)

    def _add(self, role: str, blocks: list[JsonObject]) -> None:
        if self._built and self._built[-1]["role"] == role:
            self._built[-1]["content"].extend(blocks)
        else:
            self._built.append({"role": role, "content": blocks})

    def _close(self) -> None:
        built, report = self._built, self._report
        if not built:
            report.adapt("nothing_to_send", f"There is no message to send: “{CONTINUE}” is sent", None)
        elif built[0]["role"] != "user":
            report.fault("answer_first", "The context starts with an answer: a user message is sent before it", None)
            built.insert(0, {"role": "user", "content": [{"type": "text", "text": BEGINNING}]})
        if not built or built[-1]["role"] == "assistant":
            if built:
                sentence = f"The context ends with an answer: “{CONTINUE}” is sent after it"
                report.adapt("answer_last", sentence, None)
            built.append({"role": "user", "content": [{"type": "text", "text": CONTINUE}]})


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
