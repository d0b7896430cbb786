"""Runs one loop scenario on the backend it is called from and gives what happened in normal form.

Source: the README of the loop scenarios, sections 2 to 10.
"""

import json
from functools import partial

import anyio
import anyio.lowlevel

from pi_loop.abort import AbortController
from pi_loop.agent import Agent
from pi_loop.events import LoopEvent, ToolResult
from pi_loop.loop import run_loop, run_loop_continue
from pi_loop.loop_stream import stream_loop, stream_loop_continue
from pi_loop.queues import MessageQueue
from pi_loop.tool_calls import NestedHooks, run_tool_call
from pi_loop.types import (
    AgentContext,
    BlockDecision,
    LoopConfig,
    Model,
    NextTurnChange,
    RequestChange,
    StreamOptions,
    Tool,
    keep_model_roles,
)
from pi_sessions.messages import AssistantMessage, ImageContent, ToolCall, parse_message
from tests.conformance.loop_normal import Normal, content_of, plain, same_json, shape, shapes
from tests.conformance.loop_script import Record, ScriptedResponse, ScriptError, matches

STREAM_KINDS = ("stream", "streamContinue")


def model_of(name: str) -> Model:
    """The model of a name; all are alike."""
    return Model(id=name, name=name, api="scripted", provider="scripted-provider")


def messages_of(data: list[dict]) -> list:
    """Messages of a file, as copies."""
    return [parse_message(plain(message)) for message in data]


def result_of(data: dict) -> ToolResult:
    """A result of a file; `text` is short for one text block."""
    data = plain(data)
    if "text" in data:
        data["content"] = [{"type": "text", "text": data.pop("text")}]
    return ToolResult.model_validate(data)


def apply_ops(messages: list, ops: list[dict]) -> list:
    """Apply message ops."""
    messages = list(messages)
    for op in ops:
        if "dropRoles" in op:
            messages = [message for message in messages if message.role not in op["dropRoles"]]
        elif "keepLast" in op:
            messages = messages[len(messages) - op["keepLast"] :] if op["keepLast"] < len(messages) else messages
        elif "dropFirst" in op:
            messages = messages[op["dropFirst"] :]
        elif "append" in op:
            messages = messages + messages_of(op["append"])
        elif "prepend" in op:
            messages = messages_of(op["prepend"]) + messages
        elif "mapRole" in op:
            to = op["mapRole"]
            messages = [
                parse_message({"role": to["to"], "content": content_of(message)})
                if message.role == to["from"]
                else message
                for message in messages
            ]
        else:
            raise ScriptError(f"Unknown op {op}")
    return messages


class ScenarioRun:
    """One scenario: its scripted tools, hooks, queues and listeners, and what they recorded."""

    def __init__(self, scenario: dict) -> None:
        self.scenario = scenario
        self.kind = scenario["entry"]["kind"]
        self.is_agent = self.kind == "agent"
        self.normal = Normal(scenario.get("record", {}))
        self.record = Record(scenario.get("on", []), self.act)
        self.requests: list[dict] = []
        self.controller = AbortController()
        self.responses = list(scenario.get("responses", []))
        self.hook_calls: dict[str, int] = {}
        self.poll_counts = {"steering": 0, "followUp": 0}
        self.definitions = {
            definition.get("as", definition["name"]): definition
            for definition in [*scenario.get("tools", []), *scenario.get("extraTools", [])]
        }
        self.tools = {key: self.make_tool(definition) for key, definition in self.definitions.items()}
        self.active = [self.tools[tool.get("as", tool["name"])] for tool in scenario.get("tools", [])]
        self.queues = {
            name: MessageQueue(
                scenario[name].get("mode", "one-at-a-time"), messages_of(scenario[name].get("initial", []))
            )
            for name in ("steering", "followUp")
            if name in scenario
        }
        initial = messages_of(scenario.get("context", {}).get("messages", []))
        self.context = AgentContext(initial, list(self.active) if "tools" in scenario else None)
        self.agent: Agent | None = None
        self.background: anyio.abc.TaskGroup | None = None

    async def run(self) -> dict:
        """Run it and give `trace`, `requests` and what section 10 wants besides."""
        async with anyio.create_task_group() as group:
            self.background = group
            outcome = await (self.run_agent() if self.is_agent else self.run_low_level())
            group.cancel_scope.cancel()
        return {"trace": self.record.entries, "requests": self.requests, **outcome}

    # --- recording ------------------------------------------------------------------------------------------------

    async def note(self, entry: dict) -> None:
        """Record an entry that is not a loop event; a reader of a stream is no barrier, so none is kept there."""
        if self.kind not in STREAM_KINDS:
            await self.record.add(entry)

    async def on_event(self, event: LoopEvent, signal: object = None) -> None:
        await self.record.add(self.normal.event(event))

    # --- model ----------------------------------------------------------------------------------------------------

    async def stream_fn(self, model: Model, request, options: StreamOptions):
        entry = {
            "model": model.id,
            "reasoning": options.reasoning,
            "apiKey": options.api_key,
            "signalAborted": options.signal is not None and options.signal.aborted,
            "messages": [self.normal.message(message) for message in request.messages],
        }
        if options.session_id is not None:
            entry["sessionId"] = options.session_id
        self.requests.append(plain(entry))
        await self.note({"type": "request", "n": len(self.requests)})
        if not self.responses:
            raise ScriptError("A request came when no response was left")
        response = self.responses.pop(0)
        if "throwOnCall" in response:
            raise RuntimeError(response["throwOnCall"])
        if "rejectOnCall" in response:
            await anyio.lowlevel.checkpoint()
            raise RuntimeError(response["rejectOnCall"])
        return ScriptedResponse(response, model, options, self.record)

    # --- tools ----------------------------------------------------------------------------------------------------

    def make_tool(self, definition: dict) -> Tool:
        return Tool(
            name=definition["name"],
            description=definition.get("description", definition["name"]),
            parameters=plain(definition.get("parameters", {"type": "object", "properties": {}})),
            label=definition.get("label", definition["name"]),
            execution_mode=definition.get("executionMode"),
            prepare_arguments=prepare_arguments(definition.get("prepareArguments")),
            execute=partial(self.execute, definition),
        )

    async def execute(self, definition: dict, call_id: str, args: dict, signal, on_update) -> ToolResult:
        name = definition["name"]
        aborted = signal is not None and signal.aborted
        await self.note({"type": "tool_run", "id": call_id, "name": name, "args": args, "signalAborted": aborted})
        await anyio.lowlevel.checkpoint()
        script = definition.get("script", {})
        default = [{"return": {"text": f"{name} ok", "details": {}}}]
        steps = script.get(call_id, script.get("*", default))
        result = await self.play_steps(steps, args, signal, on_update)
        if result is None:
            raise ScriptError(f"The script of {name} has no end")
        return result

    async def play_steps(self, steps: list[dict], args: dict, signal, on_update) -> ToolResult | None:
        for step in steps:
            if "update" in step:
                await on_update(result_of(step["update"]))
                if not step.get("noYield"):
                    await anyio.lowlevel.checkpoint()
            elif "waitFor" in step:
                await self.record.wait_for(step["waitFor"])
            elif "waitAbort" in step:
                await signal.wait()
            elif "do" in step:
                await self.act(step["do"])
            elif "background" in step:
                self.background.start_soon(self.play_steps, step["background"], args, signal, on_update)
            elif "setArg" in step:
                args.update(plain(step["setArg"]))
            elif "nested" in step:
                await self.nested(step["nested"], signal, on_update)
            elif "throw" in step or "throwValue" in step:
                raise RuntimeError(step.get("throw", step.get("throwValue")))
            elif "return" in step:
                return result_of(step["return"])
            else:
                raise ScriptError(f"Unknown step {step}")
        return None

    async def nested(self, nested: dict, signal, on_update) -> None:
        call = ToolCall.model_validate({"type": "toolCall", **plain(nested["call"])})
        context = self.context
        if self.agent is not None:
            context = AgentContext(self.agent.state.messages, self.agent.state.tools)
        outcome = await run_tool_call(
            call,
            assistant_message=AssistantMessage(content=[call]),
            context=context,
            signal=signal,
            hooks=NestedHooks(before_tool_call=self.hook("beforeToolCall"), after_tool_call=self.hook("afterToolCall")),
            tools=[self.tools[name] for name in nested["tools"]] if "tools" in nested else None,
            on_update=on_update if nested.get("forwardUpdates") else None,
        )
        entry = {"type": "nested_result", "id": call.id, "name": call.name, "isError": outcome.is_error}
        await self.note({**entry, "result": self.normal.result(outcome.result)})

    # --- hooks ----------------------------------------------------------------------------------------------------

    def hook(self, name: str):
        """The hook of a name, None if the scenario does not install it."""
        if name not in self.scenario.get("hooks", {}):
            return None
        return getattr(self, "hook_" + name)

    async def follow_rule(self, name: str, entry: dict, subject: dict, args: dict | None = None) -> dict:
        """Record the hook's entry, then do what the first fitting rule says; its rule."""
        self.hook_calls[name] = self.hook_calls.get(name, 0) + 1
        subject = {"call": self.hook_calls[name], **subject}
        rules = self.scenario["hooks"][name]
        rule = next((rule for rule in rules if fits(rule.get("when", {}), subject)), {})
        await self.note({"type": "hook", "hook": name, **entry})
        if args is not None and "setArg" in rule:
            args.update(plain(rule["setArg"]))
        await self.act(rule.get("do", []))
        if "throw" in rule:
            raise RuntimeError(rule["throw"])
        return rule

    async def hook_beforeToolCall(self, question, signal):
        call = question.tool_call
        entry = {"id": call.id, "name": call.name, "args": question.args}
        entry["contextMessages"] = len(question.context.messages)
        if self.agent is not None:
            entry["stateTail"] = shape(self.agent.state.messages[-1])
        rule = await self.follow_rule("beforeToolCall", entry, {"id": call.id, "name": call.name}, question.args)
        return BlockDecision(**plain(rule["return"])) if "return" in rule else None

    async def hook_afterToolCall(self, report, signal):
        call = report.tool_call
        entry = {"id": call.id, "name": call.name, "args": report.args, "isError": report.is_error}
        entry["result"] = self.normal.result(report.result)
        subject = {"id": call.id, "name": call.name, "isError": report.is_error}
        rule = await self.follow_rule("afterToolCall", entry, subject)
        return result_of(rule["return"]) if "return" in rule else None

    def turn_entry(self, turn) -> dict:
        return {
            "stopReason": turn.message.stop_reason,
            "toolResults": [result.tool_call_id for result in turn.tool_results],
            "contextMessages": shapes(turn.context.messages),
            "newMessages": shapes(turn.new_messages),
        }

    async def hook_finishTurn(self, turn, signal):
        rule = await self.follow_rule("finishTurn", self.turn_entry(turn), {"stopReason": turn.message.stop_reason})
        return rule["return"]["action"] if "return" in rule else None

    async def hook_prepareNextTurnWithContext(self, turn, signal=None):
        rule = await self.follow_rule("prepareNextTurnWithContext", self.turn_entry(turn), {})
        return self.change(NextTurnChange, rule, turn.context)

    async def hook_prepareNextTurn(self, turn):
        if self.is_agent:
            rule = await self.follow_rule("prepareNextTurn", {}, {})
            return self.change(NextTurnChange, rule, None)
        rule = await self.follow_rule("prepareNextTurn", self.turn_entry(turn), {})
        return self.change(NextTurnChange, rule, turn.context)

    async def hook_prepareRequest(self, settings, signal):
        entry = {
            "model": settings.model.id,
            "thinkingLevel": settings.thinking_level,
            "contextMessages": shapes(settings.context.messages),
            "tools": [tool.name for tool in settings.context.tools or []],
        }
        rule = await self.follow_rule("prepareRequest", entry, {})
        return self.change(RequestChange, rule, settings.context)

    def change(self, kind, rule: dict, context: AgentContext | None):
        if "return" not in rule:
            return None
        answer = rule["return"]
        fields = {}
        if "model" in answer:
            fields["model"] = model_of(answer["model"])
        if "thinkingLevel" in answer:
            fields["thinking_level"] = answer["thinkingLevel"]
        if "messages" in answer:
            fields["messages"] = messages_of(answer["messages"])
        if "context" in answer:
            wanted = answer["context"]
            messages = list(context.messages) if context else []
            if isinstance(wanted.get("messages"), list):
                messages = messages_of(wanted["messages"])
            elif "messages" in wanted:
                messages = apply_ops(messages, [wanted["messages"]])
            tools = context.tools if context else []
            if "tools" in wanted:
                tools = [self.tools[name] for name in wanted["tools"]]
            fields["context"] = AgentContext(messages, tools)
        return kind(**fields)

    async def hook_transformContext(self, messages, signal):
        rule = await self.follow_rule("transformContext", {"contextMessages": shapes(messages)}, {})
        return apply_ops(messages, rule.get("ops", []))

    async def hook_convertToLlm(self, messages):
        rule = await self.follow_rule("convertToLlm", {"contextMessages": shapes(messages)}, {})
        return keep_model_roles(apply_ops(messages, rule.get("ops", [])))

    async def hook_getApiKey(self, provider):
        rule = await self.follow_rule("getApiKey", {"provider": provider}, {})
        return rule.get("return")

    # --- queues ---------------------------------------------------------------------------------------------------

    def poll(self, name: str):
        """The poll callback of a queue, None if the scenario does not install it."""
        if name not in self.scenario:
            return None
        script = self.scenario[name]

        async def poll() -> list:
            self.poll_counts[name] += 1
            count = self.poll_counts[name]
            throws = script.get("throwOnPoll")
            got: list = []
            if not (throws and throws["poll"] == count):
                if "polls" in script:
                    got = messages_of(script["polls"][count - 1]) if count <= len(script["polls"]) else []
                else:
                    got = self.queues[name].drain()
            texts = [content if isinstance(content := content_of(message), str) else shape(message) for message in got]
            await self.note({"type": "poll", "queue": name, "got": texts})
            if throws and throws["poll"] == count:
                raise RuntimeError(throws["message"])
            return got

        return poll

    # --- actions --------------------------------------------------------------------------------------------------

    async def act(self, actions: list[dict]) -> None:
        for action in actions:
            name = action["do"]
            if name in ("prompt", "continue", "reset"):
                await self.attempt(name, action)
            elif name == "abort":
                (self.agent or self.controller).abort()
            elif name in ("steer", "followUp"):
                for message in messages_of(action["messages"]):
                    self.enqueue(name, message)
            elif name == "peek":
                peeked = [content_of(message) for message in self.agent.peek_queued_messages()]
                await self.note({"type": "peek", "hasQueued": self.agent.has_queued_messages, "messages": peeked})
            elif name == "probe":
                await self.note(self.probe())
            elif name == "systemPrompt":
                await self.note({"type": "systemPrompt", "text": self.agent.state.system_prompt})
            else:
                self.assign(name, action)

    def enqueue(self, name: str, message) -> None:
        if self.agent is not None:
            (self.agent.steer if name == "steer" else self.agent.follow_up)(message)
        else:
            self.queues["steering" if name == "steer" else "followUp"].add(message)

    async def attempt(self, name: str, action: dict) -> None:
        error = None
        try:
            await self.call(name, action)
        except Exception as caught:  # noqa: BLE001 - recorded
            error = str(caught)
        await self.note({"type": "attempt", "call": name, "error": error})

    async def call(self, name: str, action: dict) -> None:
        if name == "prompt":
            await self.prompt(action)
        elif name == "continue":
            await self.agent.continue_()
        elif name == "reset":
            self.agent.reset()
        elif name == "waitForIdle":
            await self.agent.wait_for_idle()
        else:
            raise ScriptError(f"Unknown call {name}")

    async def prompt(self, action: dict) -> None:
        given = action["input"]
        images = [ImageContent.model_validate(plain(image)) for image in action.get("images") or []]
        if isinstance(given, str):
            await self.agent.prompt(given, images)
        elif isinstance(given, list):
            await self.agent.prompt(messages_of(given))
        else:
            await self.agent.prompt(parse_message(plain(given)))

    def probe(self) -> dict:
        state = self.agent.state
        streaming = state.streaming_message
        return {
            "type": "probe",
            "isStreaming": state.is_streaming,
            "streamingMessage": None if streaming is None else shape(streaming),
            "pendingToolCalls": list(state.pending_tool_calls),
            "messages": shapes(state.messages),
            "errorMessage": state.error_message,
        }

    def assign(self, name: str, action: dict) -> None:
        agent = self.agent
        if name == "setTools":
            agent.state.tools = [self.tools[tool] for tool in action["tools"]]
        elif name == "addTool":
            agent.state.tools.append(self.tools[action["tool"]])
        elif name == "setModel":
            agent.state.model = model_of(action["model"])
        elif name == "setThinkingLevel":
            agent.state.thinking_level = action["level"]
        elif name == "setSteeringMode":
            agent.steering_mode = action["mode"]
        elif name == "setFollowUpMode":
            agent.follow_up_mode = action["mode"]
        elif name == "setToolExecution":
            agent.tool_execution = action["mode"]
        elif name == "setMessages":
            agent.state.messages = messages_of(action["messages"])
        elif name == "clearSteeringQueue":
            agent.clear_steering_queue()
        elif name == "clearFollowUpQueue":
            agent.clear_follow_up_queue()
        elif name == "clearAllQueues":
            agent.clear_all_queues()
        else:
            raise ScriptError(f"Unknown action {name}")

    # --- low-level entries ----------------------------------------------------------------------------------------

    def loop_config(self) -> LoopConfig:
        config = self.scenario.get("config", {})
        hooks = {
            "transform_context": self.hook("transformContext"),
            "get_api_key": self.hook("getApiKey"),
            "prepare_request": self.hook("prepareRequest"),
            "prepare_next_turn": self.hook("prepareNextTurn"),
            "finish_turn": self.hook("finishTurn"),
            "before_tool_call": self.hook("beforeToolCall"),
            "after_tool_call": self.hook("afterToolCall"),
            "get_steering_messages": self.poll("steering"),
            "get_follow_up_messages": self.poll("followUp"),
        }
        return LoopConfig(
            model=model_of(config.get("model", "m1")),
            thinking_level=config.get("thinkingLevel", "off"),
            stream_options=StreamOptions(api_key=config.get("apiKey"), session_id=config.get("sessionId")),
            tool_execution=config.get("toolExecution"),
            convert_to_llm=self.hook("convertToLlm") or keep_model_roles,
            **hooks,
        )

    async def run_low_level(self) -> dict:
        entry = self.scenario["entry"]
        if entry.get("abortedBeforeStart"):
            self.controller.abort()
        try:
            messages = await self.run_entry(entry)
            result = {"newMessages": [self.normal.message(message) for message in messages]}
        except ScriptError:
            raise
        except Exception as error:  # noqa: BLE001 - part of the expected outcome
            result = {"error": str(error)}
        return {"result": result, "contextAfter": shapes(self.context.messages)}

    async def run_entry(self, entry: dict) -> list:
        config = self.loop_config()
        common = {"signal": self.controller.signal, "stream_fn": self.stream_fn}
        prompts = messages_of(entry.get("prompts", []))
        if self.kind == "loop":
            return await run_loop(prompts, self.context, config, self.on_event, **common)
        if self.kind == "loopContinue":
            return await run_loop_continue(self.context, config, self.on_event, **common)
        if self.kind == "stream":
            stream = stream_loop(prompts, self.context, config, **common)
        else:
            stream = stream_loop_continue(self.context, config, **common)
        async with stream:
            async for event in stream:
                await self.on_event(event)
            return await stream.result()

    # --- agent entries --------------------------------------------------------------------------------------------

    def make_agent(self) -> Agent:
        config, options = self.scenario.get("config", {}), self.scenario.get("agent", {})
        given = {
            "system_prompt": options.get("systemPrompt"),
            "steering_mode": options.get("steeringMode"),
            "follow_up_mode": options.get("followUpMode"),
            "tool_execution": config.get("toolExecution"),
            "session_id": config.get("sessionId"),
            "convert_to_llm": self.hook("convertToLlm"),
            "transform_context": self.hook("transformContext"),
            "get_api_key": self.hook("getApiKey"),
            "prepare_request": self.hook("prepareRequest"),
            "prepare_next_turn": self.hook("prepareNextTurn"),
            "prepare_next_turn_with_context": self.hook("prepareNextTurnWithContext"),
            "finish_turn": self.hook("finishTurn"),
            "before_tool_call": self.hook("beforeToolCall"),
            "after_tool_call": self.hook("afterToolCall"),
        }
        return Agent(
            self.stream_fn,
            model=model_of(config.get("model", "m1")),
            thinking_level=config.get("thinkingLevel", "off"),
            tools=self.active,
            messages=self.context.messages,
            **{key: value for key, value in given.items() if value is not None},
        )

    def make_listener(self, script: dict):
        seen = 0

        async def listener(event: LoopEvent, signal) -> None:
            nonlocal seen
            if not matches(script["when"], self.normal.event(event)):
                return
            seen += 1
            if "nth" in script["when"] and script["when"]["nth"] != seen:
                return
            name = script["name"]
            await self.note({"type": "listener", "name": name, "phase": "enter", "event": event.type})
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            if "throw" in script:
                raise RuntimeError(script["throw"])
            streaming = self.agent.state.is_streaming
            await self.note({"type": "listener", "name": name, "phase": "leave", "isStreaming": streaming})

        return listener

    async def run_agent(self) -> dict:
        agent = self.agent = self.make_agent()
        agent.subscribe(self.on_event)
        for script in self.scenario.get("listeners", []):
            agent.subscribe(self.make_listener(script))
        for number, step in enumerate(self.scenario["entry"]["steps"], 1):
            if "do" in step:
                await self.act([step])
                continue
            await self.note({"type": "step", "n": number, "call": step["call"]})
            error = None
            try:
                if step["call"] == "promptAndWaitForIdle":
                    await self.prompt_and_wait(step)
                else:
                    await self.call(step["call"], step)
            except Exception as caught:  # noqa: BLE001 - recorded
                error = str(caught)
            await self.note(
                {
                    "type": "step_done",
                    "n": number,
                    "error": error,
                    "isStreaming": agent.state.is_streaming,
                    "errorMessage": agent.state.error_message,
                    "pendingToolCalls": list(agent.state.pending_tool_calls),
                    "hasQueued": agent.has_queued_messages,
                }
            )
        return {"transcript": [self.normal.message(message) for message in agent.state.messages]}

    async def prompt_and_wait(self, step: dict) -> None:
        failures: list[Exception] = []
        over = False

        async def prompt() -> None:
            nonlocal over
            try:
                await self.prompt(step)
            except Exception as error:  # noqa: BLE001 - raised where the prompt is awaited
                failures.append(error)
            over = True

        async with anyio.create_task_group() as group:
            group.start_soon(prompt)
            while not self.agent.state.is_streaming and not over:
                await anyio.lowlevel.checkpoint()
            await self.agent.wait_for_idle()
            await self.note({"type": "idle"})
        if failures:
            raise failures[0]


def fits(when: dict, subject: dict) -> bool:
    """Whether a rule's `when` fits the subject of a hook call."""
    return all(key in subject and same_json(value, subject[key]) for key, value in when.items())


def prepare_arguments(script: dict | None):
    """The `prepareArguments` of a tool."""
    if script is None:
        return None

    def prepare(arguments: dict) -> dict:
        if "throw" in script:
            raise RuntimeError(script["throw"])
        if script.get("same"):
            return arguments
        renames = script.get("rename", {})
        renamed = {renames.get(key, key): value for key, value in arguments.items()}
        return {**renamed, **plain(script.get("set", {}))}

    return prepare


def run_scenario(scenario: dict, backend: str, *, limit_s: float = 10) -> dict:
    """Run one scenario on one anyio backend."""

    async def main() -> dict:
        with anyio.fail_after(limit_s):
            return await ScenarioRun(scenario).run()

    return json.loads(json.dumps(anyio.run(main, backend=backend)))
