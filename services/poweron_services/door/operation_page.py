"""The page of operations: processes and their roles, lag, waiting turns, halted workflows and dead letters."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import HTMLResponse

from poweron_events.errors import LogLost, PowerOnError
from poweron_projections import reader
from poweron_projections.entries import InstanceEntry
from poweron_projections.operations import (
    MANY_BEHIND,
    TOO_MANY_BEHIND,
    GroupLag,
    HaltedWorkflow,
    halted_workflows,
    lags,
    open_workflows,
)
from poweron_services.client.connect import Connections
from poweron_services.client.permissions import LATEST
from poweron_services.door.access import Reader
from poweron_services.door.door_state import Opened
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.workflow_queries import KAFKA_WITHIN
from poweron_services.wiring import ROLES

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

MOST: Final = 50  # entries of a list
LETTERS: Final = 20
FROM_ROWS: Final = "`poweron status` shows which server answers. All else on this page is from Postgres."


@dataclass(frozen=True, slots=True)
class LagReport:
    """The lag of all groups, or why it is unknown."""

    groups: Sequence[GroupLag] = ()
    error: str = ""
    advice: str = ""


@router.get("/operations")
async def operations_page(request: Request, connections: Opened, _: Reader) -> Response:
    """Show what runs, what waits and what is broken."""
    processes = await reader.instances_at(connections.pool, LATEST)
    halted = await halted_workflows(connections.pool, limit=MOST + 1)
    letters = await reader.dead_letters(connections.pool, limit=LETTERS + 1)
    played = {role for process in processes for role in process.record.roles}
    return rendered(
        request,
        "operations.html",
        processes=list(reversed(processes)),
        missing=[role for role in ROLES if role not in played],
        lag=await _lag(connections, processes),
        limits=(MANY_BEHIND, TOO_MANY_BEHIND),
        open=await open_workflows(connections.pool),
        halted=halted[:MOST],
        has_more_halted=len(halted) > MOST,
        need=need,
        letters=letters[:LETTERS],
        has_more_letters=len(letters) > LETTERS,
        here=request.url.path,
    )


async def _lag(connections: Connections, processes: Sequence[InstanceEntry]) -> LagReport:
    try:
        async with asyncio.timeout(KAFKA_WITHIN):
            return LagReport(await lags(connections.log, connections.pool, processes))
    except TimeoutError:
        return LagReport(error="Kafka does not answer.", advice=FROM_ROWS)
    except LogLost as error:
        advice = "PowerOn appends nothing until the topic is restored, or until you run `poweron recover`."
        return LagReport(error=f"{error}.", advice=advice)
    except PowerOnError as error:
        return LagReport(error=f"{str(error).removesuffix('.')}.", advice=FROM_ROWS)


def need(workflow: HaltedWorkflow) -> str:
    """Say what a halted workflow needs."""
    if workflow.frozen:
        return (
            "A newer release has worked on it. Start that release, or a later one; this one can only cancel the round."
        )
    return (
        "Three events in a row had no effect, so no role works on it. Its log shows them; cancel the round or restart "
        "the workflow, and find out which other program writes events."
    )


@router.get("/operations/processes/{instance}")
async def process_page(
    *, request: Request, instance: Annotated[str, Path(max_length=255)], connections: Opened, _: Reader
) -> Response:
    """Show what a process recorded about itself at its start."""
    entry = await reader.instance(connections.pool, instance)
    if entry is None:
        raise Problem("not_found", f"No process {instance!r} was recorded.", status=404)
    stages = dict[str, list[str]]()
    for stage, models in sorted(entry.record.models.items()):
        stages.setdefault(", ".join(models), []).append(stage)
    return rendered(request, "process.html", process=entry, record=entry.record, models=stages)
