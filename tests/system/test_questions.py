"""The main job on real documents: from a question to an answer that names its source, through the whole service."""

import asyncio

import pytest
from questions import EVERY_FORMAT, QUESTIONS, UNANSWERABLE, Ask, Examined

from poweron_events import RequestWorkflow
from poweron_events.request import WorkflowMode
from poweron_projections.verify import verify
from poweron_services.client.ask import File, ask
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.models.builtin import BuiltinModel
from poweron_services.standalone import local_identity

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

RIGHT_OF_TWENTY = 17
RARER = (".odt", ".xlsx", ".pptx", ".eml", ".zip")
"""Formats of which one question each is asked in the older mode: the loop over all of them is tested in memory."""


@pytest.fixture
def model() -> BuiltinModel:
    return BuiltinModel()


async def _answer(service: Connections, asked: Ask, mode: WorkflowMode = "React") -> Examined:
    path = asked.path
    assert path is not None
    outcome = await ask(
        service,
        RequestWorkflow(prompt=asked.question, workflow_mode=mode),
        [File(path.name, path.read_bytes())],
        identity=local_identity(),
        callbacks=Callbacks(),
    )
    assert outcome.status == "completed"
    return Examined(asked, outcome.message)


@pytest.mark.req("L-08")
@pytest.mark.req("C-05")
async def test_twenty_questions_are_answered_and_five_are_said_to_have_no_answer(service: Connections) -> None:
    asked = [each for each in (*QUESTIONS, *UNANSWERABLE) if each.path is not None]
    found = await asyncio.gather(*(_answer(service, each) for each in asked))
    answerable = [each for each in found if each.asked.facts]
    wrong = [each for each in answerable if not each.is_right]
    assert len(wrong) <= len(answerable) * (20 - RIGHT_OF_TWENTY) / 20, wrong
    assert [each for each in found if not each.asked.facts and not each.is_right] == []
    assert (await verify(service.log, service.pool)).differences == []


@pytest.mark.req("C-04")
async def test_questions_to_the_rarer_formats_are_answered_in_the_older_mode(service: Connections) -> None:
    asked = [next(each for each in EVERY_FORMAT if each.document.endswith(ending)) for ending in RARER]
    found = await asyncio.gather(*(_answer(service, each, "Actionplan") for each in asked))
    assert [each for each in found if not each.is_right] == []
