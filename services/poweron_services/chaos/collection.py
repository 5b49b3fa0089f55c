"""Gathering: the evidence, from the log, the journal and the rows, once everything has come to rest."""

from collections.abc import Mapping, Sequence

from poweron_events import topics
from poweron_events.dead_letter import read_dead_letter
from poweron_events.log import EventLog
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.shadow import Difference
from poweron_projections.verify import verify
from poweron_services.chaos.environment import ChaosEnvironment
from poweron_services.chaos.evidence import Asked, Evidence, Shown, Told, Witness

PAGE = 500  # workflows


async def gather(
    environment: ChaosEnvironment,
    asked: Sequence[Asked],
    poison: Sequence[bytes],
    surprises: Sequence[str],
    *,
    rows: bool,
) -> Evidence:
    """Everything that the verdict is made from; the rows only where they were given time to be complete."""
    connections = environment.servers.connections
    told = await _told(connections.log)
    differences = (await verify(connections.log, connections.pool)).differences if rows else ()
    return Evidence(
        asked=asked,
        told=told,
        effects=environment.journal.read(),
        differences=[_sentence(each) for each in differences],
        shown=await _shown(connections.pool) if rows else {},
        poison=poison,
        buried=await _buried(connections.log),
        surprises=surprises,
    )


async def _told(log: EventLog) -> Told:
    witness = Witness()
    async for records in log.read(topics.EVENTS.name, {}, await log.ends(topics.EVENTS.name)):
        witness.hear(records)
    return witness.told


async def _buried(log: EventLog) -> set[bytes]:
    letters, buried = topics.DEAD_LETTERS.name, set[bytes]()
    async for records in log.read(letters, {}, await log.ends(letters)):
        buried |= {read_dead_letter(record.value).raw or b"" for record in records}
    return buried


async def _shown(pool: Pool) -> Mapping[str, Shown]:
    """All workflows, page by page, as `poweron workflows` lists them."""
    shown: dict[str, Shown] = {}
    page = await reader.workflows(pool, limit=PAGE)
    while page:
        shown |= {each.workflow_id: Shown(each.status, each.current_round) for each in page}
        page = await reader.workflows(pool, limit=PAGE, before=page[-1].cursor)
    return shown


def _sentence(found: Difference) -> str:
    key = ", ".join(f"{name} {value}" for name, value in found.key.items())
    if found.column is None:
        return f"{found.table} ({key}): the row {'is missing' if found.found is None else 'should not be there'}."
    return f"{found.table} ({key}): {found.column} is {found.found!r}; the log says {found.expected!r}."
