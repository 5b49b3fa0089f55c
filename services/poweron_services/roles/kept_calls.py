"""What a model answered to an action: kept with the workflow, so that a step that is tried again asks for it no more.

An answer is kept under its step and the prompt that it answers. The try that is told of in the end tells of its call,
too: it was paid for, and no other event tells of it.
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
"""Stands in place of the delimiter, which is another one for every prompt."""


class _Kept(BaseModel):
    """An answer as it is kept."""

    model_config = ConfigDict(frozen=True)

    text: str
    call: ModelCall


@dataclass(frozen=True, slots=True)
class KeptCalls:
    """The answers that a step of a workflow was given."""

    content: ContentStore
    workflow_id: str
    step: str
    """Its idempotency key, the same for every try."""

    async def recall(self, prompt: Prompt) -> Called | None:
        """What was answered when the step was tried before; None where it was not, or not in this form.

        Raises:
            Unavailable: the content store does not answer.
        """
        question = self._question(prompt)
        recall = partial(self.content.recall, self.workflow_id, KIND, question)
        async with content_time_limit():
            stored = await retry_content(self.workflow_id, recall)
        try:
            kept = None if stored is None else _Kept.model_validate_json(stored)
        except ValidationError:  # of another release
            return None
        return None if kept is None else Called(kept.text, kept.call)

    async def keep(self, prompt: Prompt, called: Called) -> None:
        """Remember an answer before anything is made of it; it is used also where that takes too long."""
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
