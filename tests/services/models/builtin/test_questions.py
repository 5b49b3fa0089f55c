"""Questions to documents of every format, through the whole loop in both modes, over the log in memory."""

import asyncio
from dataclasses import dataclass, field

import pytest
from doubles import World, our_actions
from questions import EVERY_FORMAT, EVERY_FORMAT_UNANSWERABLE, Ask, Examined

from builders import document
from poweron_events.request import WorkflowMode, workflow_id
from poweron_services.connectors.document_reader import DocumentReader, ExtractedDocument, LoadBytes
from poweron_services.models.builtin import BuiltinModel

AT_ONCE = 8


@dataclass
class ReadOnce:
    """The reader of documents, which both modes ask for the same ones."""

    reader: DocumentReader = field(default_factory=lambda: DocumentReader(2))
    read: dict[tuple[str, int], "asyncio.Task[ExtractedDocument]"] = field(default_factory=dict)

    async def __call__(self, load: LoadBytes, size: int, name: str, **told: object) -> ExtractedDocument:
        if (name, size) not in self.read:
            self.read[name, size] = asyncio.create_task(self.reader(load, size, name))
        return await asyncio.shield(self.read[name, size])


async def answered(world: World, asked: Ask, mode: WorkflowMode) -> str:
    """What the round says to the question."""
    assert asked.path is not None
    request_id = f"{mode} {asked.document} {asked.question}"
    id_, data = workflow_id("/tests", request_id), asked.path.read_bytes()
    handed_over = document(asked.document, size=len(data), content=await world.content.put(id_, data))
    await world.ask(request_id, prompt=asked.question, documents=(handed_over,), workflow_mode=mode)
    workflow = await world.ended(id_)
    assert workflow.current.ending == "completed"
    return str(world.accepted(id_)[-1].message)


@pytest.mark.timeout(300)
@pytest.mark.req("C-04")
@pytest.mark.parametrize("mode", ["React", pytest.param("Actionplan", marks=pytest.mark.soak)])
async def test_nine_of_ten_questions_to_every_format_are_answered_right_and_ten_have_no_answer(
    mode: WorkflowMode,
) -> None:
    world = World(await our_actions(ReadOnce()), model=BuiltinModel())
    asks = [each for each in (*EVERY_FORMAT, *EVERY_FORMAT_UNANSWERABLE) if each.path is not None]
    places = asyncio.Semaphore(AT_ONCE)

    async def examined(asked: Ask, mode: WorkflowMode) -> Examined:
        async with places:
            return Examined(asked, await answered(world, asked, mode))

    async with world.process(concurrency=AT_ONCE):
        found = await asyncio.gather(*(examined(each, mode) for each in asks))
    wrong = [each for each in found if each.asked.facts and not each.is_right]
    invented = [each for each in found if not each.asked.facts and not each.is_right]
    answerable = sum(bool(each.asked.facts) for each in found)
    assert answerable >= 40
    assert len(found) - answerable >= 10
    assert len(wrong) <= answerable / 10, wrong
    assert invented == []
