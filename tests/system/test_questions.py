"""The main job on real documents: from a question to an answer that names its source, through the whole service."""

import asyncio

import pytest
from questions import QUESTIONS, UNANSWERABLE, Ask

from poweron_events import RequestWorkflow
from poweron_projections.verify import verify
from poweron_services.client.ask import File, ask
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.models.builtin import BuiltinModel
from poweron_services.standalone import local_identity

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

RIGHT_OF_TWENTY = 17
NOT_SAID = "The documents do not say"


@pytest.fixture
def model() -> BuiltinModel:
    return BuiltinModel()


async def _answer(service: Connections, asked: Ask) -> str:
    path = asked.path
    assert path is not None
    outcome = await ask(
        service,
        RequestWorkflow(prompt=asked.question),
        [File(path.name, path.read_bytes())],
        identity=local_identity(),
        callbacks=Callbacks(),
    )
    assert outcome.status == "completed"
    return outcome.message


def _is_right(asked: Ask, answer: str) -> bool:
    """Whether the facts are told as the answer, and not only quoted below a refusal."""
    return all(fact in answer for fact in asked.facts) and not answer.startswith(NOT_SAID)


@pytest.mark.req("L-08")
@pytest.mark.req("C-05")
async def test_twenty_questions_are_answered_and_five_are_said_to_have_no_answer(service: Connections) -> None:
    asked = [each for each in (*QUESTIONS, *UNANSWERABLE) if each.path is not None]
    answers = await asyncio.gather(*(_answer(service, each) for each in asked))
    answered = [(each, answer) for each, answer in zip(asked, answers, strict=True) if each.facts]
    wrong = [(each.question, answer) for each, answer in answered if not _is_right(each, answer)]
    silent = [answer for each, answer in zip(asked, answers, strict=True) if not each.facts]
    assert len(wrong) <= len(answered) * (20 - RIGHT_OF_TWENTY) / 20, wrong
    assert all(answer.startswith(NOT_SAID) for answer in silent), silent
    assert (await verify(service.log, service.pool)).differences == []
