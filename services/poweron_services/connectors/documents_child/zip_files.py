"""The reader of ZIP: the files of an archive, in the order of its table of contents."""

import io
import zipfile
from collections.abc import Iterator
from functools import partial

from poweron_services.connectors.documents_child.document import Member, Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.office_parts import check_sizes, why_unsafe
from poweron_services.connectors.documents_child.readers import Fact, Part

ENCRYPTED = 0x1  # a bit of the flags of a file
ASIDE = ("__MACOSX/", ".DS_Store", "Thumbs.db", "desktop.ini")  # files that operating systems leave behind


def opened(data: bytes, limits: ReadLimits) -> Iterator[Part | Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_sizes(archive.infolist(), len(data), limits)
        files = [info for info in archive.infolist() if not info.is_dir() and not _is_aside(info.filename)]
        yield Fact("files", str(len(files)))
        for info in files:
            yield Member("file", info.filename, info.file_size, partial(_content, archive, info))


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if danger := why_unsafe(info):
        raise Unreadable(f"was left out, since it {danger}; pack it again without that.", "document_unsafe")
    if info.flag_bits & ENCRYPTED:
        raise Unreadable(
            "is protected with a password, so nothing of it can be read; pack it without one.", "document_protected"
        )
    return archive.read(info)


def _is_aside(path: str) -> bool:
    return path.startswith(ASIDE) or path.rsplit("/", 1)[-1] in ASIDE
