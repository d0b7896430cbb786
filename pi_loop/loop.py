"""The shared core: messages in, events out. Knows no store, no clock of its own and no HTTP.

A run is one or more turns. A turn takes messages in, asks the model once, and runs the tool calls of the answer. One
lap, traced by hand, for the prompt "list the files" and a model that calls `ls` once and then answers:

    run_loop(prompts)
      declare_tool_changes(context, prompts)   a system message that declares `ls` goes in front
      agent_start, turn_start
      message_start, message_end               the system message; then the same for the prompt
      poll steering                            nothing: pending is empty
      -- turn 1 ---------------------------------------------------------------------------------
      prepare_request                          may replace context, model, level
      stream_response                          transform_context, convert_to_llm, get_api_key, stream_fn
        message_start                          the partial answer takes the last place of the context
        message_update ...                     one per delta; the place follows
      message_end                              the final answer, with a call of `ls`
      ToolBatch.run
        tool_execution_start                   look-up, arguments, before_tool_call
        tool_execution_update ...              whatever `ls` reports
        tool_execution_end                     after after_tool_call
        message_start, message_end             the result message; then it is in the context
      finish_turn                              may say "end" or "continue"; here nothing
      turn_end
      poll steering                            nothing, but a batch that does not terminate goes on
      -- turn 2 ---------------------------------------------------------------------------------
      prepare_next_turn                        may replace context, model, level, and add messages
      poll steering                            again, because the last poll was empty
      turn_start
      ...                                      the answer has no calls
      turn_end
      poll steering, poll follow-up            nothing: the run stops here
      agent_end

Every exit is in `_Run.play`: an error or aborted answer, `finish_turn` saying "end", or nothing left to do (no calls
to answer, no messages, no follow-up, no "continue"). The signal is not looked at here: during a response it is the
stream's to obey, in a batch the calls'. Exceptions of hooks and of the sink leave the run as they are. A cancellation
first closes the open batch, so that every tool call has its result, and is then passed on.

Source: Pi 1.6.0, "A run, step by step", "Exit paths".
"""

from collections.abc import Sequence
from dataclasses import replace

from pi_loop.abort import AbortSignal
from pi_loop.batch import ToolBatch
from pi_loop.declarations import declare_tool_changes
from pi_loop.default_stream import default_stream_fn
from pi_loop.events import AgentEnd, AgentStart, MessageEnd, MessageStart, TurnEnd, TurnStart
from pi_loop.hooks import deliver, settle
from pi_loop.response import stream_response
from pi_loop.types import (
    AgentContext,
    CannotContinueError,
    EventSink,
    LoopConfig,
    NextTurnChange,
    RequestChange,
    RequestSettings,
    StreamFn,
    Turn,
    TurnDecision,
)
from pi_sessions.messages import AssistantMessage, Message, ToolResultMessage


async def run_loop(
    prompts: Sequence[Message],
    context: AgentContext,
    config: LoopConfig,
    emit: EventSink,
    *,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> list[Message]:
    """Run the agent on new messages until it stops.

    Args:
        prompts: Messages to begin with; may be empty.
        context: What came before. Its message list is copied, not touched.
        config: Model, settings and hooks.
        emit: Gets every event; the loop goes on when it is done with it.
        signal: Given to the stream function, tools and hooks.
        stream_fn: The model; without it, the one set by `set_default_stream_fn`.

    Returns:
        The messages the run added, prompts included.

    Raises:
        NoStreamFnError: there is no stream function (after the events of the prompts, as in Pi).
        Exception: whatever a hook, the stream function or the sink raised.

    Source: Pi 1.6.0, "A run, step by step".
    """
    initial = declare_tool_changes(context, prompts, config.clock)
    working = AgentContext([*context.messages, *initial], context.tools)
    await deliver(emit, AgentStart())
    await deliver(emit, TurnStart())
    for message in initial:
        await deliver(emit, MessageStart(message=message))
        await deliver(emit, MessageEnd(message=message))
    return await _Run(working, list(initial), config, emit, signal, stream_fn or default_stream_fn()).play()


async def run_loop_continue(
    context: AgentContext,
    config: LoopConfig,
    emit: EventSink,
    *,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> list[Message]:
    """Run the agent on the context as it is, without a new message.

    Args:
        context: Where to go on. Its message list grows during the run.

    Returns:
        The messages the run added.

    Raises:
        CannotContinueError: there is no message, or the last one is an assistant's.
        Exception: as `run_loop`.

    Source: Pi 1.6.0, "A run, step by step".
    """
    check_can_continue(context)
    working = AgentContext(context.messages, context.tools)
    await deliver(emit, AgentStart())
    await deliver(emit, TurnStart())
    return await _Run(working, [], config, emit, signal, stream_fn or default_stream_fn()).play()


def check_can_continue(context: AgentContext) -> None:
    """Raise CannotContinueError if a continuation cannot begin here."""
    messages = context.messages
    if not messages:
        raise CannotContinueError("Cannot continue: no messages in context")
    if messages[-1].role == "assistant":
        raise CannotContinueError("Cannot continue from message role: assistant")


class _Run:
    """The loop proper, from the first poll to `agent_end`."""

    def __init__(
        self,
        context: AgentContext,
        new_messages: list[Message],
        config: LoopConfig,
        emit: EventSink,
        signal: AbortSignal | None,
        stream_fn: StreamFn,
    ) -> None:
        self._context = context
        self._new_messages = new_messages
        self._config = config
        self._emit = emit
        self._signal = signal
        self._stream_fn = stream_fn
        self._pending: list[Message] = []
        self._last_turn: Turn | None = None

    async def play(self) -> list[Message]:
        """Play turns until the run stops; the messages it added."""
        self._pending = await self._poll_steering()
        another_turn = True
        while another_turn or self._pending:
            prepared = await self._begin_turn()
            await self._take_in([*prepared, *self._pending])
            self._pending = []
            await self._prepare_request()
            message, results, terminated = await self._ask_and_execute()
            decision = await self._end_turn(message, results)
            if decision == "end" or message.stop_reason in ("error", "aborted"):
                break
            self._pending = await self._poll_steering()
            another_turn = bool(results) and not terminated
            if another_turn or self._pending:
                continue
            # Here the agent would stop. A follow-up opens another turn; "continue" asks once more as things are.
            self._pending = await self._poll_follow_up()
            another_turn = decision == "continue"
        await deliver(self._emit, AgentEnd(messages=self._new_messages))
        return self._new_messages

    async def _begin_turn(self) -> list[Message]:
        """Prepare every turn but the first; give the messages that a hook adds to it."""
        if self._last_turn is None:
            return []
        prepared: list[Message] = []
        if self._config.prepare_next_turn is not None:
            change = await settle(self._config.prepare_next_turn(self._last_turn))
            if change is not None:
                self._apply(change)
                prepared = change.messages or []
        if not self._pending:
            # Preparing may take long (a compaction): take what was queued meanwhile. Not if the last poll gave
            # something, or one-at-a-time would deliver two messages in this turn.
            self._pending = await self._poll_steering()
        await deliver(self._emit, TurnStart())
        return prepared

    async def _take_in(self, messages: list[Message]) -> None:
        for message in declare_tool_changes(self._context, messages, self._config.clock):
            await deliver(self._emit, MessageStart(message=message))
            # In the lists before the sink's last word, so that a cancelled sink leaves them alike.
            self._context.messages.append(message)
            self._new_messages.append(message)
            await deliver(self._emit, MessageEnd(message=message))

    async def _prepare_request(self) -> None:
        if self._config.prepare_request is None:
            return
        settings = RequestSettings(
            context=self._context, model=self._config.model, thinking_level=self._config.thinking_level
        )
        change = await settle(self._config.prepare_request(settings, self._signal))
        if change is not None:
            self._apply(change)

    def _apply(self, change: NextTurnChange | RequestChange) -> None:
        self._context = change.context or self._context
        self._config = replace(
            self._config,
            model=change.model or self._config.model,
            thinking_level=change.thinking_level or self._config.thinking_level,
        )

    async def _ask_and_execute(self) -> tuple[AssistantMessage, list[ToolResultMessage], bool]:
        """Get one answer and the results of its calls into the context; tell whether the results end the run."""
        context, emit = self._context, self._emit
        message = await stream_response(context, self._config, emit, signal=self._signal, stream_fn=self._stream_fn)
        failed = message.stop_reason in ("error", "aborted")
        batch = None if failed else ToolBatch(message, context, self._config, emit, self._signal)
        # In the list before the sink's last word, so that a cancelled sink finds the answer there.
        self._new_messages.append(message)
        try:
            await deliver(emit, MessageEnd(message=message))
            if batch is None or batch.is_empty:
                return message, [], False
            await batch.run()
        except Exception:
            raise
        except BaseException:
            # Cancelled: the answer is in the transcript already, so its calls need their results.
            if batch is not None:
                self._add_results(batch.messages)
                await batch.close()
            raise
        self._add_results(batch.messages)
        return message, batch.messages, batch.terminates

    def _add_results(self, results: list[ToolResultMessage]) -> None:
        self._context.messages.extend(results)
        self._new_messages.extend(results)

    async def _end_turn(self, message: AssistantMessage, results: list[ToolResultMessage]) -> TurnDecision | None:
        self._last_turn = Turn(message, results, self._context, self._new_messages)
        decision: TurnDecision | None = None
        if self._config.finish_turn is not None:
            decision = await settle(self._config.finish_turn(self._last_turn, self._signal))
        await deliver(self._emit, TurnEnd(message=message, tool_results=results))
        return decision

    async def _poll_steering(self) -> list[Message]:
        poll = self._config.get_steering_messages
        return list(await settle(poll()) or ()) if poll is not None else []

    async def _poll_follow_up(self) -> list[Message]:
        poll = self._config.get_follow_up_messages
        return list(await settle(poll()) or ()) if poll is not None else []
