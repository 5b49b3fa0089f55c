"""The files that an assistant may hand over: only those below the allowed folders.

A document that an assistant reads may tell it to hand over a user's keys. So links are not followed, `..` is refused,
and hidden files are not opened; each part of a path is opened from the folder before it.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poweron_events.errors import Refused
from poweron_services.client.ask import File

MAX_FILE = 200_000_000  # bytes
MAX_NAME = 200  # characters


class NotHandedOver(Refused):
    """A document cannot be handed over; the sentence says why."""

    code = "file_not_allowed"


@dataclass(frozen=True, slots=True)
class AllowedFolders:
    """The folders below which files may be read; a relative path starts at the first."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> "AllowedFolders":
        """Return the named folders, or else the folder in which the command was started.

        Many assistants start their servers in the home directory or at the root, which would allow everything: then
        no folder is allowed.
        """
        here = Path.cwd()
        default_folders = () if here in (Path.home().resolve(), Path(here.anchor)) else (here,)
        return cls(tuple(folder.resolve() for folder in folders) or default_folders)

    def read(self, path: str) -> File:
        """Read the file at the path.

        Raises:
            NotHandedOver: it must not or cannot be read.
        """
        folder, parts = self._place(path)
        try:
            descriptor = _open(folder, parts)
        except FileNotFoundError:
            raise NotHandedOver(f"There is no file {path!r}.", code="file_missing") from None
        except OSError as error:
            raise NotHandedOver(f"The file {path!r} is not handed over: {error.strerror}, or it is a link.") from error
        except ValueError as error:  # characters that no file name can have
            raise NotHandedOver(f"{path[:300]!r} is no name of a file.") from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotHandedOver(f"{path!r} is no file; name files one by one.")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_FILE + 1)
        finally:
            os.close(descriptor)
        if len(data) > MAX_FILE:
            raise NotHandedOver(f"The file {path!r} is larger than {MAX_FILE // 1_000_000} MB, the most that is read.")
        return File(parts[-1].encode(errors="replace").decode()[-MAX_NAME:], data)

    def _place(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """Return the allowed folder above the path, and the names that lead from there to the file."""
        if not self.folders:
            raise NotHandedOver("No folder is allowed; `poweron mcp serve --allow DIR` names one.")
        requested_path = Path(path)
        for folder in self.folders if requested_path.is_absolute() else self.folders[:1]:
            below = requested_path.relative_to(folder) if requested_path.is_relative_to(folder) else requested_path
            if below.parts and not below.is_absolute() and not any(part.startswith(".") for part in below.parts):
                return folder, below.parts
        folders = ", ".join(repr(str(folder)) for folder in self.folders)
        raise NotHandedOver(
            f"The file {path[:300]!r} is not handed over: only files below {folders} are, without `..` and nothing "
            "hidden. `poweron mcp serve --allow DIR` allows another folder."
        )


def _open(folder: Path, parts: Sequence[str]) -> int:
    """Open the file, from folder to folder and without following a link, and return its descriptor."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
