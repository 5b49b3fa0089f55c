"""Packs: the small contents of a workflow in one file per process."""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poweron_events import content_packs
from poweron_events.content import ContentStore
from poweron_events.content_packs import SMALL, SUFFIX, ContentPacks
from poweron_events.errors import DiskFull, MissingContent, Unavailable

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
ONE, TWO, THREE = "1a" * 32, "2b" * 32, "3c" * 32
PROMPT = b"You select the next action of a task. " * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / WORKFLOW).mkdir()
    return tmp_path


@pytest.fixture
def packs(folder: Path) -> ContentPacks:
    return ContentPacks(folder)


def files(folder: Path) -> list[Path]:
    return sorted((folder / WORKFLOW).glob(f"*{SUFFIX}"))


def names(packs: ContentPacks) -> set[str]:
    return {content.name for content in packs.contents(WORKFLOW)}


@given(contents=st.lists(st.binary(max_size=5_000), min_size=1, max_size=8), writers=st.integers(1, 3))
def test_what_any_process_appended_every_other_one_reads(
    contents: list[bytes], writers: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("packs")
    (folder / WORKFLOW).mkdir()
    processes, reader = [ContentPacks(folder) for _ in range(writers)], ContentPacks(folder)
    for number, content in enumerate(contents):
        name = f"{number:064x}"
        processes[number % writers].append(WORKFLOW, {name: content})
        assert reader.read(WORKFLOW, name) == content
        place = reader.find(WORKFLOW, name)
        assert place is not None
        assert place.size == len(content)
    assert len(files(folder)) == min(writers, len(contents))


@pytest.mark.req("R-02")
async def test_a_workflow_has_two_files_however_many_small_contents_it_has(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    contents = [f"{PROMPT.decode()} of step {number}".encode() for number in range(40)]
    stored = [name for content in contents for name in await store.put_all(WORKFLOW, [content, b"the answer"])]
    assert sorted(path.suffix for path in (tmp_path / WORKFLOW).iterdir()) == ["", SUFFIX]
    assert [await store.get(WORKFLOW, name) for name in stored[::2]] == contents
    assert sum(path.stat().st_size for path in files(tmp_path)) < sum(map(len, contents)) / 10


@pytest.mark.req("R-02")
async def test_a_folder_of_an_earlier_release_is_read_and_large_contents_are_files_still(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    large = await store.put(WORKFLOW, os.urandom(SMALL))
    (tmp_path / WORKFLOW / ONE).write_bytes(b"the estimate")
    assert {path.name for path in (tmp_path / WORKFLOW).iterdir()} == {"key", large, ONE}
    assert (await store.get(WORKFLOW, ONE), await store.size(WORKFLOW, ONE)) == (b"the estimate", 12)
    assert await store.size(WORKFLOW, large) == SMALL


@given(cut=st.integers(0, 200))
def test_what_a_process_did_not_finish_writing_hides_nothing(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("packs")
    (folder / WORKFLOW).mkdir()
    died = ContentPacks(folder)
    died.append(WORKFLOW, {ONE: b"first"})
    (pack,) = files(folder)
    complete = pack.stat().st_size
    died.append(WORKFLOW, {TWO: os.urandom(100)})
    os.truncate(pack, min(complete + cut, pack.stat().st_size - 1))
    after = ContentPacks(folder)
    after.append(WORKFLOW, {THREE: b"third"})
    assert (after.read(WORKFLOW, ONE), after.read(WORKFLOW, TWO), after.read(WORKFLOW, THREE)) == (
        b"first", None, b"third"
    )  # fmt: skip


@pytest.mark.req("E-10")
def test_what_is_removed_is_in_no_file_and_everything_else_stays_with_its_time(
    folder: Path, packs: ContentPacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, other = os.urandom(500), os.urandom(500)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    packs.append(WORKFLOW, {ONE: secret, TWO: other})
    ContentPacks(folder).append(WORKFLOW, {ONE: secret, THREE: b"third"})
    monkeypatch.undo()
    reader = ContentPacks(folder)
    assert reader.read(WORKFLOW, ONE) == secret
    ContentPacks(folder).remove(WORKFLOW, {ONE})
    assert [each for each in (folder / WORKFLOW).iterdir() if secret in each.read_bytes()] == []
    assert (reader.read(WORKFLOW, ONE), reader.find(WORKFLOW, ONE)) == (None, None)
    assert (reader.read(WORKFLOW, TWO), reader.read(WORKFLOW, THREE)) == (other, b"third")
    assert {content.modified_ms for content in reader.contents(WORKFLOW)} == {1_000}
    packs.append(WORKFLOW, {ONE: b"stored again"})
    assert reader.read(WORKFLOW, ONE) == b"stored again"


@pytest.mark.req("E-10")
@pytest.mark.parametrize("step", ["rename", "link", "replace", "unlink"])
def test_a_process_that_dies_while_it_removes_loses_nothing_that_stays(
    step: str, folder: Path, packs: ContentPacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs.append(WORKFLOW, {ONE: b"first", TWO: b"second"})
    done = getattr(os, step)

    def killed(*arguments: Any) -> None:
        done(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, killed)
    with suppress(KeyboardInterrupt):
        packs.remove(WORKFLOW, {ONE})
    monkeypatch.undo()
    assert TWO in names(ContentPacks(folder))
    ContentPacks(folder).remove(WORKFLOW, {ONE})
    assert names(ContentPacks(folder)) == {TWO}


@pytest.mark.req("E-10")
def test_what_is_half_written_goes_with_what_is_removed(folder: Path, packs: ContentPacks) -> None:
    secret = os.urandom(500)
    packs.append(WORKFLOW, {ONE: secret})
    (pack,) = files(folder)
    os.truncate(pack, pack.stat().st_size - 1)
    ContentPacks(folder).append(WORKFLOW, {ONE: secret, TWO: b"second"})
    ContentPacks(folder).remove(WORKFLOW, {ONE})
    assert [each for each in (folder / WORKFLOW).iterdir() if secret[:50] in each.read_bytes()] == []
    assert names(packs) == {TWO}


@pytest.mark.req("E-10")
@pytest.mark.parametrize("step", ["open", "write", "stat"])
def test_what_is_appended_while_others_are_removed_is_never_lost(
    step: str, folder: Path, packs: ContentPacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes a content when the writer has opened its pack, has written, or before it looks for it."""
    packs.append(WORKFLOW, {ONE: b"first", TWO: b"second"})
    function, waits = getattr(os, step), [True]

    def removed_meanwhile(*arguments: Any, **options: Any) -> Any:
        if not waits:
            return function(*arguments, **options)
        waits.clear()
        done = None if step == "stat" else function(*arguments, **options)
        ContentPacks(folder).remove(WORKFLOW, {ONE})
        return function(*arguments, **options) if step == "stat" else done

    monkeypatch.setattr(os, step, removed_meanwhile)
    packs.append(WORKFLOW, {THREE: b"third"})
    monkeypatch.undo()
    assert names(ContentPacks(folder)) == {TWO, THREE}
    assert packs.read(WORKFLOW, THREE) == b"third"


@pytest.mark.req("E-10")
def test_what_is_appended_between_a_look_and_the_removal_is_copied(
    folder: Path, packs: ContentPacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs.append(WORKFLOW, {ONE: b"first", TWO: b"second"})
    rename = os.rename

    def written_before(*arguments: Any) -> None:
        packs.append(WORKFLOW, {THREE: b"third"})
        rename(*arguments)

    monkeypatch.setattr(os, "rename", written_before)
    ContentPacks(folder).remove(WORKFLOW, {ONE})
    assert names(ContentPacks(folder)) == {TWO, THREE}


def test_threads_compress_and_decompress_at_the_same_time(folder: Path) -> None:
    """A compressor that threads share gives damaged bytes."""
    packs = ContentPacks(folder)
    contents = {f"{number:064x}": os.urandom(2_000) * 20 for number in range(200)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda each: packs.append(WORKFLOW, dict([each])), contents.items()))
        assert (
            dict(zip(contents, threads.map(lambda name: packs.read(WORKFLOW, name), contents), strict=True)) == contents
        )


@pytest.mark.req("E-10")
def test_a_pack_with_a_damaged_header_is_left_as_it_is(folder: Path, packs: ContentPacks) -> None:
    for name in (ONE, TWO, THREE):
        packs.append(WORKFLOW, {name: name.encode()})
    (pack,) = files(folder)
    damaged = bytearray(pack.read_bytes())
    damaged[len(damaged) // 3 + 40] ^= 1  # in the header of the second
    pack.write_bytes(damaged)
    assert names(ContentPacks(folder)) == {ONE}
    ContentPacks(folder).remove(WORKFLOW, {ONE})
    assert pack.read_bytes() == damaged


def test_the_dictionary_of_stored_contents_is_the_one_that_was_released() -> None:
    dictionary = Path(content_packs.__file__).with_name(content_packs.DICTIONARY_FILE).read_bytes()
    assert hashlib.sha256(dictionary).hexdigest() == "3c99a6a003e5549ed954f97fb5f431edc7f507bac440ff52a90805eaaa8195fe"


@pytest.mark.req("E-10")
async def test_a_full_disk_leaves_nothing_half_written_and_the_work_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, write, parts = ContentStore.at(str(tmp_path)), os.write, [10, 10]
    before = await store.put(WORKFLOW, b"before")
    size = sum(path.stat().st_size for path in files(tmp_path))

    def full(descriptor: int, content: bytes) -> int:
        if parts:
            return write(descriptor, content[: parts.pop()])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for _ in range(3):
        with pytest.raises(DiskFull):
            await store.put(WORKFLOW, b"does not fit")
    assert sum(path.stat().st_size for path in files(tmp_path)) == size
    monkeypatch.undo()
    after = await store.put(WORKFLOW, b"after")
    assert (await store.get(WORKFLOW, before), await store.get(WORKFLOW, after)) == (b"before", b"after")


@pytest.mark.req("E-10")
async def test_a_process_forgets_the_pack_of_a_workflow_that_was_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_packs, "MAX_OWN", 2)
    store = ContentStore.at(str(tmp_path))
    stored = [(workflow, await store.put(workflow, b"same")) for workflow in ("w1", "w2", "w3", "w1", "w2")]
    assert [await store.get(*place) for place in stored] == [b"same"] * 5
    await store.remove(["w1/key", f"w1/{stored[0][1]}"])
    assert not (tmp_path / "w1").exists()
    with pytest.raises(MissingContent):
        await store.get(*stored[0])


async def test_a_damaged_content_is_an_error_and_no_other_content(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    name = await store.put(WORKFLOW, PROMPT)
    (pack,) = files(tmp_path)
    damaged = bytearray(pack.read_bytes())
    damaged[60] ^= 0xFF
    pack.write_bytes(damaged)
    with pytest.raises(Unavailable, match="are damaged"):
        await ContentStore.at(str(tmp_path)).get(WORKFLOW, name)
