"""Reports, written by a child process: whatever strangers' texts do to what writes them, this process goes on.

A format that cannot be written is told with a reason, and the others come all the same.
"""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Final

from pydantic import BaseModel, ValidationError

from poweron_services.connectors.document_child import tell_kept
from poweron_services.connectors.documents_child.document import Right
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE, Limits
from poweron_services.connectors.isolated_process import isolated_process, send
from poweron_services.connectors.reports_child.report import Draft, Part, PartKind, ReportFormat
from poweron_services.fair_slots import FairSlots

__all__ = ["LIMITS", "Draft", "Part", "PartKind", "Rendered", "ReportFormat", "ReportRenderer"]

CHILD: Final = "poweron_services.connectors.reports_child"
LIMITS: Final = replace(DEFAULT_LIMITS, memory_bytes=1 << 30, wall_seconds=35.0, cpu_seconds=30)
ENVIRONMENT: Final = {"RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""However many processors there are: each thread would take of the memory that the process may have."""
LENGTH: Final = 4  # bytes of the number before each part
MOST_WRITTEN: Final = 100 * MEGABYTE  # of one file
MOST_IN_VAIN: Final = 2  # children one after the other that write nothing at all
MOST_UNSHOWN: Final = 20  # signs that a note names


@dataclass(frozen=True, slots=True)
class Rendered:
    """The files that came of a draft, and what a person should know about those that did not."""

    files: tuple[tuple[ReportFormat, bytes], ...]
    notes: tuple[str, ...] = ()


class _Told(BaseModel):
    """What the child may say of a format."""

    format: str = ""
    failed: str = ""
    unshown: str = ""
    rights_kept: tuple[Right, ...] = ()


class ReportRenderer:
    """Writes reports, one at a time."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._turn = FairSlots(1)

    async def __call__(self, draft: Draft) -> Rendered:
        """The report in each of the draft's formats, in their order.

        Raises `Unavailable` when this machine can start no process now. Cancelling kills the child.
        """
        files: list[tuple[ReportFormat, bytes]] = []
        notes: list[str] = []
        left, in_vain = list(draft.formats), 0
        async with self._turn:
            while left:  # a child that dies or hangs writes a format less; the next one goes on behind that
                told = await self._written(replace(draft, formats=tuple(left)))
                in_vain = 0 if told else in_vain + 1
                for name, (said, data) in zip(left, told, strict=False):
                    files += [(name, data)] if data else []
                    notes += _notes(name, said)
                if len(told) < len(left):
                    notes.append(_failed(left[len(told)], _too_much(self._limits)))
                left = left[len(told) + 1 :]
                if in_vain == MOST_IN_VAIN:
                    notes += [_failed(name, _too_much(self._limits)) for name in left]
                    left = []
        return Rendered(tuple(files), tuple(notes))

    async def _written(self, draft: Draft) -> list[tuple[_Told, bytes]]:
        """What one child writes before its end; fewer files than formats where it did not get through."""
        written: list[tuple[_Told, bytes]] = []
        question = json.dumps(asdict(draft)).encode()
        limits, formats = json.dumps(asdict(self._limits)), json.dumps(draft.formats)
        command = (sys.executable, "-I", "-m", CHILD, limits, formats)
        starting = isolated_process(command, "write a report in", ENVIRONMENT)
        with suppress(TimeoutError, asyncio.IncompleteReadError, ValidationError):
            async with asyncio.timeout(self._limits.wall_seconds), starting as child:
                assert child.stdout is not None
                ready, _ = await _part(child.stdout)
                if ready.rights_kept:
                    tell_kept(ready.rights_kept)
                async with asyncio.TaskGroup() as group:
                    sending = group.create_task(send(child, question))
                    for _ in draft.formats:
                        try:
                            written.append(await _part(child.stdout))
                        except (asyncio.IncompleteReadError, ValidationError):
                            sending.cancel()
                            break
        return written


async def _part(stdout: asyncio.StreamReader) -> tuple[_Told, bytes]:
    """What the child says of a format, and the file; it has read strangers' texts, so it may say anything."""
    told, data = b"", b""
    size = int.from_bytes(await stdout.readexactly(LENGTH))
    told = await stdout.readexactly(min(size, MEGABYTE))
    size = int.from_bytes(await stdout.readexactly(LENGTH))
    if size > MOST_WRITTEN:
        raise asyncio.IncompleteReadError(b"", size)
    data = await stdout.readexactly(size)
    return _Told.model_validate_json(told), data


_NAMES: Final[dict[str, str]] = {
    "markdown": "markdown",
    "html": "HTML",
    "docx": "a Word document",
    "pdf": "a PDF",
    "xlsx": "an Excel workbook",
}


def _notes(name: ReportFormat, said: _Told) -> list[str]:
    if said.failed:
        return [_failed(name, said.failed)]
    if said.unshown:
        signs = " ".join(said.unshown[:MOST_UNSHOWN]) + (" …" if len(said.unshown) > MOST_UNSHOWN else "")
        told = f"The report as {_NAMES[name]} shows □ for {len(said.unshown)} signs that none of its fonts has"
        return [f"{told} ({signs}); the other formats have them."]
    return []


def _failed(name: ReportFormat, why: str) -> str:
    return f"The report could not be written as {_NAMES[name]}: {why}; the other formats are not touched by that."


def _too_much(limits: Limits) -> str:
    return f"it took more than {limits.wall_seconds:g} seconds or {limits.memory_bytes >> 20} MB of memory"
