"""The files that an assistant may hand over: those below the folders that it was given, and no others.

A document that an assistant reads may tell it to hand over somebody's keys. So no link is followed, no `..` climbs,
and nothing hidden is opened; each part of a path is opened from the folder before it.
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
    """The folders below which files may be read; a relative path begins at the first."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, named: Sequence[Path]) -> "AllowedFolders":
        """Those that were named, else the folder that the command was started in.

        Many assistants start their servers in the home directory or at the root, where everything would be below: then
        there is none.
        """
        here = Path.cwd()
        started_in = () if here in (Path.home().resolve(), Path(here.anchor)) else (here,)
        return cls(tuple(folder.resolve() for folder in named) or started_in)

    def read(self, path: str) -> File:
        """The file at the path.

        Raises:
            NotHandedOver: it may not be read, or cannot be.
        """
        folder, parts = self._place(path)
        try:
            descriptor = _opened(folder, parts)
        except FileNotFoundError:
            raise NotHandedOver(f"There is no file {path!r}.", code="file_missing") from None
        except OSError as error:
            raise NotHandedOver(f"The file {path!r} is not handed over: {error.strerror}, or it is a link.") from error
        except ValueError as error:  # signs that no name of a file has
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
        """The folder that the path is below, and the names that lead from there to the file."""
        if not self.folders:
            raise NotHandedOver("No folder is allowed; `poweron mcp serve --allow DIR` names one.")
        named = Path(path)
        for folder in self.folders if named.is_absolute() else self.folders[:1]:
            below = named.relative_to(folder) if named.is_relative_to(folder) else named
            if below.parts and not below.is_absolute() and not any(part.startswith(".") for part in below.parts):
                return folder, below.parts
        folders = ", ".join(repr(str(folder)) for folder in self.folders)
        raise NotHandedOver(
            f"The file {path[:300]!r} is not handed over: only files below {folders} are, without `..` and nothing "
            "hidden. `poweron mcp serve --allow DIR` allows another folder."
        )


def _opened(folder: Path, parts: Sequence[str]) -> int:
    """The file, opened from folder to folder: no link is followed on the way."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
