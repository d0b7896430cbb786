"""Folds the system messages of a context into one prompt and one list of tools.

Wherever they stand, they are state and not talk: later text is added, sections are replaced by name or removed, tools
are removed and added in order. `pi_loop.declarations` does the same on message models.

Source: Pi 1.6.0, "Tool declarations", for providers without system messages in mid-conversation.
"""

from __future__ import annotations

from pi_loop.repair.call_ids import sent_tool_name
from pi_loop.repair.inputs import reported_text
from pi_loop.repair.parameters import sent_parameters
from pi_loop.repair.well_formed import well_formed_value
from pi_sessions.context import content_text
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.repair.report import Report
    from pi_sessions.stored import JsonObject


class Prompt(Record):
    """The prompt in force and the tools declared; `tool_names` has the declared name of each tool sent as another."""

    text: str
    tools: tuple[JsonObject, ...]
    tool_names: dict[str, str]


class PromptState:
    """Takes system messages in order and gives the prompt they add up to."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._texts: list[str] = []
        self._sections: dict[str, str] = {}
        self._tools: dict[str, JsonObject] = {}

    def add(self, message: JsonObject, entry_id: str) -> None:
        """Apply one system message."""
        text = content_text(message.get("content"))
        if text.strip():
            self._texts.append(reported_text(text, self._report, entry_id))
        sections = message.get("sections")
        for name, value in sections.items() if isinstance(sections, dict) else ():
            if isinstance(value, str):
                self._sections[name] = reported_text(value, self._report, entry_id)
            else:
                self._sections.pop(name, None)
        for tool in _objects(message.get("toolsRemoved")):
            self._tools.pop(_name(tool), None)
        for tool in _objects(message.get("toolsAdded")):
            if _name(tool):
                self._tools[_name(tool)] = self._declared(tool, entry_id)
            else:
                self._report.fault("nameless_tool", "A tool declared without a name is left out", entry_id)

    def prompt(self) -> Prompt:
        """Return what the messages so far add up to."""
        texts = [*self._texts, *(value for value in self._sections.values() if value.strip())]
        names = {tool["name"]: name for name, tool in self._tools.items() if tool["name"] != name}
        return Prompt("\n\n".join(texts), tuple(self._tools.values()), names)

    def _declared(self, tool: JsonObject, entry_id: str) -> JsonObject:
        name, description, parameters = _name(tool), tool.get("description"), tool.get("parameters")
        sent = sent_tool_name(name)
        if sent != name:
            self._report.adapt("tool_name", f"The tool {name} is called {sent} in requests", entry_id)
        schema, wrong = sent_parameters(parameters)
        if wrong:
            self._report.fault("bad_parameters", f"The parameters of {name} {wrong}", entry_id)
        return {
            "name": sent,
            "description": reported_text(description, self._report, entry_id) if isinstance(description, str) else "",
            "parameters": dict(well_formed_value(schema)),
        }


def _name(tool: JsonObject) -> str:
    name = tool.get("name")
    return name if isinstance(name, str) else ""


def _objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
