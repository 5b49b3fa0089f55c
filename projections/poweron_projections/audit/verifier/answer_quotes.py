"""The quotes in answers, searched word for word in the texts of a bundle: documents, and web pages as read."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from poweron_projections.audit.verifier.event_facts import is_text, members

_QUOTATION: Final = re.compile(r"“([^“”]{3,2000})”|„([^„“”]{3,2000})[“”]|«([^«»]{3,2000})»|「([^「」]{3,2000})」")
_MOST_QUOTES: Final = 100  # quotes of one answer
_SHOWN_OF_QUOTE: Final = 200  # characters
_MARKUP: Final = re.compile(r"[*`\\]")


class QuotedTexts:
    """The texts that answers may quote, by the name of their document or the address of their page."""

    def __init__(self, events: Iterable[Mapping[str, Any]], contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        self._names: dict[str, str] = {}
        self._searched: dict[str, str] = {}
        self._told: set[str] = set()
        for event in events:
            for document in members(event["data"], "documents"):
                if not document.get("byModel") and str(document.get("mimeType", "")).startswith("text/"):
                    self._add(document.get("content"), document.get("documentName"))
                for source in members(document, "sources"):
                    page = source.get("page")
                    self._add(source.get("text"), page.get("url") if isinstance(page, dict) else None)

    def facts(self, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield where each quote of the answers of an event occurs; those of an answer only once."""
        for document in members(data, "documents"):
            content = str(document.get("content"))
            is_answer = document.get("byModel") and str(document.get("mimeType", "")).startswith("text/")
            if is_answer and content in self._contents and content not in self._told:
                self._told.add(content)
                for quote in self._quotes(self._contents[content]):
                    found = ", ".join(self._places(quote)) or "in no text of this bundle"
                    shown = quote if len(quote) <= _SHOWN_OF_QUOTE else f"{quote[:_SHOWN_OF_QUOTE]}…"
                    yield "Quote", f"“{shown}” is word for word in: {found}"

    def _add(self, content: object, name: object) -> None:
        if isinstance(content, str) and content in self._contents and is_text(name):
            self._names[content] = str(name)

    @staticmethod
    def _quotes(answer: bytes) -> list[str]:
        found = (next(filter(None, match.groups())) for match in _QUOTATION.finditer(answer.decode(errors="replace")))
        return list(dict.fromkeys(" ".join(quote.split()) for quote in found))[:_MOST_QUOTES]

    def _places(self, quote: str) -> list[str]:
        """Return the names of the texts with all parts of a quote, which `…` separates."""
        wanted = [part for part in map(_plain_words, quote.split("…")) if part]
        if not wanted:
            return []
        texts = ((name, self._text(content)) for content, name in self._names.items())
        return list(dict.fromkeys(name for name, text in texts if all(part in text for part in wanted)))

    def _text(self, content: str) -> str:
        if content not in self._searched:
            self._searched[content] = _plain_words(self._contents[content].decode(errors="replace"))
        return self._searched[content]


def _plain_words(text: str) -> str:
    return " ".join(_MARKUP.sub("", text).split()).casefold()
