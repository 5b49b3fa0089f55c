"""What no event names leaves the content store, and nothing else does, whoever writes meanwhile."""

import asyncio
import os
import time
import tracemalloc
import uuid
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from s3 import BUCKET

from builders import At, Told, completed, document, follow_up, planned, refused, requested, reviewed, step
from poweron_events import RequestWorkflow, content_packs, content_place, encode_request, topics, workflow_id
from poweron_events.content import ContentStore
from poweron_events.content_place import CLEARING, StoredObject
from poweron_events.dead_letter import DeadLetter
from poweron_events.errors import Conflict, LogLost
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryLog
from poweron_events.request import StoredDocument
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.log_guard import GuardedLog
from poweron_projections.verify import catch_up
from poweron_services.client import content_cleanup
from poweron_services.client.connect import Connections
from poweron_services.client.content_cleanup import DAY, Cleanup, NotItsLog, clearing_up
from poweron_services.roles.action_execution import KIND
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.req("R-02")]
EVENTS = topics.EVENTS.name
ENDED, OPEN = workflow_id("/tests", "1"), workflow_id("/tests", "2")
UNSENT, WAITING, UNREADABLE = (str(uuid.UUID(int=number)) for number in (3, 4, 5))


@pytest.fixture(params=["folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "bucket":
        request.getfixturevalue("s3")
        return f"s3://{BUCKET}/{uuid.uuid4()}"
    return str(tmp_path / "content")


both = pytest.mark.parametrize("place", ["folder", "bucket"], indirect=True)


@pytest.fixture
async def connections(dsn: str, place: str, tmp_path: Path) -> AsyncGenerator[Connections, None]:
    async with connect_postgres(dsn) as pool:
        log = GuardedLog(MemoryLog(), pool)
        yield Connections(Settings(home=tmp_path), log, pool, ContentStore.at(place))


async def ended(connections: Connections, *names: str) -> None:
    """A workflow whose round has ended, and whose opening names this content, and some of its own."""
    names = (*names, await connections.content.put(ENDED, b"of every round"))
    documents = tuple(document(content=name, document_id=f"d{number}") for number, name in enumerate(names))
    told = Told("1").tell(requested(documents=documents), planned(), *step(1), reviewed(), completed())
    await connections.log.append(EVENTS, told.messages)


def write(place: str, *paths: str) -> None:
    """Files of somebody else's, or of a process that died."""
    for path in paths:
        Path(place, path).write_bytes(b"half of")


def folders(place: str) -> set[str]:
    return {path.name for path in Path(place).iterdir()}


def aged(place: str, *, days: float = 2) -> None:
    """All that is stored is so old, by the store's own clock."""
    moment = time.time() - days * DAY
    for path in Path(place).rglob("*"):
        if path.suffix == content_packs.SUFFIX:
            set_times(path, int(moment * 1000))
        os.utime(path, (moment, moment))


def set_times(pack: Path, milliseconds: int) -> None:
    """The records of a pack say when they were written."""
    with pack.open("r+b") as file:
        for record in content_packs.read_records(file, pack.name, 0).contents:
            content = content_packs.read_content(file, record)
            file.seek(record.offset)
            file.write(content_packs.record(record.name, content, milliseconds))


async def paths(connections: Connections) -> set[str]:
    return {each.path async for page in connections.content.stored() for each in page}


async def cleaned_up(connections: Connections, *, foreign: bool = False) -> Cleanup:
    with clearing_up(connections, time.time()) as cleaning:
        return await cleaning.remove(await cleaning.find(foreign=foreign))


def gone(cleanup: Cleanup) -> dict[str, set[str]]:
    return {workflow: {each.path.partition("/")[2] for each in found} for workflow, found in cleanup.found.items()}


async def test_what_no_event_names_goes_and_everything_else_stays(connections: Connections, place: str) -> None:
    content = connections.content
    listed = await content.put(ENDED, b"a document of many")
    names = [await content.put(ENDED, said) for said in (b"the estimate", f'["{listed}"]'.encode())]
    unnamed = await content.put(ENDED, b"of a process that died")
    await content.remember(ENDED, "pages", b"https://a.example/", b"a page")
    kept = await content.put(OPEN, b"may be named soon")
    await content.remember(OPEN, "pages", b"https://a.example/", b"a page")
    await ended(connections, *names)
    await connections.log.append(EVENTS, Told("2").tell(requested("2")).messages)
    write(place, f"{ENDED}/{unnamed}.{'0a' * 8}-7", f"{OPEN}/{kept}.{'0b' * 8}-8", f"{ENDED}/notes.txt")
    aged(place)
    young = await content.put(ENDED, b"stored just now")
    before = await paths(connections)

    removed = await cleaned_up(connections)

    (page,) = (path.removeprefix(f"{ENDED}/") for path in before if path.startswith(f"{ENDED}/pages/"))
    assert gone(removed) == {
        ENDED: {unnamed, page, f"{unnamed}.{'0a' * 8}-7"},
        OPEN: {f"{kept}.{'0b' * 8}-8"},
    }
    assert await paths(connections) == before - {each.path for each in removed.all}
    assert {f"{ENDED}/{name}" for name in ("key", "notes.txt", listed, young, *names)} <= await paths(connections)
    assert await content.get(ENDED, names[0]) == b"the estimate"
    assert gone(await cleaned_up(connections)) == {}


async def test_an_upload_whose_request_was_never_sent_goes_with_its_key_and_one_that_waits_stays(
    connections: Connections, place: str
) -> None:
    content = connections.content
    await ended(connections)
    unsent = await content.put(UNSENT, b"never sent")
    waits, left_over = await content.put(WAITING, b"waits in Kafka"), await content.put(WAITING, b"was left out")
    unreadable = await content.put(UNREADABLE, b"of a later release")
    asked = RequestWorkflow(prompt="Read it.", documents=(StoredDocument(document_name="a.txt", content=waits),))
    value = encode_request(asked, source="/tests", request_id="9", time="2026-11-24T00:00:00.000Z")
    await connections.log.append(topics.REQUESTS.name, [Message(b"k", value)])
    record = Record(topics.REQUESTS.name, 0, 1, 0, b"k", f'{{"later": "{unreadable}"}}'.encode(), {})
    await connections.log.append(
        topics.DEAD_LETTERS.name, [DeadLetter.of(record, "It is of a later release.").message()]
    )
    aged(place)

    assert gone(await cleaned_up(connections)) == {UNSENT: {"key", unsent}, WAITING: {left_over}}
    assert UNSENT not in folders(place)
    assert {path for path in await paths(connections) if not path.startswith(ENDED)} == {
        *(f"{WAITING}/key", f"{WAITING}/{waits}"),
        *(f"{UNREADABLE}/key", f"{UNREADABLE}/{unreadable}"),
    }


async def test_a_request_that_was_refused_holds_its_uploads_no_longer(connections: Connections, place: str) -> None:
    id_ = workflow_id("/tests", "9")
    uploaded = await connections.content.put(id_, b"of a request that was refused")
    asked = RequestWorkflow(prompt="Read it.", documents=(StoredDocument(document_name="a.txt", content=uploaded),))
    value = encode_request(asked, source="/tests", request_id="9", time="2026-11-24T00:00:00.000Z")
    await connections.log.append(topics.REQUESTS.name, [Message(b"k", value)])
    await ended(connections)
    aged(place)
    assert gone(await cleaned_up(connections, foreign=True)) == {}
    await connections.log.append(EVENTS, Told("9").tell(refused("9")).messages)
    assert gone(await cleaned_up(connections)) == {id_: {uploaded}}


async def test_a_dry_run_tells_the_same_and_removes_nothing(connections: Connections, place: str) -> None:
    await ended(connections)
    unnamed = await connections.content.put(ENDED, b"of a process that died")
    aged(place)
    before = await paths(connections)
    with clearing_up(connections, time.time()) as cleaning:
        found = await cleaning.find()
    assert gone(found) == {ENDED: {unnamed}}
    assert await paths(connections) == before
    assert (await cleaned_up(connections)).all == found.all


async def test_what_is_younger_than_a_day_stays(connections: Connections, place: str) -> None:
    await ended(connections)
    await connections.content.put(UNSENT, b"not sent yet")
    await connections.content.put(ENDED, b"unnamed")
    aged(place, days=0.99)
    assert gone(await cleaned_up(connections)) == {}
    aged(place, days=1.01)
    assert len((await cleaned_up(connections)).all) == 3


async def test_a_store_of_which_the_log_knows_nothing_is_left_alone_unless_that_is_said(
    connections: Connections, place: str
) -> None:
    await connections.content.put(UNSENT, b"of another PowerOn")
    aged(place)
    with pytest.raises(NotItsLog, match="The log knows none of the 1 workflows of the content store"):
        await cleaned_up(connections)
    assert len((await cleaned_up(connections, foreign=True)).all) == 2


async def test_nothing_goes_while_events_are_missing_from_the_log(connections: Connections, place: str) -> None:
    name = await connections.content.put(ENDED, b"the estimate")
    await ended(connections, name)
    aged(place)
    assert gone(await cleaned_up(connections)) == {}
    emptied = Connections(
        connections.settings, GuardedLog(MemoryLog(), connections.pool), connections.pool, connections.content
    )
    with pytest.raises(LogLost):
        await cleaned_up(emptied, foreign=True)
    assert f"{ENDED}/{name}" in await paths(connections)


class Many(ContentStore):
    """A store of very many objects, made up as they are asked for: every name is told by the log, and all are old."""

    async def stored(self, workflow_id: str | None = None) -> AsyncGenerator[Sequence[StoredObject], None]:
        for page in range(MANY // PAGE):
            of = uuid.UUID(int=page)
            yield [StoredObject(f"{of}/{name}", 1_000, 0.0) for name in names_of(page)]


MANY, PAGE = 30_000, 500  # objects
LEAST_OF_A_LIST = 400  # bytes of an object in a list of all, with its path and its name


def names_of(page: int) -> list[str]:
    return [f"{number:064x}" for number in range(page * PAGE, (page + 1) * PAGE)]


async def test_however_much_is_stored_no_list_of_all_of_it_is_held_in_memory(
    connections: Connections, place: str
) -> None:
    letters = topics.DEAD_LETTERS.name
    for page in range(MANY // PAGE):
        record = Record(letters, 0, page, 0, b"k", " ".join(names_of(page)).encode(), {})
        await connections.log.append(letters, [DeadLetter.of(record, "It is of a later release.").message()])
    many = Connections(connections.settings, connections.log, connections.pool, Many.at(place))
    await catch_up(many.log, many.pool)  # which holds what it writes of dead letters
    tracemalloc.start()
    try:
        with clearing_up(many, time.time()) as cleaning:
            found = await cleaning.find(foreign=True)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.all == []
    assert most < MANY * LEAST_OF_A_LIST / 10


# --- writers meanwhile --------------------------------------------------------------------------------


class Interrupted(ContentStore):
    """A store in which somebody does something right before anything is removed."""

    async def before(self) -> None:
        """Nothing, unless a test says what."""

    async def remove(self, paths: Sequence[str]) -> None:
        if any(not path.endswith(CLEARING) for path in paths):
            await self.before()
        await super().remove(paths)


@pytest.fixture
def everything_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """By any clock, since no server lets a client say when something was stored."""
    monkeypatch.setattr(content_cleanup, "DAY", -3_600.0)
    monkeypatch.setattr(content_place, "SKEW", -content_cleanup.CLEARED_WITHIN)  # also what was stored just before


@both
async def test_in_a_bucket_as_in_a_folder_what_is_named_stays_and_the_rest_goes(
    connections: Connections, everything_is_old: None
) -> None:
    named, unnamed = [await connections.content.put(ENDED, said) for said in (b"the estimate", b"unnamed")]
    unsent = await connections.content.put(UNSENT, b"never sent")
    await connections.content.remember(ENDED, "pages", b"https://a.example/", b"a page")
    await ended(connections, named)
    removed = gone(await cleaned_up(connections))
    assert (removed.keys(), removed[UNSENT]) == ({ENDED, UNSENT}, {unsent, "key"})
    assert unnamed in removed[ENDED]
    of_every_round = await connections.content.put(ENDED, b"of every round")
    assert await paths(connections) == {f"{ENDED}/{name}" for name in ("key", named, of_every_round)}


@both
async def test_who_stores_the_same_bytes_while_they_are_removed_stores_them_again(
    connections: Connections, place: str, everything_is_old: None
) -> None:
    name = await connections.content.put(ENDED, b"the same bytes")
    await ended(connections)
    writer, tasks = ContentStore.at(place), list[asyncio.Task[str]]()
    store = Interrupted.at(place)

    async def stored_meanwhile() -> None:
        tasks.append(asyncio.create_task(writer.put(ENDED, b"the same bytes")))
        await asyncio.wait(tasks, timeout=1)
        assert not tasks[0].done()  # it has seen the sign, and waits until it is gone

    store.before = stored_meanwhile  # type: ignore[attr-defined, method-assign]
    removed = await cleaned_up(Connections(connections.settings, connections.log, connections.pool, store))
    assert gone(removed) == {ENDED: {name}}
    assert await tasks[0] == name
    assert await connections.content.get(ENDED, name) == b"the same bytes"
    assert f"{ENDED}/{CLEARING}" not in await paths(connections)


async def test_what_was_stored_again_since_it_was_found_stays(connections: Connections, place: str) -> None:
    name = await connections.content.put(ENDED, b"the same bytes")
    await ended(connections)
    aged(place)
    with clearing_up(connections, time.time()) as cleaning:
        found = await cleaning.find()
        assert gone(found) == {ENDED: {name}}
        assert await connections.content.put(ENDED, b"the same bytes") == name
        assert gone(await cleaning.remove(found)) == {}
        assert await connections.content.get(ENDED, name) == b"the same bytes"


async def test_what_was_named_or_opened_again_since_it_was_found_stays(connections: Connections, place: str) -> None:
    named = await connections.content.put(ENDED, b"named meanwhile")
    other = await connections.content.put(ENDED, b"not named, but of an open round now")
    await ended(connections)
    aged(place)
    with clearing_up(connections, time.time()) as cleaning:
        found = await cleaning.find()
        assert gone(found) == {ENDED: {named, other}}
        told = Told("1").tell(requested(), planned(), *step(1), reviewed(), completed())
        more = told.tell(follow_up(documents=(document(content=named),))).messages[-1:]
        await connections.log.append(EVENTS, more)
        assert gone(await cleaning.remove(found)) == {}


async def test_what_a_list_of_calls_names_stays_and_so_do_the_answers_of_a_step_that_may_be_tried_again(
    connections: Connections, place: str
) -> None:
    """An event has room for so many calls; the others stand in a list that is kept as content."""
    content = connections.content
    kept: dict[str, set[str]] = {}
    for id_ in (ENDED, OPEN):
        prompt, answer = [await content.put(id_, said) for said in (b"the prompt of part 17", b"its answer")]
        calls = f'[{{"promptRef":"{prompt}","answerRef":"{answer}"}}]'.encode()
        kept[id_] = {prompt, answer, await content.put(id_, calls)}
        await content.remember(id_, KIND, b"a step and its prompt", b"what a model answered")
    (index,) = kept[ENDED] - {
        await content.put(ENDED, b"the prompt of part 17"),
        await content.put(ENDED, b"its answer"),
    }
    at = At(1, 1, 1, 1)
    done = [at.selected(), at.parameters(), at.started(), at.done(all_calls=index), at.observed(), at.refined()]
    told = Told("1").tell(requested(), planned(), *done, reviewed(), completed())
    await connections.log.append(EVENTS, told.messages)
    trying = Told("2").tell(requested("2"), planned(), at.selected(), at.parameters(), at.started())
    await connections.log.append(EVENTS, trying.messages)
    aged(place)

    removed = gone(await cleaned_up(connections))

    assert {*removed} == {ENDED}
    assert all(path.startswith(f"{KIND}/") for path in removed[ENDED])
    assert [await content.get(ENDED, name) for name in kept[ENDED]]
    assert await content.recall(OPEN, KIND, b"a step and its prompt") == b"what a model answered"


async def test_a_round_that_is_opened_while_the_log_is_read_is_seen(connections: Connections, place: str) -> None:
    other = await connections.content.put(ENDED, b"not named, but of an open round by now")
    await ended(connections)
    aged(place)
    told = Told("1").tell(requested(), planned(), *step(1), reviewed(), completed())
    more = told.tell(follow_up()).messages[-1:]

    class OpenedMeanwhile(ContentStore):
        async def stored(self, workflow_id: str | None = None) -> AsyncGenerator[Sequence[StoredObject], None]:
            async for page in super().stored(workflow_id):
                yield page
            if workflow_id is None:
                await connections.log.append(EVENTS, more)

    store = OpenedMeanwhile.at(place)
    removed = await cleaned_up(Connections(connections.settings, connections.log, connections.pool, store))
    assert gone(removed) == {}
    assert await connections.content.get(ENDED, other)


async def test_who_looked_too_long_removes_nothing_since_writers_wait_no_longer(
    connections: Connections, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await connections.content.put(ENDED, b"of a process that died")
    await ended(connections)
    aged(place)
    monkeypatch.setattr(content_cleanup, "CLEARED_WITHIN", -1.0)
    removed = await cleaned_up(connections)
    assert (gone(removed), removed.skipped) == ({}, [ENDED])
    assert await connections.content.get(ENDED, name)


async def test_a_key_under_which_somebody_stores_while_it_is_removed_comes_back(
    connections: Connections, place: str
) -> None:
    await ended(connections)
    await connections.content.put(UNSENT, b"never sent")
    aged(place)
    key = await connections.content.read_path(f"{UNSENT}/key")
    store = Interrupted.at(place)

    async def stored_meanwhile() -> None:
        write(place, f"{UNSENT}/{'ab' * 32}")  # by a writer that had the key

    store.before = stored_meanwhile  # type: ignore[attr-defined, method-assign]
    await cleaned_up(Connections(connections.settings, connections.log, connections.pool, store))
    assert await connections.content.read_path(f"{UNSENT}/key") == key
    assert f"{UNSENT}/{'ab' * 32}" in await paths(connections)


@both
async def test_two_who_clear_up_do_not_meet_in_a_workflow_and_one_that_died_is_not_waited_for(
    connections: Connections, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = connections.content
    await content.put(ENDED, b"the estimate")
    async with content.clearing(ENDED):
        with pytest.raises(Conflict, match="is being cleaned up by another process"):
            async with ContentStore.at(place).clearing(ENDED):
                pass
        monkeypatch.setattr("poweron_events.content.CLEARED_WITHIN", -3_600.0)
        assert await content.put(ENDED, b"the estimate")
        async with ContentStore.at(place).clearing(ENDED):
            pass
    assert f"{ENDED}/{CLEARING}" not in await paths(connections)
