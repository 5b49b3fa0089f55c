"""The content store: bytes under their commitment, stored once."""

import asyncio
import os
import shutil
import stat
import uuid
from pathlib import Path
from typing import NoReturn

import pytest
from obstore.store import MemoryStore
from s3 import BUCKET

from poweron_events import content
from poweron_events.content import ContentStore, commitment
from poweron_events.content_place import AT_ONCE, PIECE, ContentBucket
from poweron_events.errors import MissingContent, Refused, Unavailable
from poweron_events.object_store import PART, open_store

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
OTHER = "7d444840-9dc0-11d1-b245-5ffdce74fad3"


@pytest.fixture(params=["folder", "memory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is: each promise holds for every one of them."""
    if request.param == "folder":
        return str(tmp_path / "content")
    if request.param == "bucket":
        request.getfixturevalue("s3")
        return f"s3://{BUCKET}/{uuid.uuid4()}"
    return "memory:///"


@pytest.fixture
def store(place: str) -> ContentStore:
    return ContentStore.at(place)


async def paths(store: ContentStore) -> set[str]:
    return {each.path async for page in store.stored() for each in page}


@pytest.mark.req("E-10")
def test_the_commitment_is_the_one_of_the_audit_vectors() -> None:
    key = bytes.fromhex("404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f")
    assert commitment(key, b"Top result: https://example.com/\n") == (
        "81e22dcd1938905c992fd674c7fe5c0966c0586201675b9b1eaa4d114df5b94a"
    )


@pytest.mark.req("R-02")
async def test_what_is_put_comes_back(store: ContentStore) -> None:
    name = await store.put(WORKFLOW, b"the estimate")
    assert await store.get(WORKFLOW, name) == b"the estimate"
    assert await store.size(WORKFLOW, name) == 12


async def test_what_is_put_comes_back_in_pieces(store: ContentStore) -> None:
    contents = [b"the estimate", b"the letter", bytes(range(256)) * 20_000]
    names = await store.put_all(WORKFLOW, contents)
    assert [b"".join([piece async for piece in store.pieces(WORKFLOW, name)]) for name in names] == contents
    with pytest.raises(MissingContent):
        await anext(store.pieces(WORKFLOW, "0" * 64))


async def test_a_large_file_is_read_in_small_pieces(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path / "content"))
    name = await store.put(WORKFLOW, bytes(3 * PIECE + 1))
    assert [len(piece) async for piece in store.pieces(WORKFLOW, name)] == [PIECE, PIECE, PIECE, 1]


async def test_nothing_at_all_can_be_stored(store: ContentStore) -> None:
    assert await store.get(WORKFLOW, await store.put(WORKFLOW, b"")) == b""


@pytest.mark.req("E-10")
async def test_storing_the_same_bytes_again_changes_nothing(store: ContentStore) -> None:
    name = await store.put(WORKFLOW, b"the estimate")
    assert await store.put(WORKFLOW, b"the estimate") == name
    assert await store.get(WORKFLOW, name) == b"the estimate"
    assert await paths(store) == {f"{WORKFLOW}/{name}", f"{WORKFLOW}/key"}


@pytest.mark.req("R-02")
async def test_what_is_large_is_stored_in_parts_and_comes_back_whole(store: ContentStore) -> None:
    large = bytes(range(256)) * (3 * PART // 256) + b"and the rest"
    name = await store.put(WORKFLOW, large)
    assert await store.put(WORKFLOW, large) == name
    assert await store.size(WORKFLOW, name) == len(large)
    assert await store.get(WORKFLOW, name) == large


async def test_what_is_too_large_is_refused_in_a_sentence(store: ContentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_CONTENT", 10)
    for storing in (store.put(WORKFLOW, b"x" * 11), store.remember(WORKFLOW, "pages", b"q", b"x" * 11)):
        with pytest.raises(Refused, match="11 bytes are too many; at most 10 can be kept as one document"):
            await storing
    assert await paths(store) == set()


async def test_a_system_that_takes_a_part_at_a_time_gets_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr("os.write", lambda descriptor, content: write(descriptor, content[:5]))
    store = ContentStore.at(str(tmp_path))
    assert await store.get(WORKFLOW, await store.put(WORKFLOW, b"the estimate")) == b"the estimate"


async def test_a_store_on_this_machine_is_not_asked_by_threads_of_its_own() -> None:
    """They end after an answer, and may abort an interpreter that ends meanwhile."""

    class Near(MemoryStore):
        def get_async(self, *_: object, **__: object) -> NoReturn:
            raise AssertionError

        put_async = head_async = get_async

    store = ContentStore(ContentBucket(Near()))
    name = await store.put(WORKFLOW, b"the estimate")
    assert (await store.get(WORKFLOW, name), await store.size(WORKFLOW, name)) == (b"the estimate", 12)


@pytest.mark.req("E-10")
async def test_two_workflows_name_the_same_bytes_differently(store: ContentStore) -> None:
    assert await store.put(WORKFLOW, b"same") != await store.put(OTHER, b"same")


@pytest.mark.req("E-10")
@pytest.mark.parametrize("place", ["folder", "bucket"], indirect=True)
async def test_a_race_makes_one_key(place: str) -> None:
    stores = [ContentStore.at(place) for _ in range(20)]
    names = await asyncio.gather(*(store.put(WORKFLOW, b"the estimate") for store in stores))
    assert len(set(names)) == 1
    assert len(await stores[0].read_path(f"{WORKFLOW}/key")) == 32


@pytest.mark.req("E-10")
@pytest.mark.parametrize("size", [12, AT_ONCE + 1])
async def test_nothing_comes_back_to_a_workflow_whose_key_was_erased(store: ContentStore, size: int) -> None:
    name = await store.put(WORKFLOW, b"the estimate")
    await store.remove([f"{WORKFLOW}/key"])
    for _ in range(2):  # whoever tries again gets no new key
        with pytest.raises(MissingContent, match=f"The content of workflow {WORKFLOW} was erased"):
            await store.put(WORKFLOW, b"x" * size)
    assert await paths(store) == {f"{WORKFLOW}/{name}"}


@pytest.mark.req("E-10")
async def test_nothing_comes_back_to_a_workflow_whose_folder_was_erased(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    await store.put(WORKFLOW, b"the estimate")
    shutil.rmtree(tmp_path / WORKFLOW)
    for _ in range(2):
        with pytest.raises(MissingContent, match="was erased"):
            await store.put(WORKFLOW, b"the estimate")
    assert not (tmp_path / WORKFLOW).exists()


async def test_only_its_own_account_may_read_what_is_stored(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path / "content"))
    await store.put_all(WORKFLOW, [b"small"])
    await store.put(WORKFLOW, b"x" * (PART + 1))
    await store.remember(WORKFLOW, "search", b"question", b"answer")
    stored = list((tmp_path / "content").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in stored if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in stored if path.is_dir()} == {0o700}


@pytest.mark.req("R-02")
async def test_what_was_never_stored_is_missing(store: ContentStore) -> None:
    for call in (store.get, store.size):
        with pytest.raises(MissingContent, match="has no content"):
            await call(WORKFLOW, "ab" * 32)


@pytest.mark.req("X-03")
@pytest.mark.parametrize("name", ["", "key", "../key", "ab" * 31, "AB" * 32, f"{'ab' * 32}\n", f"{'ab' * 32}/../key"])
async def test_only_commitments_name_content(store: ContentStore, name: str) -> None:
    await store.put(WORKFLOW, b"the estimate")
    for call in (store.get, store.size):
        with pytest.raises(MissingContent, match="is not the name of any content"):
            await call(WORKFLOW, name)


@pytest.mark.req("E-10")
async def test_a_store_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    (tmp_path / WORKFLOW).write_text("a file in the way of the workflow's folder")
    with pytest.raises(Unavailable, match="The content store did not"):
        await store.put(WORKFLOW, b"the estimate")


@pytest.mark.req("E-10")
async def test_a_key_that_cannot_be_read_is_no_foreign_error(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    (tmp_path / WORKFLOW / "key").mkdir(parents=True)
    with pytest.raises((Unavailable, MissingContent)):
        await store.put(WORKFLOW, b"the estimate")


def test_a_place_that_is_no_store_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in ("foo://bar", str(tmp_path / "file" / "store")):
        with pytest.raises(Refused, match=r"cannot be used: .* POWERON_CONTENT"):
            ContentStore.at(place)


async def test_what_a_workflow_remembers_of_a_question_comes_back_and_the_last_answer_counts(
    store: ContentStore,
) -> None:
    assert await store.recall("w1", "pages", b"https://a.example/") is None
    await store.remember("w1", "pages", b"https://a.example/", b"first")
    await store.remember("w1", "pages", b"https://a.example/", b"second")
    assert await store.recall("w1", "pages", b"https://a.example/") == b"second"
    assert await store.recall("w1", "searches", b"https://a.example/") is None
    assert await store.recall("w2", "pages", b"https://a.example/") is None


async def test_another_process_recalls_what_one_remembered_and_no_name_tells_what_was_asked(tmp_path: Path) -> None:
    await ContentStore.at(str(tmp_path)).remember("w1", "pages", b"https://a.example/", b"page")
    assert await ContentStore.at(str(tmp_path)).recall("w1", "pages", b"https://a.example/") == b"page"
    (kept,) = (tmp_path / "w1" / "pages").iterdir()
    assert kept.name == commitment((tmp_path / "w1" / "key").read_bytes(), b"https://a.example/")


async def test_nothing_is_remembered_of_a_workflow_that_was_erased(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    await store.remember("w1", "pages", b"question", b"answer")
    shutil.rmtree(tmp_path / "w1")
    with pytest.raises(MissingContent):
        await store.recall("w1", "pages", b"question")
    with pytest.raises(MissingContent):
        await store.remember("w1", "pages", b"question", b"answer")
    assert not (tmp_path / "w1").exists()


@pytest.mark.req("R-02")
@pytest.mark.parametrize("place", ["bucket"], indirect=True)
async def test_a_prompt_and_its_answer_are_one_object_of_a_bucket(place: str, store: ContentStore) -> None:
    names = await store.put_all(WORKFLOW, [b"You select. " * 100, b"the answer"])
    bucket, other = ContentBucket(open_store(place)), ContentStore.at(place)  # type: ignore[arg-type]  # no folder
    assert len([each async for each in bucket._objects(WORKFLOW)]) == 2  # with the key
    assert [await other.get(WORKFLOW, name) for name in names] == [b"You select. " * 100, b"the answer"]
    assert [await other.size(WORKFLOW, name) for name in names] == [1_200, 10]
    assert await paths(other) == {f"{WORKFLOW}/{name}" for name in (*names, "key")}


@pytest.mark.req("E-10")
async def test_a_content_is_removed_wherever_it_is_stored_and_what_is_beside_it_stays(store: ContentStore) -> None:
    one, two = await store.put_all(WORKFLOW, [b"the estimate", b"the answer"])
    await store.put_all(WORKFLOW, [b"the estimate", b"another answer"])
    await store.put(WORKFLOW, b"the estimate")
    await store.remove([f"{WORKFLOW}/{one}"])
    with pytest.raises(MissingContent):
        await store.get(WORKFLOW, one)
    assert await store.get(WORKFLOW, two) == b"the answer"
    assert len(await paths(store)) == 3


@pytest.mark.req("R-02")
@pytest.mark.parametrize("place", ["memory", "bucket"], indirect=True)
async def test_what_is_stored_while_a_workflow_is_cleared_up_is_not_removed_with_its_older_copy(
    store: ContentStore,
) -> None:
    """A writer whose objects are new does not look for the marker."""
    one, _ = await store.put_all(WORKFLOW, [b"the estimate", b"the answer"])
    async with store.clearing(WORKFLOW):
        await asyncio.wait_for(store.put_all(WORKFLOW, [b"the estimate", b"another answer"]), timeout=1)
        await store.remove([f"{WORKFLOW}/{one}"])
    assert await store.get(WORKFLOW, one) == b"the estimate"
