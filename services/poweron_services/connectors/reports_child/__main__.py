"""The process that writes one report: it reads a draft from standard input and writes the files to standard output.

It first loads everything that writing needs, then drops its privileges, and only then reads the draft. Each file is
sent in two parts, a description and its bytes, each prefixed with its length as a number of four bytes.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, BinaryIO

from poweron_services.connectors.documents_child.limits import ReadLimits, confine
from poweron_services.connectors.documents_child.rights import give_up_rights
from poweron_services.connectors.reports_child.report import Draft, Part, Report
from poweron_services.text.provenance import Provenance, SourceDigest

LENGTH = 4  # bytes of the number before each part
NICE = 5  # added niceness, so that the serving process comes first

Write = Callable[[Report], tuple[bytes, str]]
"""Writes a report; returns its bytes and the characters that it could not show."""


def main(limits: ReadLimits, formats: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not corrupt the answers
    confine(limits)
    os.nice(NICE)
    writers = _writers(formats)
    _say(answers, {"rights_kept": give_up_rights()}, b"")
    from poweron_services.connectors.reports_child.composition import composed  # noqa: PLC0415 - within the limits

    report = composed(_draft(json.loads(sys.stdin.buffer.read())))
    for name, write in writers.items():
        outcome, data = _write_file(name, write, report)
        _say(answers, outcome, data)
        report = _after_file(report) if data else report
    answers.close()
    os._exit(0)  # skip all cleanup: once the answers are sent, nothing here is needed


def _writers(formats: list[str]) -> Mapping[str, Write]:
    """The writers of the formats, with everything loaded that they need."""
    from poweron_services.connectors.reports_child import format_writers  # noqa: PLC0415 - within the limits

    return format_writers.writers(formats)


def _write_file(name: str, write: Write, report: Report) -> tuple[dict[str, Any], bytes]:
    """Write a file, or report why there is none. An error in one format must not affect the next."""
    try:
        data, unshown = write(report)
    except MemoryError:
        return {"format": name, "failed": "it takes too much memory"}, b""
    except RecursionError:
        return {"format": name, "failed": "its text is nested too deeply"}, b""
    except Exception as error:  # noqa: BLE001 - any error of the libraries that write untrusted text
        return {"format": name, "failed": f"an unexpected error ({type(error).__name__})"}, b""
    return {"format": name, "unshown": unshown}, data


def _after_file(report: Report) -> Report:
    """Return the report with the mark of the next file."""
    mark = report.provenance
    return report if mark is None else replace(report, provenance=replace(mark, number=mark.number + 1))


def _draft(values: dict[str, Any]) -> Draft:
    known = {field.name for field in fields(Draft)}
    parts, mark = tuple(Part(**part) for part in values.pop("parts")), values.pop("provenance", None)
    return Draft(
        parts=parts,
        provenance=None if mark is None else _provenance(mark),
        **{name: value for name, value in values.items() if name in known},
    )


def _provenance(values: dict[str, Any]) -> Provenance:
    return Provenance(**values | {"sources": tuple(SourceDigest(**source) for source in values["sources"])})


def _say(answers: BinaryIO, outcome: dict[str, Any], data: bytes) -> None:
    header = json.dumps(outcome).encode()
    answers.write(len(header).to_bytes(LENGTH) + header + len(data).to_bytes(LENGTH) + data)
    answers.flush()


if __name__ == "__main__":
    main(ReadLimits(**json.loads(sys.argv[1])), json.loads(sys.argv[2]))
