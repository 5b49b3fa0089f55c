"""Reading documents from the file system, and writing them to it."""

import asyncio
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from poweron_events.errors import MissingContent, Unavailable
from poweron_events.event import DocumentRef
from poweron_events.request import MAX_DOCUMENTS
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import stop
from poweron_services.cli.output import tell
from poweron_services.client.ask import File
from poweron_services.client.connect import Connections
from poweron_services.text.spreadsheet_text import csv_as_text

MAX_NAME = 200  # characters
MAX_FILE_NAME = 190  # bytes after the id, which has at most 64; file systems allow 255
MAX_SAME_NAMES = 1_000  # files of one name, distinguished by numbers of at most 4 digits
CSV = "text/csv"
MAX_FILE = 200_000_000  # bytes
FOLDER_UNWRITABLE, FILE_UNWRITABLE, FILE_EXISTS = "folder_unwritable", "file_unwritable", "file_exists"  # codes
NO_FILE = (errno.EEXIST, "a link, a folder or something else that is not a file has this name")


def read(paths: Sequence[Path]) -> list[File]:
    """Read the documents at these paths; a path that cannot be read ends the command."""
    if len(paths) > MAX_DOCUMENTS:
        most = f"{len(paths)} documents are too many; a request may have {MAX_DOCUMENTS}."
        stop(f"{most} Put them into a ZIP archive, which counts as one.", USAGE)
    return [File(_name(path), _bytes(path)) for path in paths]


def _name(path: Path) -> str:
    """Return the file's name as text; bytes that are not UTF-8 are replaced."""
    return path.name.encode(errors="replace").decode()[-MAX_NAME:]


def read_one(path: Path) -> bytes:
    """Read a file that is an argument; a path that cannot be read ends the command."""
    return _bytes(path, "Check the path.", "Name a file in it.")


def _bytes(
    path: Path,
    if_missing: str = "Check the path after --document.",
    if_folder: str = "Give its files one by one, each with --document.",
) -> bytes:
    try:
        _expect_a_file(path)
        if path.stat().st_size > MAX_FILE:
            _stop_at(path)
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        stop(f"There is no file {str(path)!r}. {if_missing}", USAGE)
    except IsADirectoryError:
        stop(f"{str(path)!r} is a folder. {if_folder}", USAGE)
    except OSError as error:
        stop(f"The file {str(path)!r} cannot be read: {error.strerror}.", USAGE)
    if len(data) > MAX_FILE:  # the file has grown, or did not report its size
        _stop_at(path)
    return data


def _stop_at(path: Path) -> NoReturn:
    stop(f"The file {str(path)!r} is larger than {MAX_FILE // 1_000_000} MB, the largest that PowerOn reads.", USAGE)


def _expect_a_file(path: Path) -> None:
    """End the command if reading could block forever."""
    if not path.is_file() and not path.is_dir() and path.exists():
        kind = "pipe" if path.is_fifo() else "socket" if path.is_socket() else "device"
        stop(f"{str(path)!r} is a {kind}, not a file. Write its data to a file, and name that.", USAGE)


def check_writable(folder: Path) -> None:
    """End the command if the folder cannot be written to; create it if needed."""
    try:
        if folder.is_file():
            stop(f"{str(folder)!r} is a file. Choose a folder with --output.", USAGE)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        message = f"Nothing can be written to {str(folder)!r}: {error.strerror}. Choose another folder with --output."
        stop(message, USAGE, code=FOLDER_UNWRITABLE)


def check_file_writable(path: Path) -> None:
    """End the command if the file cannot be written; create its folder if needed."""
    with _writing(path, USAGE):
        if path.is_dir():
            stop(f"{str(path)!r} is a folder. Name a file in it with --output.", USAGE)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            path.open("ab").close()
        if not _is_special(path):
            with tempfile.TemporaryFile(dir=path.resolve().parent):
                pass


def write_file(path: Path, data: bytes, is_earlier: Callable[[bytes], bool]) -> None:
    """Write a file and move it into place once it is complete; a failure ends the command.

    Args:
        path: where to write; a link is followed, and a pipe or a device gets the bytes directly.
        data: the bytes of the file.
        is_earlier: returns whether the bytes of an existing file are an earlier output for the same thing; no other
            file is replaced.
    """
    if _is_special(path):
        with _writing(path, FAILED):
            path.write_bytes(data)
        return
    with replacing(path, is_earlier) as beside:
        _write_new(beside, data)


@contextmanager
def replacing(path: Path, is_earlier: Callable[[bytes], bool]) -> Generator[Path, None, None]:
    """Yield the path of a new file, which is moved into place once it is complete; as `write_file`."""
    with _writing(path, FAILED):
        target = path.resolve()
        beside = target.with_name(f".{secrets.token_hex(8)}.new")
        try:
            yield beside
            if target.exists():
                expect_earlier(path, is_earlier)
                beside.chmod(stat.S_IMODE(target.stat().st_mode))
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    """Return whether the path is a pipe, a device or something else that cannot be replaced."""
    return path.exists() and not path.is_file()


def _write_new(path: Path | str, data: bytes, folder: int | None = None) -> None:
    """Write a file that does not exist yet, completely or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except BaseException:
        os.unlink(path, dir_fd=folder)
        raise


def expect_earlier(path: Path, is_earlier: Callable[[bytes], bool]) -> None:
    """End the command if the file is anything but an earlier output for the same thing."""
    with path.open("rb") as file:
        there = file.read(MAX_FILE + 1)
    if len(there) > MAX_FILE or not is_earlier(there):
        message = f"{str(path)!r} is another file and is kept. Choose another one with --output, or remove it first."
        stop(message, USAGE, code=FILE_EXISTS)


@contextmanager
def _writing(path: Path, exit_code: int) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        message = f"{str(path)!r} cannot be written: {error.strerror}. Choose another file with --output."
        stop(message, exit_code, code=FILE_UNWRITABLE)


async def write(
    connections: Connections, workflow_id: str, documents: Sequence[DocumentRef], folder: Path
) -> list[dict[str, Any]]:
    """Write documents to a folder, and return each as the object that `--json` prints, with its path.

    A document that cannot be written has the code of the reason instead of a path; the reason has been printed.
    """
    return [await _write(connections, workflow_id, document, folder) for document in documents]


async def _write(connections: Connections, workflow_id: str, document: DocumentRef, folder: Path) -> dict[str, Any]:
    entry = shown_document(document)
    if not document.is_named_safely:
        tell(
            f"{document.document_name!r} is not written: {document.document_id!r} is not an id that PowerOn gives, "
            "so another program wrote the event that names it. Find out who can write to the events topic."
        )
        return entry | {"path": None, "code": "document_id_invalid"}
    try:
        data = await connections.content.get(workflow_id, document.content)
    except (MissingContent, Unavailable) as error:
        tell(f"{document.document_name!r} cannot be written. {_unread_reason(error)}")
        return entry | {"path": None, "code": error.code}
    name = _file_name(document)
    try:
        file_name = await asyncio.to_thread(_write_file, folder, name, _without_formulas(document, data))
    except OSError as error:
        tell(
            f"{document.document_name!r} cannot be written to {str(folder / name)!r}: {error.strerror}. "
            f"`poweron documents {workflow_id} --output DIR` writes it elsewhere."
        )
        return entry | {"path": None, "code": FOLDER_UNWRITABLE}
    if file_name != name:
        tell(f"{str(folder / name)!r} is another file and is kept; the document is written to {file_name!r} beside it.")
    return entry | {"path": str(folder / file_name).encode(errors="replace").decode()}


def _without_formulas(document: DocumentRef, data: bytes) -> bytes:
    """Return CSV so that a spreadsheet can open it safely (S21); other files, and CSV not in UTF-8, are unchanged."""
    if document.mime_type.partition(";")[0] != CSV and not document.document_name.casefold().endswith(".csv"):
        return data
    try:
        return csv_as_text(data.decode()).encode()
    except UnicodeDecodeError:
        return data


def _write_file(folder: Path, name: str, data: bytes) -> str:
    """Write a new file in the folder itself and return its name; no file or link is replaced or followed (X-03).

    If a file of that name has the same content, it is kept as the same document; otherwise the name gets a number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(1, MAX_SAME_NAMES + 1):
            candidate = name if number == 1 else _with_number(name, number)
            with suppress(FileExistsError):
                _write_new(candidate, data, place)
                return candidate
            if _holds(place, candidate, data):
                return candidate
    finally:
        os.close(place)
    raise OSError(errno.EEXIST, f"{MAX_SAME_NAMES} files have this name already")


def _with_number(name: str, number: int) -> str:
    path = Path(name)
    return f"{path.stem}-{number}{path.suffix}"


def _holds(place: int, name: str, data: bytes) -> bool:
    """Return whether a file of the folder has this content; a link, folder or pipe raises OSError."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    except PermissionError:
        return False
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise OSError(*NO_FILE) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(*NO_FILE)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return status.st_size == len(data) and file.read() == data
    finally:
        os.close(descriptor)


def _unread_reason(error: MissingContent | Unavailable) -> str:
    if isinstance(error, MissingContent):
        return "It is no longer in the content store."
    return f"The content store does not answer: {error}. Try again."


def shown_document(document: DocumentRef) -> dict[str, Any]:
    """Return a document as `--json` prints it."""
    return {
        "documentId": document.document_id,
        "documentName": document.document_name,
        "mimeType": document.mime_type,
        "size": document.size,
    }


def _file_name(document: DocumentRef) -> str:
    """Return a file name that stays in its folder for any name of the document, and keeps its extension."""
    safe_name = "".join(
        character if character.isalnum() or character in "-_. ()" else "_" for character in document.document_name
    )
    end = safe_name.strip("_. ").encode()[-MAX_FILE_NAME:].decode(errors="ignore")
    return f"{document.document_id}-{end or 'document'}"
