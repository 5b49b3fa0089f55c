"""Which contents count as referred to, and what a check makes of files that cannot be read."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from builders import CALL, At, Told, document, identity, requested
from poweron_events.actor import Actor
from poweron_events.archive_events import ContentErased
from poweron_events.codec import dumps, sha256
from poweron_events.content import ContentStore
from poweron_events.event import CitedSource, WebPage
from poweron_events.request import DocumentErased
from poweron_services.client.content_check import CheckedContent, ContentCheck, ContentFault

ID = Told().id
PAGE = {"url": "https://example.org/", "fetched_at": "2026-11-21T00:00:00Z", "sha256": "00" * 32}


async def pages(*stories: Told) -> AsyncIterator[Sequence[tuple[str, int, bytes]]]:
    for story in stories:
        yield [(story.id, seq, value) for seq, value in reversed([*enumerate(story.values)])]


async def checked(store: ContentStore, *stories: Told) -> CheckedContent:
    with closing(sqlite3.connect("", isolation_level=None)) as file:
        check = ContentCheck(store, file)
        await check.take_references(pages(*stories))
        await check.take_listing()
        await check.read(lambda _, __: None)
        return check.result()


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore.at(str(tmp_path))


async def test_every_field_that_names_content_counts_also_within_lists_that_are_content(store: ContentStore) -> None:
    names = iter(await store.put_all(ID, [b"%d" % number for number in range(9)]))
    page = WebPage(**{**PAGE, "sha256": sha256(b"0")}, content=next(names))
    source = CitedSource(n=1, page=page, text=next(names))
    shown = document("answer.md", content=next(names), size=1, sources=(source,))
    hidden = document("listed.md", content=next(names), size=1)
    calls = [CALL.model_copy(update={"prompt_ref": next(names), "answer_ref": None})]
    listed = dumps([each.model_dump(mode="json", by_alias=True) for each in (shown, hidden)])
    all_calls = await store.put(ID, dumps([each.model_dump(mode="json", by_alias=True) for each in calls]))
    index = document("documents.json", content=await store.put(ID, listed), size=len(listed))
    done = At().done(documents=(shown, index), documents_left_out=1, all_calls=all_calls)
    found = await checked(store, Told().tell(requested(documents=()), done))
    assert found.faults == []
    assert (found.referenced, found.read, found.stored, found.unreferenced) == (8, 7, 12, 4)  # with the key


async def test_what_was_erased_is_not_missing_and_what_was_lost_is_named(store: ContentStore) -> None:
    key = await store.put(ID, b"kept")
    gone = [document(name, document_id=name, content=content * 32) for name, content in (("a", "aa"), ("b", "bb"))]
    erased = DocumentErased(documents=("a",), reason="asked for", request=identity("9"))
    told = Told().tell(requested(documents=(*gone, document("c", content=key, size=4))), erased)
    found = await checked(store, told)
    assert found.faults == [ContentFault(ID, "bb" * 32, "missing", 0, "content", "b", "b")]
    by = {"actor": Actor(id="ada"), "request": identity("9")}
    of_documents = ContentErased(documents=("b",), contents=("bb" * 32,), **by)
    assert (await checked(store, told.tell(of_documents))).faults == []
    await store.erase(ID)
    found = await checked(store, told.tell(ContentErased(**by)))
    assert (found.faults, found.erased, found.referenced) == ([], 3, 0)


async def test_an_erasure_excuses_what_was_named_before_and_is_gone_in_whatever_order_events_are_read(
    store: ContentStore, tmp_path: Path
) -> None:
    kept = await store.put(ID, b"1" * 100_000)
    text, before, after = ("aa" * 32, "bb" * 32, "cc" * 32)
    page = WebPage(**{**PAGE, "sha256": sha256(b"1" * 100_000)}, content=kept)
    source = CitedSource(n=1, page=page, text=text)
    written = document("a", document_id="a", content=before, size=4, sources=(source,))
    by = {"actor": Actor(id="ada"), "request": identity("9")}
    told = Told().tell(
        requested(documents=(written,)),
        DocumentErased(documents=("a",), reason="asked for", request=identity("8")),
        ContentErased(documents=("b",), contents=(after,), **by),
        At().done(documents=(document("b", document_id="b", content=after, size=4), written)),
    )
    found = await checked(store, told)
    assert ({fault.name: fault.fault for fault in found.faults}, found.erased) == ({after: "missing"}, 2)
    (tmp_path / ID / kept).write_bytes(b"2" * 100_000)
    found = await checked(store, told)
    assert {fault.name: fault.fault for fault in found.faults} == {after: "missing", kept: "damaged"}


async def test_a_content_of_which_an_event_says_another_size_or_digest_is_not_the_one_that_it_names(
    store: ContentStore,
) -> None:
    honest, long, other = await store.put_all(ID, [b"1", b"2", b"3"])
    documents = [document(name, document_id=name[:4], content=name, size=1) for name in (honest, long)]
    documents.append(document("again", document_id="again", content=long, size=2))
    page = document("page", content=honest, size=1, page=WebPage(**PAGE, content=other))
    told = Told().tell(requested(documents=documents), At().done(documents=(page,)))
    found = await checked(store, told)
    assert {fault.name: fault.fault for fault in found.faults} == {long: "damaged", other: "damaged"}


async def test_a_file_that_cannot_be_read_is_named_and_the_others_are_checked(
    store: ContentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [b"1", b"2" * 2_000_000, b"3" * 100_000, b"4" * 2_000_000]
    names = await store.put_all(ID, contents)
    (tmp_path / ID / names[1]).write_bytes(b"5" * 2_000_000)
    read = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == names[2]:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    sizes = zip(names, map(len, contents), strict=True)
    documents = [document(name, document_id=name[:4], content=name, size=size) for name, size in sizes]
    found = await checked(store, Told().tell(requested(documents=documents)))
    assert {fault.name: fault.fault for fault in found.faults} == {names[1]: "damaged", names[2]: "unreadable"}
    assert (found.read, found.unreferenced) == (4, 0)


async def test_without_its_key_the_contents_of_a_workflow_cannot_be_verified(store: ContentStore) -> None:
    name = await store.put(ID, b"1")
    await store.remove([f"{ID}/key"])
    found = await checked(store, Told().tell(requested(documents=(document("a", content=name, size=1),))))
    assert [(fault.name, fault.field, fault.fault) for fault in found.faults] == [("key", "key", "missing")]
