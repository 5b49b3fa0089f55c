"""Checks whether this release can judge the events of a workflow."""

from poweron_events.envelope import Envelope
from poweron_events.event import CATALOGUE
from poweron_events.request import LAWS, RoundRequested, WorkflowRequested
from poweron_services.client.client_errors import NewerRelease


def expect_known(workflow_id: str, seq: int, envelope: Envelope) -> None:
    """Refuse an event that only a newer release can judge.

    Raises:
        NewerRelease: the event has a type, or opens a round under rules, that this release does not know.
    """
    event = envelope.event
    if event is None and envelope.catalogue > CATALOGUE:
        problem = f"is {envelope.type!r}, a type of catalogue {envelope.catalogue}"
        raise NewerRelease(workflow_id, seq, what=problem, knows=f"catalogue {CATALOGUE}")
    if isinstance(event, WorkflowRequested | RoundRequested) and event.laws > LAWS:
        problem = f"opens a round by the rules number {event.laws}"
        raise NewerRelease(workflow_id, seq, what=problem, knows=f"the rules number {LAWS}")
