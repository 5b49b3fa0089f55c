"""The mark in a PDF: properties in its XMP metadata, with the descriptions of their schemas that PDF/A requires."""

import re
from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape

from poweron_services.text.provenance import DOCUMENT, LEFT_OUT, SOURCE, WORKFLOW, Provenance

IPTC: Final = "http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
OURS: Final = "urn:poweron:provenance#"
PREFIX: Final = "PowerOn"
_PACKET: Final = re.compile(
    rb"<</Length (?P<length>\d+)/Type/Metadata/Subtype/XML>>\nstream\n"
    rb"(?P<packet><\?xpacket begin.*?<\?xpacket end[^>]*\?>)",
    re.DOTALL,
)
_TABLE: Final = re.compile(
    rb"\nxref\n0 \d+\n(?P<entries>(?:\d{10} \d{5} [nf][ \r]\n?)+)trailer\n.*?startxref\n(?P<at>\d+)", re.DOTALL
)
_ENTRY: Final = re.compile(rb"(?P<at>\d{10}) \d{5} n")
_SCHEMAS_END: Final = b"</rdf:Bag></pdfaExtension:schemas>"
_DESCRIPTIONS: Final = {
    WORKFLOW: ("Text", "The workflow in which the file was written"),
    DOCUMENT: ("Text", "The id of the file in its workflow"),
    SOURCE: ("bag Text", "The documents on which the file rests, each by its id and its SHA-256"),
    LEFT_OUT: ("Text", "How many further documents there are"),
}


def with_mark(pdf: bytes, provenance: Provenance) -> bytes:
    """Return the PDF with the mark in its metadata.

    Raises:
        ValueError: the PDF is not laid out as typst does.
    """
    packet, table = _PACKET.search(pdf), _TABLE.search(pdf)
    if packet is None or table is None or table.start() < packet.end():
        raise ValueError("no metadata and table of objects as expected")
    marked = _with_properties(packet["packet"], provenance)
    length = str(int(packet["length"]) + len(marked) - len(packet["packet"])).encode()
    head = packet[0].replace(packet["length"], length, 1).replace(packet["packet"], marked, 1)
    grown, place = len(head) - len(packet[0]), packet.start()

    def moved(entry: re.Match[bytes]) -> bytes:
        at = int(entry["at"])
        return b"%010d" % (at + grown if at > place else at) + entry[0][10:]

    entries = _ENTRY.sub(moved, table["entries"])
    end = table[0].replace(table["entries"], entries, 1).removesuffix(table["at"])
    return (
        pdf[:place]
        + head
        + pdf[packet.end() : table.start()]
        + end
        + b"%d" % (int(table["at"]) + grown)
        + (pdf[table.end() :])
    )


def _with_properties(packet: bytes, provenance: Provenance) -> bytes:
    values: dict[str, list[str]] = {}
    for name, value in provenance.properties():
        values.setdefault(name, []).append(value)
    names = [name for name in values if name in _DESCRIPTIONS]
    ours = "".join(f"<{_tag(name)}>{_value(name, values[name])}</{_tag(name)}>" for name in names)
    description = (
        f'<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="{IPTC}" xmlns:{PREFIX}="{OURS}">'
        f"<Iptc4xmpExt:DigitalSourceType>{provenance.kind}</Iptc4xmpExt:DigitalSourceType>{ours}</rdf:Description>"
    )
    digital = [("DigitalSourceType", "Text", "The kind of origin, as a URI of the IPTC's vocabulary")]
    schemas = _schema("IPTC Extension schema", IPTC, "Iptc4xmpExt", digital) + _schema(
        "PowerOn provenance schema", OURS, PREFIX, [(name.removeprefix(PREFIX), *_DESCRIPTIONS[name]) for name in names]
    )
    if packet.count(_SCHEMAS_END) != 1 or packet.count(b"</rdf:RDF>") != 1:
        raise ValueError("no schemas in the metadata")
    packet = packet.replace(_SCHEMAS_END, schemas.encode() + _SCHEMAS_END)
    return packet.replace(b"</rdf:RDF>", description.encode() + b"</rdf:RDF>")


def _tag(name: str) -> str:
    return f"{PREFIX}:{name.removeprefix(PREFIX)}"


def _value(name: str, values: list[str]) -> str:
    if name != SOURCE:
        return escape(values[0])
    return f"<rdf:Bag>{''.join(f'<rdf:li>{escape(value)}</rdf:li>' for value in values)}</rdf:Bag>"


def _schema(title: str, uri: str, prefix: str, properties: Iterable[tuple[str, str, str]]) -> str:
    entries = "".join(
        '<rdf:li rdf:parseType="Resource"><pdfaProperty:category>external</pdfaProperty:category>'
        f"<pdfaProperty:description>{description}</pdfaProperty:description>"
        f"<pdfaProperty:name>{name}</pdfaProperty:name>"
        f"<pdfaProperty:valueType>{kind}</pdfaProperty:valueType></rdf:li>"
        for name, kind, description in properties
    )
    return (
        f'<rdf:li rdf:parseType="Resource"><pdfaSchema:schema>{title}</pdfaSchema:schema>'
        f"<pdfaSchema:namespaceURI>{uri}</pdfaSchema:namespaceURI><pdfaSchema:prefix>{prefix}</pdfaSchema:prefix>"
        f"<pdfaSchema:property><rdf:Seq>{entries}</rdf:Seq></pdfaSchema:property></rdf:li>"
    )
