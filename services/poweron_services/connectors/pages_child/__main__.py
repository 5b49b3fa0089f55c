"""The process that reads pages one after another until its parent ends it: a question and a page in, an answer out.

Each of these is prefixed with its length as a number of four bytes. The process first loads everything that reading may
need, then drops its privileges for good and reports which it kept, and only then accepts the first page.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import Any, BinaryIO

from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits, confine
from poweron_services.connectors.documents_child.rights import give_up_rights
from poweron_services.connectors.pages_child.page_answers import PageQuestion

LENGTH = 4  # bytes of the number before each part
NICE = 5  # added niceness, so that the serving process keeps running while pages are read


def main(limits: ReadLimits) -> None:
    answers = _keep_stdout_for_the_answers()
    confine(limits)
    os.nice(NICE)
    from poweron_services.connectors.pages_child import preload  # noqa: PLC0415 - within the limits

    preload.load()
    _say(answers, {"rights_kept": give_up_rights()})
    while question := _part(sys.stdin.buffer):
        _say(answers, _answer(PageQuestion(**json.loads(question)), _part(sys.stdin.buffer), limits))


def _answer(question: PageQuestion, data: bytes, limits: ReadLimits) -> dict[str, Any]:
    """Return the page, or the code for why there is none. An error in one page must not affect the next."""
    from poweron_services.connectors.pages_child.page_parser import read  # noqa: PLC0415 - it is loaded

    try:
        return {"page": asdict(read(data, question, limits))}
    except Unreadable as error:
        return {"unreadable": error.code}
    except MemoryError:
        return {"unreadable": "document_too_large"}
    except RecursionError:
        return {"unreadable": "document_unsafe"}
    except Exception:  # noqa: BLE001 - any error of the libraries that read untrusted pages
        return {"unreadable": "document_damaged"}


def _part(stream: BinaryIO) -> bytes:
    return stream.read(int.from_bytes(stream.read(LENGTH)))


def _say(answers: BinaryIO, answer: dict[str, Any]) -> None:
    content = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
    answers.write(len(content).to_bytes(LENGTH) + content)
    answers.flush()


def _keep_stdout_for_the_answers() -> BinaryIO:
    """Redirect standard output to standard error, so that a library that prints cannot corrupt the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main(ReadLimits(**json.loads(sys.argv[1])))
