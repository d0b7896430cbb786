"""Agent: the loop with a memory. State, two message queues, listeners, one run at a time.

Invariant: the transcript in `state.messages` holds complete messages only, each put there at its `message_end`. The
agent is idle again when the listeners of `agent_end` are done, after a failure and after a cancellation too; both end
in a failure message and the usual end events. Knows no store: a host saves what `message_end` brings.

Source: Pi 1.6.0, "Agent".
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import anyio

from pi_loop.abort import AbortController, AbortSignal
from pi_loop.agent_state import AgentState
from pi_loop.declarations import replay_system_messages
from pi_loop.default_stream import default_stream_fn
from pi_loop.events import AgentEnd, LoopEvent, MessageEnd, MessageStart, TurnEnd
from pi_loop.hooks import closing_sink, deliver, error_text, settle
from pi_loop.loop import run_loop, run_loop_continue
from pi_loop.queues import MessageQueue, QueueMode
from pi_loop.types import (
    UNKNOWN_MODEL,
    AfterToolCallHook,
    AgentBusyError,
    AgentContext,
    Answer,
    BeforeToolCallHook,
    CannotContinueError,
    ClientIdentity,
    Clock,
    ConvertToLlm,
    EventSink,
    ExecutionMode,
    FinishTurnHook,
    GetApiKey,
    LoopConfig,
    Model,
    NextTurnChange,
    PrepareRequestHook,
    StreamFn,
    StreamOptions,
    Tool,
    TransformContextHook,
    Transport,
    Turn,
    keep_model_roles,
    wall_clock_ms,
)
from pi_sessions.messages import (
    AssistantMessage,
    ContentBlock,
    ImageContent,
    Message,
    Number,
    TextContent,
    ThinkingLevel,
    Usage,
    UserMessage,
    WireModel,
)

Listener: TypeAlias = Callable[[LoopEvent, AbortSignal], Awaitable[None] | None]
NextTurnHook: TypeAlias = Callable[[AbortSignal | None], Answer[NextTurnChange | None]]
NextTurnWithContextHook: TypeAlias = Callable[[Turn, AbortSignal | None], Answer[NextTurnChange | None]]


class _ActiveRun:
    __slots__ = ("controller", "ended", "finished")

    def __init__(self) -> None:
        self.controller = AbortController()
        self.finished = anyio.Event()
        self.ended = False


class _Subscription:
    __slots__ = ("active", "listener")

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.active = True


class Agent:
    """A conversation with a model and its tools.

    Hooks and settings are plain attributes, read when a run starts; a change during a run counts from the next one.
    Only the queues' modes count at once. All methods belong to one event loop's thread.
    """

    def __init__(
        self,
        stream_fn: StreamFn | None = None,
        *,
        model: Model = UNKNOWN_MODEL,
        system_prompt: str = "",
        thinking_level: ThinkingLevel = "off",
        tools: Sequence[Tool] = (),
        messages: Sequence[Message] = (),
        convert_to_llm: ConvertToLlm = keep_model_roles,
        transform_context: TransformContextHook | None = None,
        get_api_key: GetApiKey | None = None,
        prepare_request: PrepareRequestHook | None = None,
        prepare_next_turn: NextTurnHook | None = None,
        prepare_next_turn_with_context: NextTurnWithContextHook | None = None,
        finish_turn: FinishTurnHook | None = None,
        before_tool_call: BeforeToolCallHook | None = None,
        after_tool_call: AfterToolCallHook | None = None,
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        tool_execution: ExecutionMode = "parallel",
        session_id: str | None = None,
        thinking_budgets: Mapping[str, int] | None = None,
        transport: Transport = "auto",
        max_retry_delay_ms: Number | None = None,
        identity: ClientIdentity | None = None,
        stream_options: StreamOptions | None = None,
        clock: Clock = wall_clock_ms,
    ) -> None:
        """Make an agent that is idle.

        Args:
            stream_fn: The model; without it, the one set by `set_default_stream_fn`.
            model: What the stream function is asked for.
            system_prompt: With the tools, becomes a leading system message, unless `messages` begin with one.
            messages: The transcript so far; copied.
            prepare_next_turn_with_context: As `prepare_next_turn`, with the turn; if both are given, this one counts.
            stream_options: Further settings of each request (key, headers, `on_payload`, ...); the arguments of this
                constructor with the same names count before it.
            clock: Unix milliseconds.

        Raises:
            NoStreamFnError: neither a stream function nor a default one was given.

        Source: Pi 1.6.0, "Agent".
        """
        self.stream_fn: StreamFn = stream_fn or default_stream_fn()
        self.state = AgentState(
            model=model,
            thinking_level=thinking_level,
            system_prompt=system_prompt,
            tools=tools,
            messages=messages,
        )
        self.convert_to_llm = convert_to_llm
        self.transform_context = transform_context
        self.get_api_key = get_api_key
        self.prepare_request = prepare_request
        self.prepare_next_turn = prepare_next_turn
        self.prepare_next_turn_with_context = prepare_next_turn_with_context
        self.finish_turn = finish_turn
        self.before_tool_call = before_tool_call
        self.after_tool_call = after_tool_call
        self.tool_execution: ExecutionMode = tool_execution
        self.session_id = session_id
        self.thinking_budgets = thinking_budgets
        self.transport: Transport = transport
        self.max_retry_delay_ms = max_retry_delay_ms
        self.identity = identity
        self.stream_options = stream_options or StreamOptions()
        self.clock = clock
        self._steering = MessageQueue(steering_mode)
        self._follow_up = MessageQueue(follow_up_mode)
        self._subscriptions: list[_Subscription] = []
        self._active: _ActiveRun | None = None

    # --- listeners ----------------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call a listener for every event, after those subscribed before it; the run waits for it.

        A listener that raises makes the run fail.

        Returns:
            A function that ends the subscription.
        """
        subscription = _Subscription(listener)
        self._subscriptions.append(subscription)

        def unsubscribe() -> None:
            subscription.active = False
            self._subscriptions = [kept for kept in self._subscriptions if kept.active]

        return unsubscribe

    # --- queues -------------------------------------------------------------------------------------------------

    @property
    def steering_mode(self) -> QueueMode:
        """How steering messages are taken; counts at the next poll."""
        return self._steering.mode

    @steering_mode.setter
    def steering_mode(self, mode: QueueMode) -> None:
        self._steering.mode = mode

    @property
    def follow_up_mode(self) -> QueueMode:
        """How follow-up messages are taken; counts at the next poll."""
        return self._follow_up.mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: QueueMode) -> None:
        self._follow_up.mode = mode

    def steer(self, message: Message) -> None:
        """Queue a message to go in after the current turn."""
        self._steering.add(message)

    def follow_up(self, message: Message) -> None:
        """Queue a message to go in when the run would stop."""
        self._follow_up.add(message)

    def clear_steering_queue(self) -> None:
        """Remove all steering messages."""
        self._steering.clear()

    def clear_follow_up_queue(self) -> None:
        """Remove all follow-up messages."""
        self._follow_up.clear()

    def clear_all_queues(self) -> None:
        """Remove all queued messages."""
        self._steering.clear()
        self._follow_up.clear()

    @property
    def has_queued_messages(self) -> bool:
        """Whether any message is queued."""
        return bool(self._steering) or bool(self._follow_up)

    @property
    def queued_steering(self) -> list[Message]:
        """All steering messages that wait, oldest first."""
        return self._steering.waiting()

    @property
    def queued_follow_up(self) -> list[Message]:
        """All follow-up messages that wait, oldest first."""
        return self._follow_up.waiting()

    def peek_queued_messages(self) -> list[Message]:
        """Give what the next poll would take, without taking it: steering messages first."""
        return self._steering.peek() or self._follow_up.peek()

    # --- runs ---------------------------------------------------------------------------------------------------

    @property
    def signal(self) -> AbortSignal | None:
        """The signal of the run in progress; every run has its own."""
        return self._active.controller.signal if self._active is not None else None

    def abort(self) -> None:
        """Abort the run in progress; does nothing while idle. Queued messages stay queued."""
        if self._active is not None:
            self._active.controller.abort()

    async def wait_for_idle(self) -> None:
        """Return when the run in progress and its listeners are done; at once while idle."""
        if self._active is not None:
            await self._active.finished.wait()

    async def prompt(self, prompt: str | Message | Sequence[Message], images: Iterable[ImageContent] = ()) -> None:
        """Run on a new prompt until the agent stops.

        A run that fails does not raise; it leaves a failure message, and `state.error_message`.

        Args:
            prompt: A text, a message or several.
            images: Shown with a text.

        Raises:
            AgentBusyError: a run is in progress.
            Exception: a listener failed again while a failure was being reported.

        Source: Pi 1.6.0, "Agent".
        """
        if self._active is not None:
            raise AgentBusyError(
                "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for "
                "completion."
            )
        if isinstance(prompt, str):
            content: list[ContentBlock] = [TextContent(text=prompt), *images]
            await self._run_prompts([UserMessage(content=content, timestamp=self.clock())])
        elif isinstance(prompt, WireModel):
            await self._run_prompts([prompt])
        else:
            await self._run_prompts(list(prompt))

    async def continue_(self) -> None:
        """Go on from the transcript; after an answer, with what is queued.

        Raises:
            AgentBusyError: a run is in progress.
            CannotContinueError: nothing to go on from, or an answer and nothing queued.
            Exception: as `prompt`.

        Source: Pi 1.6.0, "Agent".
        """
        if self._active is not None:
            raise AgentBusyError("Agent is already processing. Wait for completion before continuing.")
        messages = self.state.messages
        if all(message.role == "system" for message in messages):
            raise CannotContinueError("No messages to continue from")
        if messages[-1].role != "assistant":
            await self._run_continuation()
        elif steering := self._steering.drain():
            await self._run_prompts(steering, skip_first_poll=True)
        elif follow_up := self._follow_up.drain():
            await self._run_prompts(follow_up)
        else:
            raise CannotContinueError("Cannot continue from message role: assistant")

    def reset(self) -> None:
        """Empty the transcript and the queues; prompt and tools stay, as one replayed system message.

        Raises:
            AgentBusyError: a run is in progress.

        Source: Pi 1.6.0, "Agent".
        """
        if self._active is not None:
            raise AgentBusyError("Agent is already processing. Wait for completion before resetting.")
        replayed = replay_system_messages(self.state.messages)
        self.state.messages = [] if replayed is None else [replayed]
        self.state.settle()
        self.state.error_message = None
        self.clear_all_queues()

    async def _run_prompts(self, prompts: list[Message], *, skip_first_poll: bool = False) -> None:
        config = self._config(skip_first_poll=skip_first_poll)

        async def play(signal: AbortSignal) -> None:
            await run_loop(prompts, self._context(), config, self._emit, signal=signal, stream_fn=self.stream_fn)

        await self._run(play)

    async def _run_continuation(self) -> None:
        config = self._config(skip_first_poll=False)

        async def play(signal: AbortSignal) -> None:
            await run_loop_continue(self._context(), config, self._emit, signal=signal, stream_fn=self.stream_fn)

        await self._run(play)

    def _context(self) -> AgentContext:
        return AgentContext(list(self.state.messages), list(self.state.tools))

    def _config(self, *, skip_first_poll: bool) -> LoopConfig:
        skip = skip_first_poll

        def poll_steering() -> list[Message]:
            nonlocal skip
            if skip:
                skip = False
                return []
            return self._steering.drain()

        installed = self.prepare_next_turn is not None or self.prepare_next_turn_with_context is not None
        return LoopConfig(
            model=self.state.model,
            thinking_level=self.state.thinking_level,
            stream_options=replace(
                self.stream_options,
                session_id=self.session_id or self.stream_options.session_id,
                thinking_budgets=self.thinking_budgets or self.stream_options.thinking_budgets,
                transport=self.transport if self.transport != "auto" else self.stream_options.transport,
                max_retry_delay_ms=(
                    self.stream_options.max_retry_delay_ms
                    if self.max_retry_delay_ms is None
                    else self.max_retry_delay_ms
                ),
                identity=self.identity or self.stream_options.identity,
            ),
            tool_execution=self.tool_execution,
            convert_to_llm=self.convert_to_llm,
            transform_context=self.transform_context,
            get_api_key=self.get_api_key,
            prepare_request=self.prepare_request,
            prepare_next_turn=self._ask_next_turn if installed else None,
            finish_turn=self.finish_turn,
            before_tool_call=self.before_tool_call,
            after_tool_call=self.after_tool_call,
            get_steering_messages=poll_steering,
            get_follow_up_messages=self._follow_up.drain,
            clock=self.clock,
        )

    async def _ask_next_turn(self, turn: Turn) -> NextTurnChange | None:
        if self.prepare_next_turn_with_context is not None:
            return await settle(self.prepare_next_turn_with_context(turn, self.signal))
        if self.prepare_next_turn is not None:
            return await settle(self.prepare_next_turn(self.signal))
        return None

    async def _run(self, play: Callable[[AbortSignal], Awaitable[None]]) -> None:
        active = self._active = _ActiveRun()
        self.state.begin()
        try:
            await play(active.controller.signal)
        except Exception as error:  # noqa: BLE001 - a failed run is data in the transcript
            aborted = active.controller.signal.aborted
            await self._report_failure(error_text(error), aborted=aborted, emit=self._emit)
        except BaseException:
            # Cancelled: whoever still holds the signal must stop too, and listeners hear how it ended.
            active.controller.abort()
            if not active.ended:
                await self._report_failure("Request was aborted", aborted=True, emit=closing_sink(self._emit))
            raise
        finally:
            self.state.settle()
            self._active = None
            active.finished.set()

    async def _report_failure(self, text: str, *, aborted: bool, emit: EventSink) -> None:
        model = self.state.model
        message = AssistantMessage(
            content=[TextContent(text="")],
            api=model.api,
            provider=model.provider,
            model=model.id,
            usage=Usage(),
            stop_reason="aborted" if aborted else "error",
            error_message=text,
            timestamp=self.clock(),
        )
        await deliver(emit, MessageStart(message=message))
        await deliver(emit, MessageEnd(message=message))
        await deliver(emit, TurnEnd(message=message, tool_results=[]))
        await deliver(emit, AgentEnd(messages=[message]))

    async def _emit(self, event: LoopEvent) -> None:
        """Bring the state up to date, then tell the listeners, one after the other."""
        if self._active is None:
            raise RuntimeError("Agent listener invoked outside active run")
        self.state.reduce(event)
        if isinstance(event, AgentEnd):
            self._active.ended = True
        signal = self._active.controller.signal
        for subscription in self._subscriptions:
            if subscription.active:
                pending = subscription.listener(event, signal)
                if pending is not None:
                    await pending
