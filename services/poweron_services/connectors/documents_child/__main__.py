"""The process that reads one document: bytes on standard input, lines of JSON on standard output, then exit.

Each line holds one item, written as soon as it is read: a section, a note, the page count, or the number of a page that
was read. The last line holds the rest of the document, or the reason why there is none.

The content of the document determines its type; its name decides only if the content is inconclusive. Before the
process parses anything, it drops every privilege that parsing does not need.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import Any, BinaryIO, assert_never

from poweron_services.connectors.documents_child.document import Section, Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits, confine
from poweron_services.connectors.documents_child.media_types import sniff
from poweron_services.connectors.documents_child.readers import Note, PageCount, PageRead, Told, read, reader_of
from poweron_services.connectors.documents_child.rights import give_up_rights


def main() -> None:
    """Read the question from the first line, and the document from the rest."""
    answers = _keep_stdout_for_the_answer()
    question = json.loads(sys.stdin.buffer.readline())
    limits = ReadLimits(**question["limits"])
    confine(limits)
    _say(answers, **_answer(question["name"], limits, answers))
    os._exit(0)  # skip the cleanup: the answer has been sent


def _answer(name: str, limits: ReadLimits, answers: BinaryIO) -> dict[str, Any]:
    """Return the document without the parts that were already written, or the reason why there is none."""

    def tell(part: Told) -> None:
        match part:
            case Section():
                _say(answers, section=asdict(part))
            case Note():
                _say(answers, note=asdict(part))
            case PageCount(pages):
                _say(answers, pages=pages)
            case PageRead(page):
                _say(answers, page_read=page)
            case _:
                assert_never(part)

    try:
        data = sys.stdin.buffer.read()
        kind = sniff(data, name)
        reader = reader_of(kind, data)
        _say(answers, rights_kept=give_up_rights(), mime_type=kind)
        return {"document": asdict(read(reader(data, limits), kind, name, limits, tell))}
    except Unreadable as error:
        return {"unreadable": str(error), "code": error.code}
    except MemoryError:
        reason = "needs more memory than a document may use; hand over a smaller part of it."
        return {"unreadable": reason, "code": "document_too_large"}
    except RecursionError:
        reason = "is nested too deeply to be read; hand over a simpler version of it."
        return {"unreadable": reason, "code": "document_unsafe"}


def _say(answers: BinaryIO, **fields: Any) -> None:
    """Write a line and flush it, so that it is not lost if this process dies."""
    answers.write(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    answers.flush()


def _keep_stdout_for_the_answer() -> BinaryIO:
    """Redirect standard output to standard error, so that a library that prints cannot garble the answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
