"""The reader of MBOX: many mails in one file, each below a line that begins with "From ", usually oldest first."""

import re
from collections.abc import Iterator
from functools import partial

from poweron_services.connectors.documents_child.document import Member
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.readers import Fact, Part

_BETWEEN = re.compile(rb"(?:\A|\n\r?\n)From [^\r\n]*\r?\n(?=[A-Za-z][A-Za-z0-9-]*:)")
_QUOTE = re.compile(rb"^>(>*From )", re.MULTILINE)  # an escaped line, which would otherwise begin another mail


def opened(data: bytes, _: ReadLimits) -> Iterator[Part | Member]:
    starts = list(_BETWEEN.finditer(data))
    yield Fact("mails", str(len(starts)))
    ends = [start.start() for start in starts[1:]] + [len(data)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=1):
        yield Member("mail", str(number), end - start.end(), partial(_mail, data, start.end(), end), ".eml")


def _mail(data: bytes, start: int, end: int) -> bytes:
    return _QUOTE.sub(rb"\1", data[start:end])
