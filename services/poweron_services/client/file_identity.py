"""The workflow that wrote or received a file, found by the file's bytes.

Each workflow names content by a commitment with a key of its own, so the bytes are compared workflow by workflow: first
the one that the file's mark names, then every workflow with a document of the same size.
"""

import asyncio
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, NamedTuple

from poweron_events.content import commitment
from poweron_events.errors import MissingContent
from poweron_events.fold.state import is_request_label
from poweron_projections import workflow_excerpts
from poweron_projections.entries import DocumentEntry
from poweron_services.client.connect import Connections
from poweron_services.client.file_marks import FileMark, ReadMark, read_mark
from poweron_services.client.workflow_snapshot import verified_records

MAX_MATCHES: Final = 20  # workflows that are named, and whose rows are compared with the log
TOGETHER: Final = 16  # keys that are read concurrently

Verdict = Literal["whole", "changed", "unknown"]
Origin = Literal["written", "handed_over", "read"]
"""Written by a model, handed over by a person, or read by an action, such as a web page."""


class WorkflowDocument(NamedTuple):
    """A document of a workflow."""

    workflow_id: str
    entry: DocumentEntry


@dataclass(frozen=True, slots=True)
class Match:
    """A document with exactly these bytes."""

    workflow_id: str
    document_id: str
    document_name: str
    seq: int
    """The event that names it."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known of a file."""

    verdict: Verdict
    size: int
    sha256: str
    read: ReadMark
    matches: tuple[Match, ...] = ()
    recorded: DocumentEntry | None = None
    """The document that the mark names, if its bytes are others."""
    recorded_sha256: str | None = None
    """The SHA-256 of that document; None if the content store no longer holds it."""
    without_key: frozenset[str] = frozenset()
    """The workflows whose document may be this file, but whose key is gone, so nothing can be compared with them."""
    compared: int = 0
    """How many workflows were searched."""


async def identify(connections: Connections, data: bytes) -> Identity:
    """Find the workflow of a file.

    Raises:
        RowsDiffer, RowsMissing: the rows of a workflow that is named differ from the log.
        Unavailable: Postgres, the log or the content store cannot be reached.
    """
    read = await asyncio.to_thread(read_mark, data)
    sha256 = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
    search = _Search(connections, data)
    named = await search.in_workflow(read.mark.workflow_id) if read.mark else []
    matches = await search.matches(named)
    is_gone = read.mark is not None and bool(named) and read.mark.workflow_id in search.without_key
    changed = None if matches or is_gone or read.mark is None else _named_document(named, read.mark)
    if not matches:
        matches = await search.matches(await search.of_size())
    for workflow_id in dict.fromkeys(entry.workflow_id for entry in (*matches, *([changed] if changed else ()))):
        await verified_records(connections, workflow_id)
    return Identity(
        "changed" if changed else "whole" if matches else "unknown",
        len(data),
        sha256,
        read,
        tuple(matches),
        changed.entry if changed else None,
        await search.sha256(changed) if changed else None,
        frozenset(search.without_key),
        len(search.compared),
    )


class _Search:
    """Compares bytes with the documents of workflows."""

    def __init__(self, connections: Connections, data: bytes) -> None:
        self._connections, self._data = connections, data
        self.compared: set[str] = set()
        self.without_key: set[str] = set()

    async def in_workflow(self, workflow_id: str) -> list[WorkflowDocument]:
        entries = await workflow_excerpts.documents(self._connections.pool, workflow_id)
        return [WorkflowDocument(workflow_id, entry) for entry in entries]

    async def of_size(self) -> list[WorkflowDocument]:
        documents = await workflow_excerpts.documents_of_size(self._connections.pool, len(self._data))
        return [WorkflowDocument(*document) for document in documents]

    async def matches(self, documents: Iterable[WorkflowDocument]) -> list[Match]:
        """Return the documents with exactly these bytes, each once; those of one workflow are next to one another."""
        by_workflow = [(key, [*group]) for key, group in groupby(documents, key=lambda entry: entry.workflow_id)]
        result: list[Match] = []
        for start in range(0, len(by_workflow), TOGETHER):
            names = await asyncio.gather(*(self._name(key) for key, _ in by_workflow[start : start + TOGETHER]))
            for name, (workflow_id, entries) in zip(names, by_workflow[start : start + TOGETHER], strict=True):
                same = {entry.document_id: entry for _, entry in reversed(entries) if entry.content == name}
                result += [_match(workflow_id, entry) for entry in reversed(same.values())]
            if len({match.workflow_id for match in result}) >= MAX_MATCHES:
                break
        return result

    async def _name(self, workflow_id: str) -> str | None:
        """Return the commitment of the bytes in a workflow; None if its key is gone."""
        self.compared.add(workflow_id)
        try:
            key = await self._connections.content.read_path(f"{workflow_id}/key")
        except MissingContent:
            self.without_key.add(workflow_id)
            return None
        return await asyncio.to_thread(commitment, key, self._data)

    async def sha256(self, document: WorkflowDocument) -> str | None:
        """Return the SHA-256 of a document as it is stored; None if it was erased."""
        with suppress(MissingContent):
            data = await self._connections.content.get(document.workflow_id, document.entry.content)
            return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        return None


def _named_document(documents: Iterable[WorkflowDocument], mark: FileMark) -> WorkflowDocument | None:
    return next((document for document in documents if document.entry.document_id == mark.document_id), None)


def _match(workflow_id: str, entry: DocumentEntry) -> Match:
    origin: Origin = "handed_over" if is_request_label(entry.label) else "written" if entry.by_model else "read"
    return Match(workflow_id, entry.document_id, entry.document_name, entry.seq, origin)
