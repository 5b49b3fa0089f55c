"""Stop requests hold a workflow until their answer is folded, wherever that answer was found."""

from builders import Told, planned, requested
from poweron_events import topics
from poweron_events.codec import encode_request
from poweron_events.errors import Unavailable
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_events.request import RequestCancellation
from poweron_services.runtime.stop_requests import StopRequests


async def _answered(_source: str, _request_id: str) -> bool:
    return True


async def _no_rows(_source: str, _request_id: str) -> bool:
    raise Unavailable("Postgres does not answer")


async def test_a_request_that_was_answered_before_it_was_read_does_not_wait_for_the_commit_of_intake() -> None:
    """Intake cannot commit it while an earlier opening waits for room, perhaps until this very workflow has ended."""
    log, workflow = MemoryLog(), Told().tell(requested(), planned()).workflow
    cancellation = RequestCancellation(workflow_id=workflow.id, round=1)
    value = encode_request(cancellation, source="/test", request_id="stop", time="2026-11-28T00:00:00.000Z")
    await log.append(topics.REQUESTS.name, [Message(workflow.id.encode(), value)])
    stops = StopRequests(log)

    await stops.read()
    assert stops.hold(workflow)

    assert not await stops.forget_settled(_no_rows, lambda _number, _end: True)
    assert not await stops.forget_settled(_answered, lambda _number, _end: False)
    assert stops.hold(workflow), "the answer may be a cancellation that is not folded yet"

    assert await stops.forget_settled(_answered, lambda _number, _end: True) == {workflow.id}
    assert not stops.hold(workflow)
