"""The reader of mails and archives: each member is read by the reader for its type, and named in the locators.

All members are read in this one process, within its limits on time, memory, total unpacked bytes and levels of
nested archives. A member that cannot be read is reported in a note, and the rest is still read.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from poweron_services.connectors.documents_child import (
    calendar_text,
    csv_text,
    headings,
    json_text,
    mail,
    mailbox,
    media_types,
    open_document,
    outlook,
    pdf,
    picture,
    plain_text,
    rich_text,
    slides,
    webpage,
    word,
    workbook,
    xml_text,
    zip_files,
)
from poweron_services.connectors.documents_child.document import Member, Section, Unreadable
from poweron_services.connectors.documents_child.limits import MEGABYTE, ReadLimits
from poweron_services.connectors.documents_child.readers import (
    CONTAINERS,
    WORDS_FOR,
    Fact,
    Note,
    OmittedPart,
    PageCount,
    PageRead,
    Part,
    Picture,
    mismatch,
    reader_of,
)

LOADED = (
    *(calendar_text, csv_text, headings, json_text, open_document, pdf, picture, plain_text, rich_text, slides),
    *(webpage, word, workbook, xml_text),
)  # while this process can still load modules
OPENERS = {
    media_types.ZIP: zip_files.opened,
    media_types.EML: mail.opened,
    media_types.MSG: outlook.opened,
    media_types.MBOX: mailbox.opened,
}

DEEPEST = 4  # levels of nested mails and archives
WORK_SHARE = 0.7  # of the CPU time; no member is started after this
MOST_UNREAD = 20  # that get a note each; the others are only counted
MOST_PAGES = 10_000  # of one member
LONGEST_PLACE = 300  # characters


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    kind = media_types.sniff(data, "a.eml")  # the real name is unknown here, and only mails need one
    yield from _Opening(replace(limits, first_page=1, pages=MOST_PAGES)).parts(data, kind, depth=1)


@dataclass(slots=True)
class _Opening:
    """The state of reading a mail or an archive at all its levels."""

    limits: ReadLimits
    unpacked: int = 0
    unread: int = 0

    def parts(self, data: bytes, kind: str, depth: int) -> Iterator[Part]:
        for part in OPENERS[kind](data, self.limits):
            if not isinstance(part, Member):
                yield part
            elif time.process_time() > self.limits.cpu_seconds * WORK_SHARE:
                yield Note(f"Reading took too long and ended before {part.place}.", truncated=True)
                return
            else:
                yield from self._parts_or_note(part, depth)
        if depth == 1 and self.unread > MOST_UNREAD:
            yield Note(f"{self.unread - MOST_UNREAD:,} more of its files could not be read.", truncated=True)

    def _parts_or_note(self, member: Member, depth: int) -> Iterator[Part]:
        """Yield what can be read of a member, and a note with the reason if that is not everything."""
        try:
            yield from self._member(member, depth)
        except Unreadable as error:
            yield from self._unread_note(member, str(error))
        except MemoryError:
            yield from self._unread_note(member, "needs more memory than is left; hand it over on its own.")
        except RecursionError:
            yield from self._unread_note(member, "is nested too deeply to be read.")
        except Exception:  # noqa: BLE001 - the libraries do not document all errors that they raise
            yield from self._unread_note(member, "is damaged or incomplete, so not all of it was read.")

    def _unread_note(self, member: Member, reason: str) -> Iterator[Note]:
        self.unread += 1
        if self.unread <= MOST_UNREAD:
            yield Note(f"{_at(member.place)} {reason}", truncated=True)

    def _member(self, member: Member, depth: int) -> Iterator[Part]:
        self._expect_room(member.size)
        data = member.load()
        self.unpacked += len(data)
        if not data:
            return
        kind = media_types.sniff(data, member.name)
        if kind in CONTAINERS and depth == DEEPEST:
            raise Unreadable(f"is {WORDS_FOR[kind]} within {DEEPEST} others; hand it over on its own.", "")
        reader = reader_of(kind, data)
        yield from (Note(f"In {member.place}: {sentence}") for sentence in mismatch(kind, member.name))
        inner = self.parts(data, kind, depth + 1) if kind in CONTAINERS else reader(data, self.limits)
        pages = last_page = 0
        for part in inner:
            if isinstance(part, PageCount):
                pages = part.pages
            elif isinstance(part, PageRead):
                last_page = part.page
            else:
                yield _place_part(part, member.place)
        if last_page < pages:
            yield Note(f"In {member.place}: Only {last_page:,} of {pages:,} pages were read.", truncated=True)

    def _expect_room(self, size: int) -> None:
        if self.unpacked + size > self.limits.archive_bytes:
            most = self.limits.archive_bytes // MEGABYTE
            raise Unreadable(f"would make it more than {most:,} MB in all; hand it over on its own.", "")


def _place_part(part: Part, place: str) -> Part:
    match part:
        case Section():
            return Section(_within(place, part.locator), part.text)
        case Note():
            return Note(f"In {place}: {part.sentence}", part.truncated)
        case Fact():
            return Fact(f"{place}, {part.name}", part.value)
        case OmittedPart():
            return OmittedPart(part.kind, _within(place, part.place))
        case Picture():
            location = _at(_within(place, part.locator))
            return Note(
                f"{location} is only a picture; to have its text recognised, hand it over on its own.", truncated=True
            )
        case _:
            return part


def _within(place: str, locator: str) -> str:
    return f"{place}, {locator}"[:LONGEST_PLACE] if locator else place


def _at(place: str) -> str:
    return place[:1].upper() + place[1:]
