"""An embedder with OpenAI's interface, at a provider or on a self-hosted server."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

import httpx2
import orjson

from poweron_events.errors import Unavailable
from poweron_services.models.embedding.embedder import Vector
from poweron_services.models.providers.clients import access
from poweron_services.models.providers.http_client import http_client
from poweron_services.settings.config import Provider, ProviderSettings

AT_ONCE: Final = 64  # texts per request
TIMEOUT: Final = 30.0  # seconds per request


class EmbeddingEndpoint:
    """Requests vectors, from a thread without an event loop. Its requests count towards no budget."""

    near = None

    def __init__(self, provider: Provider, model: str) -> None:
        """Use the vectors of a provider's model.

        Raises:
            Refused: a variable of the provider must be set first.
        """
        self._way = access(provider, ProviderSettings())
        self._model = model
        self.name = f"{provider}:{model}"

    def question(self, text: str) -> Vector:
        return self.passages([text])[0]

    def passages(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of the texts, in the same order.

        Raises:
            Unavailable: the server cannot be reached, or its answer has another form.
        """
        return asyncio.run(self._ask(texts))

    async def _ask(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        async with http_client(TIMEOUT, self._way) as client:
            for start in range(0, len(texts), AT_ONCE):
                vectors += await self._vectors(client, list(texts[start : start + AT_ONCE]))
        return vectors

    async def _vectors(self, client: httpx2.AsyncClient, texts: list[str]) -> list[Vector]:
        try:
            answer = await client.post(
                f"{self._way.place.rstrip('/')}/embeddings",
                content=orjson.dumps({"model": self._model, "input": texts}),
                headers={"Authorization": f"Bearer {self._way.key}", "Content-Type": "application/json"},
            )
            body: Any = orjson.loads(answer.raise_for_status().content)
            entries = sorted(body["data"], key=lambda entry: entry["index"])
            vectors = [_normalise(entry["embedding"]) for entry in entries]
        except (httpx2.HTTPError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise self._unavailable(type(error).__name__) from error
        if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) != 1:
            raise self._unavailable("it gave another number of vectors")
        return vectors

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(f"{self.name} gave no embeddings: {reason}.", code="model_unavailable")


def _normalise(numbers: Sequence[float]) -> Vector:
    length = math.hypot(*numbers)
    return [number / length for number in numbers]
