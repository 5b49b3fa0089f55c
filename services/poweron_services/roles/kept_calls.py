"""Model answers to an action, kept with the workflow, so that a retried step does not ask for them again.

An answer is stored under its step and its prompt. The try that is finally recorded also includes the call of a recalled
answer: the call was paid for, and no other event records it.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Final

import orjson
import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.event import ModelCall
from poweron_services.models.call import Called
from poweron_services.models.prompts import Prompt
from poweron_services.roles.content_retry import content_time_limit, retry_content

log = structlog.get_logger()

KIND: Final = "answers"
FENCE: Final = "fence"
"""Replaces the delimiter, which is different in every prompt."""


class _Kept(BaseModel):
    """An answer as it is stored."""

    model_config = ConfigDict(frozen=True)

    text: str
    call: ModelCall


@dataclass(frozen=True, slots=True)
class KeptCalls:
    """The answers that a step of a workflow received."""

    content: ContentStore
    workflow_id: str
    step: str
    """The step's idempotency key, the same for every try."""

    async def recall(self, prompt: Prompt) -> Called | None:
        """The answer from an earlier try of the step; None if there is none, or none in this format.

        Raises:
            Unavailable: the content store does not answer.
        """
        question = self._question(prompt)
        recall = partial(self.content.recall, self.workflow_id, KIND, question)
        async with content_time_limit():
            stored = await retry_content(self.workflow_id, recall)
        try:
            kept = None if stored is None else _Kept.model_validate_json(stored)
        except ValidationError:  # from another release
            return None
        return None if kept is None else Called(kept.text, kept.call)

    async def keep(self, prompt: Prompt, called: Called) -> None:
        """Store an answer before it is used; if storing takes too long, the answer is used anyway."""
        kept = {"text": called.text, "call": called.call.model_dump(mode="json", by_alias=True)}
        question, written = self._question(prompt), orjson.dumps(kept)
        remember = partial(self.content.remember, self.workflow_id, KIND, question, written)
        try:
            async with content_time_limit(len(written)):
                await retry_content(self.workflow_id, remember)
        except Unavailable as error:
            log.warning("content_store_unavailable", error=str(error), workflow_id=self.workflow_id)

    def _question(self, prompt: Prompt) -> bytes:
        shown = hashlib.sha256(str(prompt.render(FENCE)).encode()).hexdigest()
        return f"{self.step} {prompt.template.sha256} {shown}".encode()
