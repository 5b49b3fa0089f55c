"""The problem of a late answer names the answer that came first, also if another attempt had a step of that number."""

import re

import pytest
from door_requests import expect, post, sentence
from followed_door import written
from opened_door import opened

from builders import APPROVED, At, Told, person, planned, requested
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.settings.config import Settings

pytestmark = pytest.mark.system

PAGE = {"Accept": "text/html"}


def twice_answered() -> Told:
    """Bob denies the step of the first attempt, Ada approves that of the second."""
    first, second = At(), At(attempt=2)
    told = Told().tell(requested(), planned(), first.selected(), first.parameters(), first.approval_requested())
    told.tell(first.approval_denied("6", actor=person("bob")), first.started(), first.done(success=False))
    told.tell(first.observed(), first.refined(), first.reviewed(status="retry"))
    told.tell(second.selected(), second.parameters(), second.approval_requested())
    return told.tell(second.approval_granted("7", actor=person("ada")))


async def test_a_late_answer_names_the_earlier_answer_to_the_same_attempt(
    door_settings: Settings, kafka: KafkaSettings, dsn: str
) -> None:
    told = twice_answered()
    assert {*told.verdicts} == {"accepted"}
    async with written(door_settings, kafka, dsn) as writer:
        workflow = await writer.write(told)
    async with opened(door_settings, serving=False) as door:
        form = re.search(r'name="token" value="([0-9a-f]{64})"', (await door.http.get("/", headers=PAGE)).text)
        assert form is not None
        for attempt, status, name in ((1, "denied", "bob"), (2, "approved", "ada")):
            place, answer = f"r1t1a{attempt}s1", {"decision": "approve", "parametersSha256": APPROVED}
            late = await post(door, f"/workflows/{workflow}/approvals/{place}", answer)
            expect(late, 409, "nothing_to_approve")
            assert f"attempt {attempt}, was answered already: it is {status} by {name}." in sentence(late)
            fields = {**answer, "token": form[1]}
            page = await door.http.post(f"/approvals/{workflow}/{place}", data=fields, headers=PAGE)
            assert page.status_code == 409
            words = re.sub(r"<[^>]+>", "", page.text)
            assert re.search(rf"{name} {status} this action at .* UTC, before your answer\.", words)
