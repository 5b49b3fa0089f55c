"""Collects the evidence from the log, the journal and the rows after all work has ended."""

from collections.abc import Mapping, Sequence

from poweron_events import topics
from poweron_events.dead_letter import read_dead_letter
from poweron_events.log import EventLog
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.shadow import Difference
from poweron_projections.verify import verify
from poweron_services.chaos.environment import ChaosEnvironment
from poweron_services.chaos.error_lines import error_lines_without_action
from poweron_services.chaos.evidence import Evidence, ListedWorkflow, LogReader, LogSummary, Place, SentRequest
from poweron_services.chaos.fault_injection import FaultInjector

LIST_PAGE = 500  # workflows


async def collect(
    environment: ChaosEnvironment,
    requests: Sequence[SentRequest],
    injector: FaultInjector,
    unexpected: Sequence[str],
    *,
    rows: bool,
) -> Evidence:
    """Return everything that the verdict is based on; include the rows only if `rows` says that they are complete."""
    connections = environment.sandbox.connections
    summary = await _log_summary(connections.log)
    differences = (await verify(connections.log, connections.pool)).differences if rows else ()
    return Evidence(
        requests=requests,
        log=summary,
        effects=environment.journal.read(),
        effect_times=environment.journal.times(),
        cancelled=injector.cancelled,
        differences=[_sentence(each) for each in differences],
        listed=await _listed(connections.pool) if rows else {},
        poison=injector.poison,
        bombs=injector.bombs,
        forged=injector.forged,
        dead_letters=await _dead_letters(connections.log),
        error_lines=error_lines_without_action(environment.logs),
        unexpected=unexpected,
    )


async def _log_summary(log: EventLog) -> LogSummary:
    log_reader = LogReader()
    async for records in log.read(topics.EVENTS.name, {}, await log.ends(topics.EVENTS.name)):
        log_reader.read(records)
    return log_reader.summary


async def _dead_letters(log: EventLog) -> dict[Place, bytes]:
    name, found = topics.DEAD_LETTERS.name, dict[Place, bytes]()
    async for records in log.read(name, {}, await log.ends(name)):
        for letter in (read_dead_letter(record.value) for record in records):
            found[Place(letter.topic, letter.partition, letter.offset)] = letter.raw or b""
    return found


async def _listed(pool: Pool) -> Mapping[str, ListedWorkflow]:
    """Return all workflows, read page by page as `poweron workflows` lists them."""
    listed: dict[str, ListedWorkflow] = {}
    page = await reader.workflows(pool, limit=LIST_PAGE)
    while page:
        listed |= {each.workflow_id: ListedWorkflow(each.status, each.current_round) for each in page}
        page = await reader.workflows(pool, limit=LIST_PAGE, before=page[-1].cursor)
    return listed


def _sentence(found: Difference) -> str:
    key = ", ".join(f"{name} {value}" for name, value in found.key.items())
    if found.column is None:
        return f"{found.table} ({key}): the row {'is missing' if found.found is None else 'should not be there'}."
    return f"{found.table} ({key}): {found.column} is {found.found!r}; the log says {found.expected!r}."
