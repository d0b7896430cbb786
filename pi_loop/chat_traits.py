"""How servers of the Chat Completions protocol differ: told by the model's own settings, else by provider and address.

Source: Pi 1.6.0, compatibility settings of `models.json` and their detection.
"""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.target import Target

# Fields in which servers send thinking; Pi stores the field's name as the signature.
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_DEEPSEEK = ("deepseek", "deepseek.com")
_ZAI = ("zai", "zai-coding-cn", "api.z.ai", "open.bigmodel.cn")
_TOGETHER = ("together", "api.together.")
_MOONSHOT = ("moonshotai", "moonshotai-cn", "api.moonshot.")
_XAI = ("xai", "api.x.ai")
_NVIDIA = ("nvidia", "integrate.api.nvidia.com")
_CEREBRAS = ("cerebras", "cerebras.ai")
_OPENROUTER = ("openrouter", "openrouter.ai")
_OPENAI = ("openai", "api.openai.com", "openai.azure.com")


class ChatTraits(Record):
    """What a server of this protocol takes.

    Attributes:
        store: It knows `store`.
        developer_role: Prompts of thinking models have the role `developer`.
        reasoning_effort: It knows `reasoning_effort`.
        usage_in_streaming: It sends usage when asked.
        max_tokens_field: The name of the output limit.
        result_name: Results carry their tool's name.
        answer_after_results: A user message may not follow results directly.
        non_null_content: An answer's content may not be null.
        thinking_as_text: Thinking is sent as text.
        reasoning_on_answers: Every answer has `reasoning_content`, empty if need be.
        thinking_format: How thinking is asked for: `openai`, `openrouter`, `deepseek`, `zai`, `together`, `qwen` or
            `qwen-chat-template`.
        tools_with_history: Calls in the history need a list of tools, empty if need be.
        anthropic_cache: It takes Anthropic's cache marks.
        cache_key: It takes a key of the prompt cache.
        long_cache: It can keep the prompt cache for long.
    """

    store: bool
    developer_role: bool
    reasoning_effort: bool
    usage_in_streaming: bool
    max_tokens_field: str
    result_name: bool
    answer_after_results: bool
    non_null_content: bool
    thinking_as_text: bool
    reasoning_on_answers: bool
    thinking_format: str
    tools_with_history: bool
    anthropic_cache: bool
    cache_key: bool
    long_cache: bool


def chat_traits(target: Target) -> ChatTraits:
    """Return what the server of a target takes."""

    def is_at(place: tuple[str, ...]) -> bool:
        return target.provider in place or any("." in part and part in target.base_url for part in place)

    def switch(name: str, default: bool) -> bool:
        return bool(target.trait(name, default))

    deepseek, zai, together, moonshot = is_at(_DEEPSEEK), is_at(_ZAI), is_at(_TOGETHER), is_at(_MOONSHOT)
    nvidia, xai, openrouter, openai = is_at(_NVIDIA), is_at(_XAI), is_at(_OPENROUTER), is_at(_OPENAI)
    formats = ((deepseek, "deepseek"), (zai, "zai"), (together, "together"), (openrouter, "openrouter"))
    strange = deepseek or zai or together or moonshot or nvidia or xai or is_at(_CEREBRAS)
    anthropic = openrouter and target.model.startswith("anthropic/")
    key_mode = target.trait("promptCacheKeyMode", "enabled" if openai else "auto")
    return ChatTraits(
        store=switch("supportsStore", openai and not strange),
        developer_role=switch("supportsDeveloperRole", openai),
        reasoning_effort=switch("supportsReasoningEffort", not (xai or zai or moonshot or together or nvidia)),
        usage_in_streaming=switch("supportsUsageInStreaming", True),
        max_tokens_field=str(target.trait("maxTokensField", "max_completion_tokens" if openai else "max_tokens")),
        result_name=switch("requiresToolResultName", False),
        answer_after_results=switch("requiresAssistantAfterToolResult", False),
        non_null_content=switch("requiresNonNullAssistantContent", False),
        thinking_as_text=switch("requiresThinkingAsText", False),
        reasoning_on_answers=switch("requiresReasoningContentOnAssistantMessages", deepseek),
        thinking_format=str(
            target.trait("thinkingFormat", next((name for found, name in formats if found), "openai")),
        ),
        tools_with_history=switch("requiresToolsWithToolHistory", False),
        anthropic_cache=target.trait("cacheControlFormat", "anthropic" if anthropic else None) == "anthropic",
        cache_key=key_mode == "enabled",
        long_cache=switch("supportsLongCacheRetention", openai),
    )
