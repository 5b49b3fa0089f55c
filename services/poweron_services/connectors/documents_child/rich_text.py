"""The reader of RTF: paragraphs, and tables by their rows."""

import re
from collections.abc import Iterator
from itertools import groupby

from striprtf import striprtf

from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.readers import Fact, Note, OmittedPart, Part

WHOLE_TEXTS = 4  # RTF may be this many times as long as `whole_text`, since most of it is markup
HEAD = 20_000  # characters that are searched for metadata
FACTS = ("title", "author", "subject", "keywords")
CELL_END = "|"
UNREAD = {"\\pict": "pictures", "\\objdata": "embedded files"}

_DATE = re.compile(r"\\creatim\\yr(\d{4})\\mo(\d{1,2})\\dy(\d{1,2})")


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    most = limits.whole_text * WHOLE_TEXTS
    source = data[:most].decode("cp1252", "replace")
    if len(data) > most:
        yield Note(f"Only the first {most:,} of {len(data):,} bytes were read.", truncated=True)
    yield from _facts(source[:HEAD])
    yield Section("", "\n\n".join(_blocks(_text(source).splitlines())))
    yield from (OmittedPart(kind) for mark, kind in UNREAD.items() if mark in source)


def _text(source: str) -> str:
    text: str = striprtf.rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call] # it has no types
    return text


def _facts(head: str) -> Iterator[Fact]:
    for name in FACTS:
        match = re.search(rf"{{\\{name} ([^{{}}]*)}}", head)
        if match:
            yield Fact(name, _text(rf"{{\rtf1 {match[1]}}}"))
    moment = _DATE.search(head)
    if moment:
        yield Fact("created", "-".join(part.zfill(2) for part in moment.groups()))


def _blocks(lines: list[str]) -> Iterator[str]:
    for is_row, block in groupby((line.strip() for line in lines), key=lambda line: line.endswith(CELL_END)):
        if is_row:
            rows = [line.removesuffix(CELL_END).split(CELL_END) for line in block]
            yield pipe_table(rows, header=first_row_is_header(rows))
        else:
            yield from (line for line in block if line)
