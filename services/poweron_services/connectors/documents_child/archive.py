"""Safety checks of zip archives, such as office files; nothing is unpacked before the table of contents is checked."""

import codecs
import io
import stat
import zipfile

from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import MEGABYTE, ReadLimits

PROLOG = 1024  # bytes of an XML part that are searched for a document type
DRIVE = ":"

codecs.lookup("cp437")  # of some entry names; no codec can be loaded once a document is being read


def check(data: bytes, limits: ReadLimits) -> None:
    """Refuse zip bombs, paths that lead out of the archive, and XML that defines entities."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_contents(archive, len(data), limits)
        for member in archive.infolist():
            if member.filename.endswith((".xml", ".rels")):
                _check_prolog(archive, member)


def check_contents(archive: zipfile.ZipFile, size: int, limits: ReadLimits) -> None:
    """Refuse zip bombs and paths that lead out of the archive, by its table of contents alone."""
    members = archive.infolist()
    check_sizes(members, size, limits)
    for member in members:
        if danger := why_unsafe(member):
            raise _refusal(f"its entry {member.filename!r} {danger}")


def check_sizes(members: list[zipfile.ZipInfo], size: int, limits: ReadLimits) -> None:
    unpacked_size = sum(member.file_size for member in members)
    if len(members) > limits.archive_entries:
        raise _refusal(f"it holds {len(members):,} files, more than the {limits.archive_entries:,} that are allowed")
    if unpacked_size > limits.archive_bytes:
        raise _refusal(
            f"it would unpack to {unpacked_size // MEGABYTE:,} MB, more than {limits.archive_bytes // MEGABYTE} MB"
        )
    if unpacked_size > MEGABYTE and unpacked_size > size * limits.archive_ratio:
        raise _refusal(f"it would unpack to {unpacked_size // size:,} times its size, as no document does")


def why_unsafe(member: zipfile.ZipInfo) -> str:
    """Return why an entry must not be opened; empty if it is safe."""
    parts = member.filename.replace("\\", "/").split("/")
    if parts[0] == "" or ".." in parts or DRIVE in parts[0]:
        return "points out of the archive"
    return "is a link" if stat.S_ISLNK(member.external_attr >> 16) else ""


def _check_prolog(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    with archive.open(member) as part:
        prolog = part.read(PROLOG).replace(b"\0", b"")
    if b"<!DOCTYPE" in prolog or b"<!ENTITY" in prolog:
        raise _refusal(f"its entry {member.filename!r} defines XML entities, which no office program writes")


def _refusal(reason: str) -> Unreadable:
    message = f"was not opened because {reason}; open it in its own program and save it as a new file."
    return Unreadable(message, "document_unsafe")
