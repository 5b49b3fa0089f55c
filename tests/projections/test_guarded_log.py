"""The guard before the log: nobody appends to one that does not hold what the rows were made of."""

import pytest
from breakable import Breakable
from living import running
from tables import wipe

from builders import typical
from poweron_events import topics
from poweron_events.dead_letter import DeadLetter
from poweron_events.errors import LogLost, Unavailable
from poweron_events.log import Message
from poweron_projections import log_guard, reader
from poweron_projections.connection import Pool
from poweron_projections.log_guard import GuardedLog
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import catch_up

EVENTS = topics.EVENTS.name
DEAD_LETTERS = topics.DEAD_LETTERS.name
NEW = [Message(b"k", b"new")]


@pytest.fixture
def log() -> Breakable:
    return Breakable()


@pytest.fixture
async def guarded(log: Breakable, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> GuardedLog:
    """A log with one workflow, which the rows hold; every append looks at it."""
    monkeypatch.setattr(log_guard, "SEEN_WITHIN", 0.0)
    await log.append(EVENTS, typical().messages)
    await catch_up(log, pool)
    guarded = GuardedLog(log, pool)
    await guarded.check()
    return guarded


@pytest.mark.req("E-02")
async def test_nothing_is_appended_to_a_log_that_is_shorter_than_the_rows(log: Breakable, guarded: GuardedLog) -> None:
    was = log.records()
    log.replace(*was[:-1])
    for topic in (EVENTS, DEAD_LETTERS):
        with pytest.raises(LogLost, match=r"ends at 15, not 16$"):
            await guarded.append(topic, NEW)
    assert log.records() == was[:-1]
    assert log.records(DEAD_LETTERS) == []


@pytest.mark.req("E-02")
async def test_what_no_row_was_made_of_yet_is_missed_by_whoever_saw_it(log: Breakable, guarded: GuardedLog) -> None:
    was = log.records()
    await guarded.append(EVENTS, typical("2").messages)
    log.replace(*was)
    for _ in range(2):
        with pytest.raises(LogLost):
            await guarded.append(EVENTS, NEW)
    assert log.records() == was


@pytest.mark.req("E-02")
async def test_a_log_that_is_restored_is_appended_to_by_whoever_begins_again(
    log: Breakable, guarded: GuardedLog
) -> None:
    was = log.records()
    log.replace()
    with pytest.raises(LogLost):
        await guarded.check()
    log.replace(*was)
    with pytest.raises(LogLost):
        await guarded.append(EVENTS, NEW)
    guarded.begin_again()
    await guarded.append(EVENTS, NEW)
    assert len(log.records()) == len(was) + 1


@pytest.mark.req("E-02")
@pytest.mark.parametrize("place", [0, -1])
async def test_a_log_that_is_as_long_but_another_one_is_told_by_its_first_and_its_last_record(
    log: Breakable, guarded: GuardedLog, pool: Pool, place: int
) -> None:
    forged = log.records()
    forged[place] = forged[place]._replace(value=b"another")
    log.replace(*forged)
    for each in (guarded, GuardedLog(log, pool)):
        with pytest.raises(LogLost, match="not the one that the rows were made of"):
            await each.check()
        with pytest.raises(LogLost):
            await each.append(EVENTS, NEW)
    with pytest.raises(LogLost):
        await GuardedLog(log, pool).append(EVENTS, NEW)
    assert log.records() == forged


@pytest.mark.req("E-02")
async def test_rows_that_are_behind_or_gone_lose_nothing(log: Breakable, guarded: GuardedLog, pool: Pool) -> None:
    await log.append(EVENTS, typical("2").messages)
    await guarded.check()
    await wipe(pool)
    await guarded.check()
    await guarded.append(EVENTS, NEW)


@pytest.mark.req("E-02")
async def test_whoever_slept_while_others_recovered_has_to_begin_again(
    log: Breakable, guarded: GuardedLog, pool: Pool
) -> None:
    log.replace()
    await rebuild(log, pool)
    await log.append(EVENTS, typical("2").messages)
    await log.append(EVENTS, typical("3").messages)
    await catch_up(log, pool)
    with pytest.raises(LogLost):
        await guarded.check()
    guarded.begin_again()
    await guarded.check()


async def test_appending_goes_on_while_postgres_is_unavailable(
    guarded: GuardedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(_: Pool) -> None:
        raise Unavailable("Postgres is not available")

    monkeypatch.setattr(log_guard, "_kept_records", unavailable)
    await guarded.append(EVENTS, NEW)
    with pytest.raises(Unavailable):
        await guarded.check()
    await guarded.append(EVENTS, NEW)


@pytest.mark.req("E-02")
async def test_rows_are_neither_brought_on_nor_made_again_from_a_log_that_lost_events(
    log: Breakable, guarded: GuardedLog, pool: Pool
) -> None:
    log.replace()
    for work in (catch_up, rebuild):
        with pytest.raises(LogLost):
            await work(guarded, pool)
    assert len(await reader.workflows(pool)) == 1


@pytest.mark.req("E-14")
async def test_a_topic_of_dead_letters_that_was_made_again_is_read_from_its_beginning(
    log: Breakable, pool: Pool
) -> None:
    def letter(offset: int) -> Message:
        return DeadLetter(topic="poweron.requests", partition=3, offset=offset, reason="no JSON", size=0).message()

    await log.append(DEAD_LETTERS, [letter(1), letter(2)])
    await catch_up(log, pool)
    log.replace(topic=DEAD_LETTERS)
    async with running(log, pool):
        await log.append(DEAD_LETTERS, [letter(3)])
        await catch_up(log, pool)
    assert {found.offset for found in await reader.dead_letters(pool)} == {1, 2, 3}
