"""The clients of the providers: where they are, who we are, and how much of an answer is read at most.

A client library takes seconds to import, so each is imported only where its provider is named.
These libraries log the address of each request: what an address says beside the place they are never told.
"""

import base64
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final, cast
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from pydantic import SecretStr
from pydantic_ai.models import Model

from poweron_events.errors import Refused
from poweron_services.config import KEY_VARIABLES, PLACE_VARIABLES, Provider, ProviderSettings, wrong_address
from poweron_services.models.providers import outgoing

CONNECT_TIMEOUT = 10.0  # seconds
MAX_BODY = 4_000_000  # bytes
NO_KEY: Final = "no-key"  # servers of one's own often want none, their client libraries always do
OPENAI: Final = "https://api.openai.com/v1"
ANTHROPIC: Final = "https://api.anthropic.com"
MISTRAL: Final = "https://api.mistral.ai"
OLLAMA: Final = "http://localhost:11434/v1"


_HEARD: ContextVar[bytearray | None] = ContextVar("heard", default=None)


@contextmanager
def listening() -> Generator[bytearray, None, None]:
    """The body of what is answered to a request, as far as it was read: also where the client library cannot use it."""
    token = _HEARD.set(heard := bytearray())
    try:
        yield heard
    finally:
        _HEARD.reset(token)


class TooMuch(httpx2.TransportError):
    """The answer is longer than what is read, or was compressed so that nobody knows how long it is."""


def http_client(timeout: float, way: "Access") -> httpx2.AsyncClient:
    """A client that never reads more of an answer than `MAX_BODY`; the proxies of the environment are used.

    Raises:
        Refused: the proxy cannot be used; the sentence names its variable.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [outgoing.look], "response": [_bound]},
        transport=_Completing(way, _transport(way.place)),
    )


def proxies() -> Mapping[str, str]:
    """The URLs of the environment's proxies, by the scheme of what is asked through them."""
    found = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all")}
    return {scheme: url if "://" in url else f"http://{url}" for scheme, url in found.items()}


def _transport(place: str) -> httpx2.AsyncHTTPTransport:
    asked, known = urlsplit(place), proxies()
    scheme = asked.scheme if asked.scheme in known else "all"
    if scheme not in known or proxy_bypass(asked.netloc):
        return httpx2.AsyncHTTPTransport()
    try:
        return httpx2.AsyncHTTPTransport(proxy=known[scheme])
    except (ValueError, ImportError, httpx2.InvalidURL):  # untold: the URL may hold a password
        variable = f"{scheme.upper()}_PROXY"
        raise Refused(
            f"{variable} names no proxy that can be used: set it to a URL such as `http://proxy:3128`, or unset it."
        ) from None


class _Completing(httpx2.AsyncBaseTransport):
    """Completes each request to the provider's place with the login and the query of its address, unseen by logs."""

    def __init__(self, way: "Access", transport: httpx2.AsyncBaseTransport) -> None:
        self._way = way
        self._origin = _origin(httpx2.URL(way.place))
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if _origin(request.url) == self._origin:
            request = self._completed(request)
        return await self._transport.handle_async_request(request)

    def _completed(self, request: httpx2.Request) -> httpx2.Request:
        query = b"&".join(filter(None, (request.url.query, self._way.query.encode())))
        headers = request.headers.copy()
        if self._way.login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self._way.login.encode()).decode()}"
        return httpx2.Request(
            request.method,
            request.url.copy_with(query=query) if query else request.url,
            headers=headers,
            stream=request.stream,
            extensions=request.extensions,
        )

    async def aclose(self) -> None:
        await self._transport.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _bound(response: httpx2.Response) -> None:
    outgoing.answered(response.status_code)
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise TooMuch("compressed, though that was not asked for")
    response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream))


class _Bounded(httpx2.AsyncByteStream):
    """A body that is given up once it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, heard = MAX_BODY, _HEARD.get()
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise TooMuch(f"longer than {MAX_BODY} bytes")
            if heard is not None:
                heard += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@dataclass(frozen=True, slots=True)
class Access:
    """Where a provider is, who we are there, and the version of its interface where it wants one named."""

    place: str
    key: str = field(repr=False)
    version: str | None = None
    login: str | None = field(default=None, repr=False)
    """`user:password` of its address, which comes in place of the key; None where it has none."""
    query: str = field(default="", repr=False)
    """That of its address."""


def access(provider: Provider, known: ProviderSettings) -> Access:
    """What the provider's variables say.

    Raises:
        Refused: a variable must be set first; the sentence names it.
    """
    found = _ACCESS[provider](known)
    if (wrong := wrong_address(found.place)) is not None:
        raise Refused(f"{PLACE_VARIABLES[provider]} {wrong}")
    return _taken_apart(found)


def _taken_apart(way: Access) -> Access:
    """With login and query beside the place, of which they are no part any more."""
    url = urlsplit(way.place)
    user, _, host = url.netloc.rpartition("@")
    name, _, password = user.partition(":")
    login = f"{unquote(name)}:{unquote(password)}" if user else None
    place = urlunsplit(url._replace(netloc=host, query="", fragment=""))
    return replace(way, place=place, login=login, query=url.query)


def pydantic_model(provider: Provider, name: str, way: Access, client: httpx2.AsyncClient) -> Model:
    """The model as pydantic-ai knows it."""
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
    kept_nowhere = OpenAIResponsesModelSettings(openai_store=False)  # unless told so, OpenAI keeps prompt and answer
    return OpenAIResponsesModel(name, provider=provider, settings=kept_nowhere)


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
        """Ollama as it is told how long an answer may be: nothing comes of `max_completion_tokens` there."""

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
    given = _text(key)
    if given is None:
        raise Refused(f"A model of {provider} is asked for: set {KEY_VARIABLES[provider]} to your key.")
    return given
