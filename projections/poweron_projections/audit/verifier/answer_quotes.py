"""Where the quotes of answers are from: the documents and web pages of a bundle are searched for their words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from poweron_projections.audit.verifier.event_facts import first_of, members, shortened
from poweron_projections.audit.verifier.quote_search import QUOTATION, comparable, occurs

_QUOTES_OF_ANSWER: Final = 100  # that are searched
_BYTES_OF_TEXTS: Final = 10_000_000  # that are searched, together
_QUOTE_SHOWN: Final = 200  # characters
_NAMES_SHOWN: Final = 5


class AnswerQuotes:
    """The quotes of all answers, and the texts that have them: documents and pages that no model wrote."""

    def __init__(self, accepted: Sequence[Mapping[str, Any]], contents: Mapping[str, bytes]) -> None:
        documents = [document for event in accepted for document in members(event["data"], "documents")]
        answers = {_content(document): _is_text(document) for document in documents if document.get("byModel")}
        self._quotes = {
            content: _quotes_in(contents[content])
            for content, is_text in answers.items()
            if is_text and content in contents
        }
        self._places: dict[str, dict[str, None]] = {quote: {} for quotes in self._quotes.values() for quote in quotes}
        self._searched: dict[str, None] = {}
        self._unsearched: dict[str, None] = {}
        if self._places:
            self._search_requests(str(event["data"]["prompt"]) for event in accepted if event["data"].get("prompt"))
            self._search([source for source in _sources_of(documents) if source[0] not in answers], contents)

    def facts(self, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield where the quotes of the answers of an event are from; those of an answer only once."""
        for document in members(data, "documents"):
            for quote in self._quotes.pop(_content(document), ()):
                yield "Quote", f"“{shortened(quote, _QUOTE_SHOWN)}” is {self._found(quote)}"

    def _found(self, quote: str) -> str:
        if names := self._places[quote]:
            return f"word for word in {first_of([*names], _NAMES_SHOWN)}"
        left_out = [name for name in self._unsearched if f"{name}.md" not in self._searched]
        unsearched = f"; not searched: {first_of(left_out, _NAMES_SHOWN)}" if left_out else ""
        return f"in none of the {len(self._searched)} texts that were searched{unsearched}"

    def _search_requests(self, prompts: Iterable[str]) -> None:
        for text in map(comparable, prompts):
            for quote, places in self._places.items():
                if occurs(quote, text):
                    places["the request"] = None

    def _search(self, sources: Iterable[tuple[str, str, bool]], contents: Mapping[str, bytes]) -> None:
        """Search each text once for all quotes."""
        left, holding = _BYTES_OF_TEXTS, dict[str, list[str]]()
        for content, name, is_text in sources:
            if content not in holding:
                data = contents.get(content) if is_text else None
                if data is None or len(data) > left:
                    self._unsearched[name] = None
                    continue
                left -= len(data)
                text = comparable(data.decode(errors="replace"))
                holding[content] = [quote for quote in self._places if occurs(quote, text)]
            self._searched[name] = None
            for quote in holding[content]:
                self._places[quote][name] = None


def _quotes_in(answer: bytes) -> list[str]:
    matches = islice(QUOTATION.finditer(answer.decode(errors="replace")), _QUOTES_OF_ANSWER)
    quotes = (next(group for group in match.groups() if group) for match in matches)
    return list(dict.fromkeys(" ".join(quote.split()) for quote in quotes))


def _sources_of(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Yield the content and the name of each document and cited web page, and whether it is a text."""
    for document in documents:
        yield _content(document), str(document.get("documentName")), _is_text(document)
        for source in members(document, "sources"):
            page = source.get("page")
            yield str(source.get("text")), str(page.get("url") if isinstance(page, dict) else None), True


def _content(document: Mapping[str, Any]) -> str:
    return str(document.get("content"))


def _is_text(document: Mapping[str, Any]) -> bool:
    return str(document.get("mimeType", "")).startswith("text/")
