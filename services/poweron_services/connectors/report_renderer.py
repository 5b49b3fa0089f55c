"""Rendering of reports in a child process, so that untrusted text can crash the renderer but not this process.

If a format cannot be written, a note gives the reason, and the other formats are written nevertheless.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Final

from pydantic import BaseModel, ValidationError

from poweron_services.connectors.document_child import isolated_process, log_kept_rights, send
from poweron_services.connectors.documents_child.document import Right
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits
from poweron_services.connectors.reports_child.report import Draft, Part, PartKind, ReportFormat
from poweron_services.fair_slots import FairSlots

__all__ = ["LIMITS", "Draft", "Part", "PartKind", "RenderedReport", "ReportFormat", "ReportRenderer"]

CHILD: Final = "poweron_services.connectors.reports_child"
LIMITS: Final = replace(DEFAULT_LIMITS, memory_bytes=1 << 30, wall_seconds=35.0, cpu_seconds=30)
ENVIRONMENT: Final = {"RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Limits the threads on machines with many processors: each thread takes some of the memory of the process."""
LENGTH: Final = 4  # bytes of the length prefix of each part
MOST_WRITTEN: Final = 100 * MEGABYTE  # of one file
MOST_IN_VAIN: Final = 2  # consecutive children without any output, before the renderer gives up
MOST_UNSHOWN: Final = 20  # characters that a note lists


@dataclass(frozen=True, slots=True)
class RenderedReport:
    """The files rendered from a draft, and notes for users about formats that failed or lack characters."""

    files: tuple[tuple[ReportFormat, bytes], ...]
    notes: tuple[str, ...] = ()


class _Outcome(BaseModel):
    """The child's report on one format."""

    format: str = ""
    failed: str = ""
    unshown: str = ""
    rights_kept: tuple[Right, ...] = ()


class ReportRenderer:
    """Writes reports, one at a time."""

    def __init__(self, limits: ReadLimits = LIMITS) -> None:
        self._limits = limits
        self._turn = FairSlots(1)

    async def __call__(self, draft: Draft) -> RenderedReport:
        """Render the report in each of the draft's formats, in their order.

        Raises `Unavailable` if this machine cannot start a process now. Cancelling kills the child.
        """
        files: list[tuple[ReportFormat, bytes]] = []
        notes: list[str] = []
        left, in_vain = list(draft.formats), 0
        async with self._turn:
            while left:  # if a child dies or hangs on a format, the next child continues after it
                outcomes = await self._run_child(_rest(draft, left, len(files)))
                in_vain = 0 if outcomes else in_vain + 1
                for name, (outcome, data) in zip(left, outcomes, strict=False):
                    files += [(name, data)] if data else []
                    notes += _notes(name, outcome)
                if len(outcomes) < len(left):
                    notes.append(_failure_note(left[len(outcomes)], _too_much(self._limits)))
                left = left[len(outcomes) + 1 :]
                if in_vain == MOST_IN_VAIN:
                    notes += [_failure_note(name, _too_much(self._limits)) for name in left]
                    left = []
        return RenderedReport(tuple(files), tuple(notes))

    async def _run_child(self, draft: Draft) -> list[tuple[_Outcome, bytes]]:
        """Run one child and return what it writes; fewer files than formats if it failed on one."""
        outcomes: list[tuple[_Outcome, bytes]] = []
        question = json.dumps(asdict(draft)).encode()
        limits, formats = json.dumps(asdict(self._limits)), json.dumps(draft.formats)
        command = (sys.executable, "-I", "-m", CHILD, limits, formats)
        process = isolated_process(command, "write a report in", ENVIRONMENT)
        with suppress(TimeoutError, asyncio.IncompleteReadError, ValidationError):
            async with asyncio.timeout(self._limits.wall_seconds), process as child:
                assert child.stdout is not None
                ready, _ = await _part(child.stdout)
                if ready.rights_kept:
                    log_kept_rights(ready.rights_kept)
                async with asyncio.TaskGroup() as group:
                    sending = group.create_task(send(child, question))
                    for _ in draft.formats:
                        try:
                            outcomes.append(await _part(child.stdout))
                        except (asyncio.IncompleteReadError, ValidationError):
                            sending.cancel()
                            break
        return outcomes


def _rest(draft: Draft, formats: Sequence[ReportFormat], written: int) -> Draft:
    """Return the draft for the formats that are left, after this many files."""
    mark = draft.provenance
    next_mark = None if mark is None else replace(mark, number=mark.number + written)
    return replace(draft, formats=tuple(formats), provenance=next_mark)


async def _part(stdout: asyncio.StreamReader) -> tuple[_Outcome, bytes]:
    """Receive the report on a format, and its file; the child has read untrusted text, so it may send anything."""
    report, data = b"", b""
    size = int.from_bytes(await stdout.readexactly(LENGTH))
    report = await stdout.readexactly(min(size, MEGABYTE))
    size = int.from_bytes(await stdout.readexactly(LENGTH))
    if size > MOST_WRITTEN:
        raise asyncio.IncompleteReadError(b"", size)
    data = await stdout.readexactly(size)
    return _Outcome.model_validate_json(report), data


_NAMES: Final[dict[str, str]] = {
    "markdown": "markdown",
    "html": "HTML",
    "docx": "a Word document",
    "pdf": "a PDF",
    "xlsx": "an Excel workbook",
}


def _notes(name: ReportFormat, outcome: _Outcome) -> list[str]:
    if outcome.failed:
        return [_failure_note(name, outcome.failed)]
    if outcome.unshown:
        signs = " ".join(outcome.unshown[:MOST_UNSHOWN]) + (" …" if len(outcome.unshown) > MOST_UNSHOWN else "")
        sentence = f"The report as {_NAMES[name]} shows □ for {len(outcome.unshown)} signs that none of its fonts has"
        return [f"{sentence} ({signs}); the other formats have them."]
    return []


def _failure_note(name: ReportFormat, reason: str) -> str:
    return f"The report could not be written as {_NAMES[name]}: {reason}; the other formats are not touched by that."


def _too_much(limits: ReadLimits) -> str:
    return f"it took more than {limits.wall_seconds:g} seconds or {limits.memory_bytes >> 20} MB of memory"
