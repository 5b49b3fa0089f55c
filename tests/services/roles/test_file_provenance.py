"""The mark of a step's files: what the step reads, what people handed over, and what has no place in it."""

import hashlib

import pytest

from builders import At, Told, planned, requested
from poweron_events.content import ContentStore
from poweron_events.event import DocumentRef
from poweron_services.roles import file_provenance
from poweron_services.roles.file_provenance import FileProvenance
from poweron_services.text.provenance import SourceDigest


async def handed_over(content: ContentStore, *texts: bytes) -> tuple[DocumentRef, ...]:
    return tuple(
        [
            DocumentRef(
                document_id=f"r1d{number}",
                document_name=f"{number}.txt",
                mime_type="text/plain",
                size=len(text),
                content=await content.put(Told().id, text),
            )
            for number, text in enumerate(texts, start=1)
        ]
    )


def digest(number: int, text: bytes) -> SourceDigest:
    return SourceDigest(f"r1d{number}", hashlib.sha256(text).hexdigest())


async def test_a_mark_names_what_the_step_reads_first_then_all_that_was_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = ContentStore.at("memory:///")
    documents = await handed_over(content, b"one", b"two", b"three")
    workflow = Told().tell(requested(documents=documents), planned(), At().selected(), At().parameters()).workflow
    find = FileProvenance(workflow, content, ["docItem:r1d2:2.txt"])
    found = await find()
    assert (found.workflow_id, found.document_id) == (Told().id, "r1t1a1d1")
    assert found.sources == (digest(2, b"two"), digest(1, b"one"), digest(3, b"three"))
    assert found.sources_left_out == 0

    await content.remove([f"{Told().id}/{documents[0].content}"])
    assert [source.document_id for source in (await find()).sources] == ["r1d2", "r1d3"]
    monkeypatch.setattr(file_provenance, "MAX_UNREAD", 5)
    few = await find()
    assert few.sources == (digest(2, b"two"),)
    assert few.sources_left_out == 2
