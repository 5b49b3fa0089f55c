"""The clients of the providers: their addresses, and our credentials.

A client library takes seconds to import, so each is imported only if its provider is configured.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx2
from pydantic import SecretStr
from pydantic_ai.models import Model

from poweron_events.errors import Refused
from poweron_services.models.providers.http_client import Access
from poweron_services.settings.config import KEY_VARIABLES, PLACE_VARIABLES, Provider, ProviderSettings
from poweron_services.settings.setting_types import wrong_address

NO_KEY: Final = "no-key"  # self-hosted servers often need no key, but their client libraries always do
OPENAI: Final = "https://api.openai.com/v1"
ANTHROPIC: Final = "https://api.anthropic.com"
MISTRAL: Final = "https://api.mistral.ai"
OLLAMA: Final = "http://localhost:11434/v1"


def access(provider: Provider, known: ProviderSettings) -> Access:
    """Read the address and the credentials of a provider from its variables.

    Raises:
        Refused: a variable must be set first; the message names it.
    """
    way = _ACCESS[provider](known)
    if (wrong := wrong_address(way.place)) is not None:
        raise Refused(f"{PLACE_VARIABLES[provider]} {wrong}")
    return _split_address(way)


def is_own_server(provider: Provider, way: Access) -> bool:
    """Return whether the models run on a self-hosted server, such as llama.cpp, vLLM or Ollama.

    Such a server enforces a schema only for the whole answer, not for the arguments of a tool.
    """
    return provider == "ollama" or (provider == "openai" and way.place != OPENAI)


def _split_address(way: Access) -> Access:
    """Move login and query from the address into fields of their own."""
    url = urlsplit(way.place)
    user, _, host = url.netloc.rpartition("@")
    name, _, password = user.partition(":")
    login = f"{unquote(name)}:{unquote(password)}" if user else None
    place = urlunsplit(url._replace(netloc=host, query="", fragment=""))
    return replace(way, place=place, login=login, query=url.query)


def pydantic_model(provider: Provider, name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    """Return the pydantic-ai model."""
    return _MODELS[provider](name, way, client)


def _openai_access(known: ProviderSettings) -> Access:
    place = _text(known.openai_base_url)
    key = _text(known.openai_api_key) or (NO_KEY if place else _key_of("openai", None))
    return Access(place or OPENAI, key)


def _anthropic_access(known: ProviderSettings) -> Access:
    return Access(_text(known.anthropic_base_url) or ANTHROPIC, _key_of("anthropic", known.anthropic_api_key))


def _mistral_access(known: ProviderSettings) -> Access:
    return Access(_text(known.mistral_base_url) or MISTRAL, _key_of("mistral", known.mistral_api_key))


def _azure_access(known: ProviderSettings) -> Access:
    place, key = _text(known.azure_openai_endpoint), _key_of("azure", known.azure_openai_api_key)
    if place is None:
        raise Refused("A model of azure is asked for: set AZURE_OPENAI_ENDPOINT to where it is.")
    if known.openai_api_version is None and not urlsplit(place).path.rstrip("/").endswith("/v1"):
        raise Refused("A model of azure is asked for: set OPENAI_API_VERSION, or an AZURE_OPENAI_ENDPOINT with `/v1`.")
    return Access(place, key, known.openai_api_version)


def _ollama_access(known: ProviderSettings) -> Access:
    return Access(_text(known.ollama_base_url) or OLLAMA, _text(known.ollama_api_key) or NO_KEY)


_ACCESS: Final[Mapping[Provider, Callable[[ProviderSettings], Access]]] = {
    "openai": _openai_access,
    "openai-responses": _openai_access,
    "anthropic": _anthropic_access,
    "mistral": _mistral_access,
    "azure": _azure_access,
    "ollama": _ollama_access,
}


def _openai(name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - only its own client is imported
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 - as above

    return OpenAIChatModel(name, provider=OpenAIProvider(way.place, way.key, http_client=client))


def _openai_responses(name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings  # noqa: PLC0415 - as above
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 - as above

    provider = OpenAIProvider(way.place, way.key, http_client=client)
    settings = OpenAIResponsesModelSettings(openai_store=False)  # by default, OpenAI stores prompt and answer
    return OpenAIResponsesModel(name, provider=provider, settings=settings)


def _anthropic(name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415 - only its own client is imported
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415 - as above

    provider = AnthropicProvider(api_key=way.key, base_url=way.place, http_client=client)
    return AnthropicModel(name, provider=provider)


def _mistral(name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.mistral import MistralModel  # noqa: PLC0415 - only its own client is imported
    from pydantic_ai.providers.mistral import MistralProvider  # noqa: PLC0415 - as above

    return MistralModel(name, provider=MistralProvider(api_key=way.key, base_url=way.place, http_client=client))


def _azure(name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - only its own client is imported
    from pydantic_ai.providers.azure import AzureProvider  # noqa: PLC0415 - as above

    provider = AzureProvider(azure_endpoint=way.place, api_version=way.version, api_key=way.key, http_client=client)
    return OpenAIChatModel(name, provider=provider)


def _ollama(name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.ollama import OllamaModel  # noqa: PLC0415 - only its own client is imported
    from pydantic_ai.profiles import ModelProfile, merge_profile  # noqa: PLC0415 - as above
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415 - as above
    from pydantic_ai.providers.ollama import OllamaProvider  # noqa: PLC0415 - as above

    class LimitedOllama(OllamaProvider):
        """Ollama with the old name for the limit of an answer: it ignores `max_completion_tokens`."""

        @staticmethod
        def model_profile(model_name: str) -> ModelProfile | None:
            by_its_old_name = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
            return merge_profile(OllamaProvider.model_profile(model_name), by_its_old_name)

    return OllamaModel(name, provider=LimitedOllama(way.place, way.key, http_client=client))


_MODELS: Final[Mapping[Provider, Callable[[str, Access, httpx2.AsyncClient], Model]]] = {
    "openai": _openai,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "mistral": _mistral,
    "azure": _azure,
    "ollama": _ollama,
}


def _text(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _key_of(provider: Provider, key: SecretStr | None) -> str:
    value = _text(key)
    if value is None:
        raise Refused(f"A model of {provider} is asked for: set {KEY_VARIABLES[provider]} to your key.")
    return value
