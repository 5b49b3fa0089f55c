"""Answers of one workflow and what they cite, as tests of the sources hand them over."""

from pages import page

from poweron_events.content import ContentStore
from poweron_events.event import CitedSource, DocumentRef, WebPage
from poweron_events.request import workflow_id
from poweron_services.client.source_check import CitedDocument, Source, Sources, check_answers
from poweron_services.text.citations import with_list

ID = workflow_id("/tests", "1")
PRICES = page("clocks", "Museum of Clocks")
HOURS = page("boats", "Museum of Boats")


class Kept:
    """A workflow's content, and its answers as documents."""

    def __init__(self) -> None:
        self.content = ContentStore.at("memory:///")
        self.answers: list[DocumentRef] = []
        self.documents: list[DocumentRef] = []

    async def source(self, n: int, of: WebPage, text: str) -> CitedSource:
        return CitedSource(n=n, page=of, text=await self.content.put(ID, text.encode()))

    async def answer(self, name: str, text: str, *sources: CitedSource, mime_type: str = "text/markdown") -> None:
        text = with_list(text, sources, "en") if mime_type == "text/markdown" else text
        content = await self.content.put(ID, text.encode())
        self.answers.append(
            DocumentRef(
                document_id=name, document_name=name, mime_type=mime_type, size=9, content=content, sources=sources
            )
        )

    async def document(
        self, name: str, text: str | None, mime_type: str = "text/markdown", document_id: str | None = None
    ) -> None:
        """A document that was handed over or read; without a text, one that the store has lost."""
        content = "0" * 64 if text is None else await self.content.put(ID, text.encode())
        self.documents.append(
            DocumentRef(
                document_id=document_id or name, document_name=name, mime_type=mime_type, size=9, content=content
            )
        )

    async def read(self, data: bytes, name: str) -> str:
        return f"# {name}\n\n<!-- x -->\n\n## page 1\n\n{data.decode()}\n"

    async def looked_into(self) -> Sources:
        return await check_answers(self.answers, self.content, ID, self.documents, self.read)

    async def sources(self) -> tuple[Source, ...]:
        found = await self.looked_into()
        assert found.missing == ()
        return found.sources


def results(source: Source | CitedDocument) -> list[tuple[str | None, str]]:
    return [(each.quote, each.result) for each in source.quotes]


def cited(found: Sources) -> list[tuple[str, tuple[str, ...], list[tuple[str | None, str]]]]:
    return [(each.document, each.places, results(each)) for each in found.documents]
