"""Identity is the slot: the same work has the same id, whoever does it and however often."""

import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import workflow_events

from builders import At, cancellation, completed, follow_up, identity, planned, refused, requested, reviewed
from poweron_events.envelope import Cause, envelop, event_id, idempotency_key, rfc3339, rfc3339_of, slot, source
from poweron_events.request import NAMESPACE, RequestIdentity, workflow_id
from poweron_events.stream import WorkflowEvent

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"

GOLDEN = {
    "5cf21e9d-84a3-5ca8-850a-53272fa2a7b0": ("1|0|0|0|poweron.tasks.planned.v1|0", planned()),
    "4cb9ce74-7583-5f8a-9767-0b0e6090cb94": ("1|1|1|2|poweron.action.selected.v1|0", At(2).selected()),
    "b0825ea8-1dcd-53a8-bd00-5ca44493857f": (
        "1|1|1|1|poweron.selection.rejected.v1|2",
        At().selection_rejected(2),
    ),
    "80969098-7b33-55df-a2e3-1226b74ef35c": ("1|1|1|1|poweron.action.started.v1|1", At().started()),
    "13740f06-2417-5548-a695-470b7cf864d6": ("1|1|2|0|poweron.task.reviewed.v1|0", reviewed(attempt=2)),
    "10c941af-d67f-5567-8dc9-a36a6205779a": ("1|0|0|0|poweron.round.completed.v1|0", completed()),
    "f49a4163-3cb9-58a5-9e04-24ba7c6ae551": ("1|0|0|0|poweron.workflow.requested.v1|/tests|1", requested()),
    "1b98e82f-5571-5e9c-8136-68593f4baf3e": ("2|0|0|0|poweron.round.requested.v1|/tests|2", follow_up()),
    "36346805-18a4-5dd1-b396-703856e29595": ("1|0|0|0|poweron.cancellation.requested.v1|/tests|3", cancellation()),
    "e04d0b67-9df1-5384-b077-e4816e94c8ad": ("0|0|0|0|poweron.request.refused.v1|/tests|4", refused()),
}


@pytest.mark.req("E-04")
@pytest.mark.parametrize(("expected", "place", "event"), [(id_, *rest) for id_, rest in GOLDEN.items()])
def test_an_event_has_exactly_this_slot_and_id(expected: str, place: str, event: WorkflowEvent) -> None:
    assert slot(event) == place
    assert event_id(WORKFLOW, event) == expected


@pytest.mark.req("E-15")
def test_a_sender_knows_the_workflow_id_beforehand() -> None:
    assert str(NAMESPACE) == "4c0f5d0e-7f0b-5a53-9d5c-6d3f9f1b8a60"
    assert workflow_id("/crm/offers", "4711") == "a89c0dbb-90b8-5255-a061-d159f8ffb0cd"


@pytest.mark.req("E-15")
@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_two_requests_never_share_a_workflow(one: tuple[str, str], other: tuple[str, str]) -> None:
    """A source holds no `|`: else ("a|b", "c") and ("a", "b|c") would be one workflow."""
    if "|" in one[0] + other[0]:
        return
    assert (workflow_id(*one) == workflow_id(*other)) == (one == other)


@pytest.mark.req("E-15")
def test_a_source_holds_no_bar() -> None:
    with pytest.raises(ValueError, match="String should match pattern"):
        RequestIdentity(source="a|b", id="c")


@pytest.mark.req("E-04")
@given(workflow_events)
def test_the_same_slot_has_the_same_id_whatever_is_said(event: WorkflowEvent) -> None:
    again = type(event).model_validate_json(event.model_dump_json(by_alias=True), by_alias=True, by_name=False)
    assert event_id(WORKFLOW, again) == event_id(WORKFLOW, event)
    assert uuid.UUID(event_id(WORKFLOW, event)).version == 5


@pytest.mark.req("E-04")
def test_content_does_not_count_and_place_does() -> None:
    event = At().selected()
    assert event_id(WORKFLOW, event) == event_id(WORKFLOW, At().selected(action="web.search", learnings=("x",)))
    others = [At(2), At(attempt=2), At(task=2), At(round_number=2)]
    ids = {event_id(WORKFLOW, event), *(event_id(WORKFLOW, at.selected()) for at in others)}
    ids |= {event_id(str(uuid.UUID(int=1)), event), event_id(WORKFLOW, At().parameters())}
    assert len(ids) == 7


@pytest.mark.req("E-04")
def test_what_intake_writes_carries_the_request_in_its_identity() -> None:
    assert event_id(WORKFLOW, cancellation(request_id="3")) != event_id(WORKFLOW, cancellation(request_id="4"))
    assert event_id(WORKFLOW, requested("1")) == event_id(WORKFLOW, requested("1", prompt="Something else?"))


@pytest.mark.req("E-08")
def test_a_repeated_try_is_the_same_effect() -> None:
    assert idempotency_key(WORKFLOW, (1, 2, 3, 4)) == "842f524f-ca28-5822-93a9-fc9be2217a21"


def test_an_envelope_names_its_writer_and_its_workflow() -> None:
    envelope = envelop(
        At().selected(), workflow_id=WORKFLOW, source=source("selector", "host-1"), time="2026-11-21T00:00:00.000Z"
    )
    assert (envelope.source, envelope.workflow_id, envelope.type) == (
        "/poweron/selector/host-1",
        WORKFLOW,
        "poweron.action.selected.v1",
    )


@pytest.mark.req("E-12")
def test_times_are_utc_with_milliseconds() -> None:
    assert rfc3339(datetime(2026, 11, 21, 0, 0, 1, tzinfo=UTC)) == "2026-11-21T00:00:01.000Z"
    assert rfc3339_of(1_795_219_201_999) == "2026-11-21T00:00:01.999Z"
    there = timezone(timedelta(hours=2))
    assert rfc3339(datetime(2026, 11, 21, 2, 0, 1, 999_999, tzinfo=there)) == "2026-11-21T00:00:01.999Z"


@pytest.mark.req("E-03")
def test_a_cause_is_named_by_id_and_hash_wherever_it_is_kept() -> None:
    cause = Cause("i", "h", 41)
    assert cause.names(Cause("i", "h", 7))
    assert cause.names(Cause("i", "h"))
    assert not cause.names(Cause("i", "other", 41))
    assert not cause.names(Cause("other", "h", 41))
    assert not cause.names(None)


def test_a_request_is_identified_by_source_and_id() -> None:
    assert requested("1").request == identity("1")
