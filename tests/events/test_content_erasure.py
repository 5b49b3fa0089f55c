"""Erased content is nowhere in the store any more, and encrypted content is worth nothing without its key."""

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from s3 import BUCKET
from stored_files import everything_in

from poweron_events.content import ContentStore
from poweron_events.content_cipher import MAGIC, OVERHEAD
from poweron_events.content_packs import SMALL
from poweron_events.errors import MissingContent, Unavailable

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
OTHER = "7d444840-9dc0-11d1-b245-5ffdce74fad3"
LARGE = b"canary" * SMALL


@pytest.fixture(params=["folder", "memory", "bucket", "encrypted folder", "encrypted bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ContentStore:
    place = "memory:///" if "memory" in request.param else str(tmp_path / "content")
    if "bucket" in request.param:
        request.getfixturevalue("s3")
        place = f"s3://{BUCKET}/{uuid.uuid4()}"
    return ContentStore.at(place, str(tmp_path / "keys") if "encrypted" in request.param else None)


async def stored(store: ContentStore, workflow_id: str | None = None) -> Mapping[str, bytes]:
    """What the place has, as it is there."""
    listed = [each.path async for page in store._place.stored(workflow_id) for each in page]
    return {path: await store._place.read(path) for path in listed}


async def test_an_erased_workflow_leaves_nothing_and_takes_nothing(store: ContentStore) -> None:
    await store.put_all(WORKFLOW, [b"canary", b"another canary", LARGE])
    await store.remember(WORKFLOW, "page", b"where?", b"canary")
    name = await store.put(OTHER, b"canary")
    await store.erase(WORKFLOW)
    await store.erase(WORKFLOW)
    assert await stored(store, WORKFLOW) == {}
    with pytest.raises(MissingContent):
        await store.put(WORKFLOW, b"late")
    assert await store.get(OTHER, name) == b"canary"


async def test_erased_documents_leave_the_others(store: ContentStore) -> None:
    names = await store.put_all(WORKFLOW, [b"first canary", b"the rest", LARGE, b"second canary"])
    await store.remember(WORKFLOW, "page", b"where?", b"canary")
    await store.erase(WORKFLOW, [names[0], names[2], names[3]])
    assert await stored(store, WORKFLOW) == {
        f"{WORKFLOW}/key": await store.read_path(f"{WORKFLOW}/key"),
        f"{WORKFLOW}/{names[1]}": b"the rest",
    }
    assert await store.put(WORKFLOW, b"the rest") == names[1]


async def test_a_damaged_pack_loses_what_may_be_the_erased_content(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path))
    names = await store.put_all(WORKFLOW, [b"the rest", b"damaged", b"canary"])
    (pack,) = (tmp_path / WORKFLOW).glob("*.pack")
    damaged = bytearray(pack.read_bytes())
    damaged[52 + len(b"the rest")] ^= 1
    pack.write_bytes(damaged)
    await store.erase(WORKFLOW, [names[2]])
    assert b"canary" not in everything_in(tmp_path)
    assert await store.get(WORKFLOW, names[0]) == b"the rest"


@pytest.mark.parametrize("content", [b"", b"canary", LARGE, MAGIC + b"canary"])
async def test_encrypted_content_comes_back_and_is_not_in_a_copy_of_the_store(tmp_path: Path, content: bytes) -> None:
    store = ContentStore.at(str(tmp_path / "content"), str(tmp_path / "keys"))
    name = await store.put(WORKFLOW, content)
    await store.remember(WORKFLOW, "page", b"where?", b"canary")
    assert b"canary" not in everything_in(tmp_path / "content")
    shutil.copytree(tmp_path / "content", tmp_path / "backup")
    again = ContentStore.at(str(tmp_path / "content"), str(tmp_path / "keys"))
    assert await again.get(WORKFLOW, name) == content
    assert b"".join([piece async for piece in again.pieces(WORKFLOW, name)]) == content
    assert await again.size(WORKFLOW, name) == len(content)
    assert await again.recall(WORKFLOW, "page", b"where?") == b"canary"
    await store.erase(WORKFLOW)
    restored = ContentStore.at(str(tmp_path / "backup"), str(tmp_path / "keys"))
    with pytest.raises(MissingContent):
        await restored.get(WORKFLOW, name)


@pytest.mark.parametrize("content", [b"plain", LARGE, MAGIC + bytes(100)])
async def test_plain_content_of_earlier_days_stays_readable(tmp_path: Path, content: bytes) -> None:
    name = await ContentStore.at(str(tmp_path / "content")).put(WORKFLOW, content)
    store = ContentStore.at(str(tmp_path / "content"), str(tmp_path / "keys"))
    assert await store.get(WORKFLOW, name) == content
    assert await store.size(WORKFLOW, name) == len(content)
    assert await store.put(WORKFLOW, content) == name
    await store.erase(WORKFLOW)
    assert everything_in(tmp_path) == b""


async def test_a_process_without_the_keys_neither_reads_nor_writes(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path / "content"), str(tmp_path / "keys"))
    await store.put(WORKFLOW, b"canary")
    with pytest.raises(Unavailable, match="POWERON_CONTENT_KEYS"):
        await ContentStore.at(str(tmp_path / "content")).put(WORKFLOW, b"canary")


async def test_changed_bytes_are_no_content(tmp_path: Path) -> None:
    store = ContentStore.at(str(tmp_path / "content"), str(tmp_path / "keys"))
    name = await store.put(WORKFLOW, LARGE)
    path = tmp_path / "content" / WORKFLOW / name
    assert path.stat().st_size == len(LARGE) + OVERHEAD
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(Unavailable, match="damaged"):
        await store.get(WORKFLOW, name)
    with pytest.raises(Unavailable, match="damaged"):
        assert [piece async for piece in store.pieces(WORKFLOW, name)]
