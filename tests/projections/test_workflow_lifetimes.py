"""Which workflows are past their retention, and which may have copies of another one's content."""

from typing import Any

from ledgers import write

from builders import Told, follow_up, identity, requested, typical
from poweron_events.actor import Actor
from poweron_events.archive_events import ContentErased, WorkflowRetained
from poweron_events.envelope import parse_time_ms
from poweron_events.log.memory import MemoryLog
from poweron_events.request import ForkedFrom
from poweron_projections import workflow_lifetimes
from poweron_projections.connection import Pool
from poweron_projections.verify import catch_up

NOW_MS = parse_time_ms("2026-11-29T00:00:00Z")
PAST, FUTURE = "2026-11-28T00:00:00Z", "2026-11-30T00:00:00Z"
BY: dict[str, Any] = {"actor": Actor(id="ada"), "request": identity("by")}


def retained(name: str, *changes: dict[str, str]) -> Told:
    return typical(name).tell(*(WorkflowRetained(**change, **BY) for change in changes))


async def test_a_workflow_is_expired_once_its_retention_is_over_and_nothing_holds_it(
    log: MemoryLog, pool: Pool
) -> None:
    over = retained("over", {"until": FUTURE}, {"until": PAST})
    released = retained("released", {"until": PAST}, {"hold": "a"}, {"released": "a"})
    held = retained("held", {"until": PAST}, {"hold": "a"}, {"hold": "b"}, {"released": "a"})
    erased = retained("erased", {"until": PAST}).tell(ContentErased(**BY))
    still_open = retained("open", {"until": PAST}).tell(follow_up())
    write(log, over, released, held, erased, still_open, retained("later", {"until": FUTURE}), typical("never"))
    await catch_up(log, pool)
    assert await workflow_lifetimes.expired_workflows(pool, NOW_MS) == sorted([over.id, released.id])
    retention = await workflow_lifetimes.workflow_retention(pool, held.id)
    assert (retention.until, retention.holds, retention.is_erased) == (PAST, ("b",), False)
    assert (await workflow_lifetimes.workflow_retention(pool, erased.id)).is_erased


async def test_copies_of_copies_are_found(log: MemoryLog, pool: Pool) -> None:
    first = typical("first")
    fork = Told("fork").tell(requested("fork", forked_from=ForkedFrom(workflow=first.id, seq=2, head="0" * 64)))
    restart = Told("restart").tell(requested("restart", restarted_from=fork.id))
    write(log, first, fork, restart, typical("other"))
    await catch_up(log, pool)
    assert await workflow_lifetimes.copies(pool, first.id) == sorted([fork.id, restart.id])
    assert await workflow_lifetimes.copies(pool, restart.id) == []
