"""The process that writes one report: a draft on standard input, its files one by one on standard output, then its end.

All that writing takes is loaded first; then the process gives up its rights, and only then it reads the draft. Each
file is told in two parts, what it is and its bytes, each behind a number of four bytes that says how many.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, BinaryIO

from poweron_services.connectors.documents_child.limits import Limits, confine
from poweron_services.connectors.documents_child.rights import give_up_rights
from poweron_services.connectors.reports_child.report import Draft, Part, Report

LENGTH = 4  # bytes of the number before each part
NICE = 5  # steps behind the process that serves

Write = Callable[[Report], tuple[bytes, str]]
"""Writes a report, and says which signs it could not show."""


def main(limits: Limits, formats: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not garble the answers
    confine(limits)
    os.nice(NICE)
    writers = _writers(formats)
    _say(answers, {"rights_kept": give_up_rights()}, b"")
    from poweron_services.connectors.reports_child.composition import composed  # noqa: PLC0415 - within the limits

    report = composed(_draft(json.loads(sys.stdin.buffer.read())))
    for name, write in writers.items():
        told, data = _written(name, write, report)
        _say(answers, told, data)
    answers.close()
    os._exit(0)  # no cleaning up: with the answers given, nothing here is needed any more


def _writers(formats: list[str]) -> Mapping[str, Write]:
    """How each of the formats is written, with all that it takes loaded."""
    from poweron_services.connectors.reports_child import format_writers  # noqa: PLC0415 - within the limits

    return format_writers.writers(formats)


def _written(name: str, write: Write, report: Report) -> tuple[dict[str, Any], bytes]:
    """A file, or why there is none: what goes wrong with one format must not cost the next."""
    try:
        data, unshown = write(report)
    except MemoryError:
        return {"format": name, "failed": "it takes too much memory"}, b""
    except RecursionError:
        return {"format": name, "failed": "its text is nested too deeply"}, b""
    except Exception as error:  # noqa: BLE001 - of libraries that write what strangers wrote
        return {"format": name, "failed": f"an unexpected error ({type(error).__name__})"}, b""
    return {"format": name, "unshown": unshown}, data


def _draft(said: dict[str, Any]) -> Draft:
    known = {field.name for field in fields(Draft)}
    parts = tuple(Part(**part) for part in said.pop("parts"))
    return Draft(parts=parts, **{name: value for name, value in said.items() if name in known})


def _say(answers: BinaryIO, told: dict[str, Any], data: bytes) -> None:
    said = json.dumps(told).encode()
    answers.write(len(said).to_bytes(LENGTH) + said + len(data).to_bytes(LENGTH) + data)
    answers.flush()


if __name__ == "__main__":
    main(Limits(**json.loads(sys.argv[1])), json.loads(sys.argv[2]))
