"""The context window of a model, in tokens, as reported by the server that runs it.

OpenAI's interface has no such field, so every kind of server reports it elsewhere: vLLM and SGLang as `max_model_len`
of `/models`, LM Studio, Groq and OpenRouter there under other names, llama.cpp in `/props`, Ollama in `/api/ps` for a
model that is loaded and in `/api/show` if the model sets `num_ctx`.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import httpx2
import orjson

from poweron_events.errors import Refused, Unavailable
from poweron_services.models.providers.http_client import Access

PATIENCE: Final = 5.0  # seconds, for all requests together
NAMES: Final = ("max_model_len", "loaded_context_length", "context_length", "context_window", "max_context_length")
"""The names that servers use for the window of a model, in its entry of `/models`."""
LEAST, MOST = 256, 100_000_000  # tokens; a number outside this range is not a window
_NUM_CTX: Final = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


async def server_window(client: httpx2.AsyncClient, way: Access, model: str) -> int | None:
    """Return the tokens of the model's window, prompt and answer together; None if the server does not report it.

    Raises:
        Unavailable: the server cannot be reached.
    """
    root, ask = way.place.rstrip("/"), _Server(client, way.key)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            models = await ask(f"{root}/models")
            if (window := _listed_window(models, model)) is not None:
                return window
            root = root.removesuffix("/v1")
            if (window := _usable(_at(await ask(f"{root}/props"), "default_generation_settings", "n_ctx"))) is not None:
                return window
            entries = _entries(await ask(f"{root}/api/ps"), "models", model)
            if (
                window := next(filter(None, (_usable(entry.get("context_length")) for entry in entries)), None)
            ) is not None:
                return window
            set_to = _NUM_CTX.search(str(_at(await ask(f"{root}/api/show", {"model": model}), "parameters")))
            if ask.reached:
                return _usable(int(set_to[1])) if set_to else None
    if not ask.reached:
        raise Unavailable("The server does not answer.", code="model_unavailable")
    return None


class _Server:
    """Requests JSON from a server; the result is None if the answer is anything else."""

    def __init__(self, client: httpx2.AsyncClient, key: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {key}"}
        self.reached = False

    async def __call__(self, address: str, body: Mapping[str, Any] | None = None) -> Any:
        method = "GET" if body is None else "POST"
        try:
            answer = await self._client.request(method, address, json=body, headers=self._headers)
            self.reached = True
            return orjson.loads(answer.content) if answer.is_success else None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError, Refused):
            return None


def _listed_window(body: Any, model: str) -> int | None:
    """Return the window in the entry of the model, or in the only entry."""
    for entry in _entries(body, "data", model):
        meta = entry.get("meta")
        values = [*map(entry.get, NAMES), _at(meta, "n_ctx")]
        if (window := next(filter(None, map(_usable, values)), None)) is not None:
            return window
    return None


def _entries(body: Any, member: str, model: str) -> Iterator[Mapping[str, Any]]:
    entries = _at(body, member)
    known = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    matches = [entry for entry in known if model in (entry.get("id"), entry.get("name"), entry.get("model"))]
    yield from matches or (known if len(known) == 1 else [])


def _at(value: Any, *members: str) -> Any:
    for member in members:
        value = value.get(member) if isinstance(value, Mapping) else None
    return value


def _usable(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and LEAST <= value <= MOST else None
