"""The log read backwards: no record is left out, each has its cause, and a superseded one what came before it."""

from builders import At, Told, planned, requested, typical
from poweron_events import codec, topics
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_projections.connection import Pool
from poweron_projections.record_log import LogFilter, role_of, whole_log, workflow_log
from poweron_projections.verify import catch_up

EVENTS = topics.EVENTS.name
ALL = LogFilter()


async def given(log: MemoryLog, pool: Pool, *stories: Told) -> None:
    for told in stories:
        await log.append(EVENTS, told.messages)
    await catch_up(log, pool)


async def test_each_record_names_the_event_that_caused_it(log: MemoryLog, pool: Pool) -> None:
    told = typical()
    await given(log, pool, told)
    page = await workflow_log(pool, told.id, limit=100, wanted=ALL)
    assert [record.entry.seq for record in page.records if record.entry] == [*reversed(range(len(told.values)))]
    first = page.records[-1]
    assert (first.cause_seq, [record.cause_seq for record in page.records[:-1]].count(None)) == (None, 0)
    assert page.next is None


async def test_a_superseded_record_names_the_one_that_came_first(log: MemoryLog, pool: Pool) -> None:
    at = At()
    told = Told().tell(requested(), planned())
    rival = told.envelope(at.selected(action_objective="Read it again"))
    told.tell(at.selected())
    told.write(codec.encode(rival))
    told.write(told.values[2])
    await given(log, pool, told)
    newest, late, *_ = (await workflow_log(pool, told.id, limit=3, wanted=ALL)).records
    assert newest.rival is not None
    assert late.rival is not None
    assert (newest.verdict, newest.rival.seq, newest.rival.is_same) == ("superseded", 2, True)
    assert (late.verdict, late.rival.seq, late.rival.is_same) == ("superseded", 2, False)


async def test_pages_of_the_whole_log_hold_each_record_once(log: MemoryLog, pool: Pool) -> None:
    stories = [typical(str(number)) for number in range(5)]
    await given(log, pool, *stories)
    await log.append(EVENTS, [Message(b"x", b"no event")])
    await catch_up(log, pool)
    seen, before = list[tuple[int, int]](), None
    while True:
        page = await whole_log(pool, before=before, limit=7, wanted=ALL)
        seen += [(record.partition, record.offset) for record in page.records]
        before = page.next
        if before is None:
            break
    assert len(seen) == len(set(seen)) == sum(len(told.values) for told in stories) + 1


async def test_a_filter_shows_only_its_types_verdicts_and_roles(log: MemoryLog, pool: Pool) -> None:
    told = typical()
    told.write(told.values[-1])
    await given(log, pool, told)

    async def types(wanted: LogFilter) -> list[str]:
        page = await whole_log(pool, limit=50, wanted=wanted)
        return [record.entry.type for record in page.records if record.entry]

    assert await types(LogFilter(types=frozenset({planned().TYPE}))) == [planned().TYPE]
    assert len(await types(LogFilter(verdicts=frozenset({"superseded"})))) == 1
    assert len(await types(LogFilter(roles=frozenset({"test"})))) == len(told.values)
    assert await types(LogFilter(roles=frozenset({"planner"}))) == []


async def test_a_filtered_page_that_ends_goes_on_where_it_stopped(log: MemoryLog, pool: Pool) -> None:
    told = typical(steps=3)
    await given(log, pool, told)
    wanted = LogFilter(types=frozenset({At().selected().TYPE}))
    first = await workflow_log(pool, told.id, limit=2, wanted=wanted)
    assert first.next is not None
    second = await workflow_log(pool, told.id, before=first.next[0], limit=2, wanted=wanted)
    assert [len(page.records) for page in (first, second)] == [2, 1]


def test_the_role_is_that_of_the_source() -> None:
    assert role_of("/poweron/planner/host-1-ab") == "planner"
    assert role_of("/crm") == "/crm"
