"""Answers of the web that are stored with a workflow, so that each question is asked only once.

A step that is retried after its process died, or replayed, gets the same result as the first time, whether an answer or
a refusal. Other steps get a stored answer while it is fresh, but ask again after a refusal. Each result is therefore
stored under its step, and the latest answer also under the question alone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import Refused

FRESH: Final = 3_600.0  # seconds for which an answer also serves other steps of its workflow

Answer = dict[str, Any]
"""An answer as JSON."""
Ask = Callable[[Answer | None], Awaitable[Answer]]
"""Asks the web. Its argument is the answer of an earlier step, if any, which may still be valid."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The caller of a request: a workflow, and a step that may be retried, identified by its idempotency key."""

    workflow_id: str
    step: str


class FetchRefusal(BaseModel):
    """Why there is no answer."""

    model_config = ConfigDict(frozen=True)

    sentence: str
    code: Code
    detail: str


class _Entry(BaseModel):
    """The stored result of a question."""

    model_config = ConfigDict(frozen=True)

    at: float
    """Seconds since 1970."""
    answer: Answer | None = None
    refusal: FetchRefusal | None = None

    def given(self) -> Answer:
        if self.refusal is not None:
            raise Refused(self.refusal.sentence, code=self.refusal.code, detail=self.refusal.detail)
        return self.answer or {}


class KeptAnswers:
    """The answers of one kind, such as `pages`. Concurrent callers with the same question share one answer."""

    def __init__(self, content: ContentStore, kind: str, now: Callable[[], float] = time.time) -> None:
        self._content = content
        self._kind = kind
        self._now = now
        self._asking = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    async def answer(self, reader: Reader, question: str, ask: Ask) -> Answer:
        """Return the stored answer, or else call `ask` and store its result.

        Raises:
            Refused: `ask` refused, now or in an earlier attempt of the step.
            Unavailable: the content store cannot be reached.
        """
        async with self._asking.setdefault((reader.workflow_id, question), asyncio.Lock()):
            own_question = f"{reader.step} {question}"
            if (first := await self._stored(reader, own_question)) is not None:
                return first.given()
            before = await self._stored(reader, question)
            if before is not None and 0 <= self._now() - before.at < FRESH:
                await self._keep(reader, own_question, before)
                return before.given()
            entry = await self._ask(reader, own_question, ask, before.answer if before else None)
            await self._keep(reader, question, entry)
            return entry.given()

    async def _ask(self, reader: Reader, own_question: str, ask: Ask, before: Answer | None) -> _Entry:
        try:
            answer = await ask(before)
        except Refused as error:
            refusal = FetchRefusal(sentence=str(error), code=error.code, detail=error.detail)
            await self._keep(reader, own_question, _Entry(at=self._now(), refusal=refusal))
            raise
        entry = _Entry(at=self._now(), answer=answer)
        await self._keep(reader, own_question, entry)
        return entry

    async def _stored(self, reader: Reader, question: str) -> _Entry | None:
        content = await self._content.recall(reader.workflow_id, self._kind, question.encode())
        try:
            return None if content is None else _Entry.model_validate_json(content)
        except ValidationError:  # written by another release
            return None

    async def _keep(self, reader: Reader, question: str, entry: _Entry) -> None:
        content = orjson.dumps(entry.model_dump(mode="json"))
        await self._content.remember(reader.workflow_id, self._kind, question.encode(), content)
