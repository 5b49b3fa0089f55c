"""What is told before anybody recovers: every record that the rows were made of and the log does not hold."""

import pytest
from breakable import Breakable

from builders import Told, requested, typical
from poweron_events import topics
from poweron_events.errors import LogLost
from poweron_projections.connection import Pool
from poweron_projections.log_guard import LogLoss, find_loss
from poweron_projections.verify import catch_up

EVENTS = topics.EVENTS.name


@pytest.fixture
def log() -> Breakable:
    return Breakable()


def lost(loss: LogLoss) -> dict[str, tuple[int, int]]:
    """How many events of how many are lost, by workflow."""
    return {each.workflow_id: (each.lost, each.events) for each in loss.workflows}


@pytest.mark.req("E-02")
async def test_workflows_that_are_lost_or_cut_are_told_and_those_that_are_whole_are_not(
    log: Breakable, pool: Pool
) -> None:
    whole, cut, gone = typical("whole"), typical("cut"), Told("gone").tell(requested("gone"))
    for told in (whole, cut, gone):
        await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    missing = {*cut.values[-2:], *gone.values}
    log.replace(*(record for record in log.records() if record.value not in missing))

    loss = await find_loss(log, pool)

    assert (loss.known, loss.held, loss.missing) == (33, 30, 3)
    assert lost(loss) == {cut.id: (2, 16), gone.id: (1, 1)}
    assert {each.prompt for each in loss.workflows} == {"What is the grand total?"}


@pytest.mark.req("E-02")
async def test_records_that_stand_where_others_stood_keep_nothing(log: Breakable, pool: Pool) -> None:
    was = typical("was")
    await log.append(EVENTS, was.messages)
    await catch_up(log, pool)
    log.replace(*(record._replace(value=b"another") for record in log.records()))
    loss = await find_loss(log, pool)
    assert (loss.held, lost(loss)) == (16, {was.id: (16, 16)})


@pytest.mark.req("E-02")
async def test_where_the_topic_is_not_there_everything_is_lost(
    log: Breakable, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = typical("was")
    await log.append(EVENTS, was.messages)
    await catch_up(log, pool)

    async def gone(_: str) -> None:
        raise LogLost("the topic was deleted")

    monkeypatch.setattr(log, "ends", gone)
    loss = await find_loss(log, pool)
    assert (loss.held, lost(loss)) == (0, {was.id: (16, 16)})
