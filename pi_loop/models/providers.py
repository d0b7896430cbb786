"""Providers that need no configuration: where they are, what they speak, which variable holds their key. Plain data.

Names are Pi's, so that a session written by Pi finds its provider. Models, windows and prices are not here; they come
from the data package, see `pi_loop.models.catalog`.

Source: the providers' documentation; Pi 1.6.0, providers.
"""

from dataclasses import dataclass

from pi_loop.target import ANTHROPIC, CHAT, RESPONSES


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider.

    Args:
        id: Its name in `provider/model`.
        name: Its name for people.
        api: The protocol its models are asked in.
        base_url: What the protocol's path is appended to.
        key_variables: Environment variables that may hold its key, best first.
        catalog: Its name in the data package; empty where that does not know it.
        prefixes: Beginnings of the model ids in there that this provider serves at its base URL.
        lower_case: Whether its model ids are lower-case although the data package writes them otherwise.
        any_model: Whether it takes models that no list knows (local servers, gateways).
        needs_key: False for servers of one's own.
    """

    id: str
    name: str
    api: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    catalog: str = ""
    prefixes: tuple[str, ...] = ("",)
    lower_case: bool = False
    any_model: bool = False
    needs_key: bool = True


def _local(provider_id: str, name: str, base_url: str) -> Provider:
    return Provider(provider_id, name, CHAT, base_url, any_model=True, needs_key=False)


_ALL = (
    Provider("anthropic", "Anthropic", ANTHROPIC, "https://api.anthropic.com", ("ANTHROPIC_API_KEY",), "anthropic"),
    Provider("openai", "OpenAI", RESPONSES, "https://api.openai.com/v1", ("OPENAI_API_KEY",), "openai"),
    Provider(
        "openrouter",
        "OpenRouter",
        CHAT,
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        "openrouter",
        any_model=True,
    ),
    Provider(
        "google",
        "Google Gemini",
        CHAT,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "google",
        prefixes=("gemini", "gemma"),
    ),
    Provider("xai", "xAI", RESPONSES, "https://api.x.ai/v1", ("XAI_API_KEY",), "x-ai"),
    Provider("deepseek", "DeepSeek", CHAT, "https://api.deepseek.com", ("DEEPSEEK_API_KEY",), "deepseek"),
    Provider("groq", "Groq", CHAT, "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), "groq"),
    Provider("cerebras", "Cerebras", CHAT, "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), "cerebras"),
    Provider("mistral", "Mistral", CHAT, "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), "mistral"),
    Provider("together", "Together AI", CHAT, "https://api.together.ai/v1", ("TOGETHER_API_KEY",), "together"),
    Provider(
        "fireworks",
        "Fireworks",
        CHAT,
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        "fireworks",
    ),
    Provider("moonshotai", "Moonshot AI", CHAT, "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), "moonshotai"),
    Provider("zai", "Z.ai", CHAT, "https://api.z.ai/api/coding/paas/v4", ("ZAI_API_KEY",), "zai", lower_case=True),
    Provider("minimax", "MiniMax", ANTHROPIC, "https://api.minimax.io/anthropic", ("MINIMAX_API_KEY",), "minimax"),
    Provider("huggingface", "Hugging Face", CHAT, "https://router.huggingface.co/v1", ("HF_TOKEN",), any_model=True),
    _local("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    _local("llama.cpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
    _local("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
    _local("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1"),
)

PROVIDERS = {provider.id: provider for provider in _ALL}
