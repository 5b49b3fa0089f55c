"""A model that takes less than a prompt has: every stage asks again with a shorter one, and never with the same."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import replays
from doubles import Counting, World, our_actions
from minds import Honest, completion
from modes import MODES

from poweron_events.event import DocumentRef
from poweron_events.request import workflow_id
from poweron_services.models.chat_model import Completion, TooLong
from poweron_services.models.prompts import (
    ProcessPrompt,
    Prompt,
    SelectionPrompt,
)

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
STAGES = {
    "React": ["plan", "select", "parameterize", "process", "refine", "review", "message"],
    "Actionplan": ["plan_actions"],
}
SENTENCE = "The exhibition opens on 3 May, as the town has said in its letter of today, and closes in the autumn. "
LETTER = "\n\n".join(f"Paragraph {number}. {SENTENCE * 8}" for number in range(15))


@dataclass
class Narrow(Honest):
    """Writes much, and takes prompts of one stage only where they are shorter than the first one, or never."""

    stage: str = ""
    never: bool = False
    lengths: list[int] = field(default_factory=list)
    """Of the prompts of the stage, since its last answer."""

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        if prompt.stage == self.stage and not self._takes(len(str(prompt.render()))):
            raise TooLong("context_length_exceeded")
        return completion(prompt, self.said(prompt))

    def _takes(self, length: int) -> bool:
        self.lengths.append(length)
        return not self.never and length < self.lengths[0]

    def said(self, prompt: Prompt) -> str | dict[str, Any]:
        said = super().said(prompt)
        match prompt, said:
            case SelectionPrompt(), dict():
                return {**said, "parametersContext": SENTENCE * 70}
            case ProcessPrompt(), _:
                return SENTENCE * 50
            case _:
                return said


async def ended(model: Narrow, mode: str) -> World:
    """A round with 15 documents, one of them long, whose names fill the lists of what is there."""
    world = World([*await our_actions(), Counting("web.read")], model=model)
    documents = []
    for number in range(15):
        text = (LETTER if number == 0 else SENTENCE).encode()
        content = await world.content.put(ID, text)
        documents.append(
            DocumentRef(
                document_id=f"d{number}",
                document_name=f"{number} {'letter of the town ' * 10}.txt",
                mime_type="text/plain",
                size=len(text),
                content=content,
            )
        )
    async with world.process():
        await world.ask(prompt="When does it open?", workflow_mode=mode, documents=tuple(documents))
        await world.ended(ID)
    return world


EVERY_STAGE = pytest.mark.parametrize(("mode", "stage"), [(mode, stage) for mode in MODES for stage in STAGES[mode]])


@pytest.mark.req("P-09")
@EVERY_STAGE
async def test_a_prompt_that_is_too_long_is_asked_again_shorter_at_every_stage(mode: str, stage: str) -> None:
    model = Narrow(stage=stage)
    world = await ended(model, mode)
    assert type(world.accepted(ID)[-1]).__name__ == "RoundCompleted"
    assert len(model.lengths) > 1
    assert [each for each in await replays.of_world(world, ID) if {each.decision, each.prompt} - {"same"}] == []


@pytest.mark.req("P-09")
@pytest.mark.parametrize(
    ("mode", "stage"),
    [
        pytest.param(mode, stage, marks=[] if stage in ("plan", "process", "message") else [pytest.mark.soak])
        for mode in MODES
        for stage in STAGES[mode]
    ],
)
async def test_a_prompt_that_is_too_long_however_short_is_never_asked_in_the_same_length_again(
    mode: str, stage: str
) -> None:
    model = Narrow(stage=stage, never=True)
    await ended(model, mode)
    assert model.lengths == sorted({*model.lengths}, reverse=True)
