"""The reader of XML: one line per value, with its path of elements; repeated elements become tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from poweron_services.connectors.documents_child import plain_text, text_encodings
from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.json_text import ITSELF, WHOLE_TEXTS, lines
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.readers import Note, Part

UNITS = ("currency", "currencyid", "currencycode", "unit")
"""Attributes that name the unit of an amount, in lower case."""
DEEPEST = 200  # levels of nested elements


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    if len(data) > limits.whole_text * WHOLE_TEXTS:
        yield Note("The XML is too long to be taken apart and was read as plain text.")
        yield from plain_text.read(data, limits)
        return
    root = _parse(_text(data, limits))
    yield Section("", "\n".join(lines({root.name: root.value()})))


def _text(data: bytes, limits: ReadLimits) -> str:
    try:
        return plain_text.decoded(data, limits, whole=True, encoding=text_encodings.named(data))[0]
    except LookupError:  # an unknown encoding
        return plain_text.decoded(data, limits, whole=True)[0]


def _parse(text: str) -> "_Element":
    tree = _Tree()
    parser = DefusedXMLParser(target=tree)
    try:
        parser.feed(text)
        parser.close()
    except DefusedXmlException as error:
        raise Unreadable(
            "was not opened because it defines XML entities, by which a few bytes become many or name other files; "
            "save it without them and hand it over again.",
            "document_unsafe",
        ) from error
    return tree.root


@dataclass(slots=True)
class _Element:
    name: str
    attributes: dict[str, str]
    content: list["str | _Element"] = field(default_factory=list)

    def value(self) -> Any:
        """Return a text, or an object of attributes and elements; elements within a sentence are part of its text."""
        elements = [part for part in self.content if isinstance(part, _Element)]
        if not elements or any(isinstance(part, str) and part.strip() for part in self.content):
            text = " ".join(self.text().split())
            return self._leaf(text)
        members: dict[str, list[Any]] = {}
        for element in elements:
            members.setdefault(element.name, []).append(element.value())
        inner = {name: values if len(values) > 1 else values[0] for name, values in members.items()}
        return {**self.attributes, **inner}

    def _leaf(self, text: str) -> Any:
        """Return the text, followed by its unit, as the element's own value besides its other attributes."""
        units = {name: value for name, value in self.attributes.items() if text and name.casefold() in UNITS}
        attributes = {name: value for name, value in self.attributes.items() if name not in units}
        content = " ".join([text, *units.values()])
        return {**({ITSELF: content} if text else {}), **attributes} if attributes else content

    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text() for part in self.content)


class _Tree:
    """Builds the tree of elements from the events of a parser."""

    def __init__(self) -> None:
        self.root = _Element("", {})
        self._open: list[_Element] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) == DEEPEST:
            raise Unreadable("is nested too deeply to be read; hand over a simpler version of it.", "document_unsafe")
        element = _Element(_local(tag), {_local(name): value for name, value in attributes.items()})
        if self._open:
            self._open[-1].content.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, _: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        self._open[-1].content.append(text)

    def close(self) -> None:
        """Return nothing: the result is `root`."""


def _local(name: str) -> str:
    """The name without its namespace."""
    return name.rpartition("}")[2]
