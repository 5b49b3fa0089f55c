"""The process that reads one document: bytes on standard input, one JSON answer on standard output, then its end.

What kind of document it is, is told by its first bytes; before anything of it is parsed, the process has given up
whatever that does not take.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import Any, BinaryIO

from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import Limits, confine
from poweron_services.connectors.documents_child.media_types import sniff
from poweron_services.connectors.documents_child.readers import read, reader_of
from poweron_services.connectors.documents_child.rights import give_up_rights


def main() -> None:
    """Take the first line as the question and the rest as the document."""
    answers = _keep_stdout_for_the_answer()
    question = json.loads(sys.stdin.buffer.readline())
    limits = Limits(**question["limits"])
    confine(limits)
    answer = _answer(question["name"], limits)
    answers.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    answers.close()
    os._exit(0)  # no cleaning up: with the answer given, nothing here is needed any more


def _answer(name: str, limits: Limits) -> dict[str, Any]:
    """The document or why there is none, and which rights this process could not give up."""
    answer: dict[str, Any] = {}
    try:
        data = sys.stdin.buffer.read()
        kind = sniff(data, name)
        reader = reader_of(kind, data)
        answer["rights_kept"] = give_up_rights()
        answer["document"] = asdict(read(reader(data, limits), kind, name, limits))
    except Unreadable as error:
        answer |= {"unreadable": str(error), "code": error.code}
    except MemoryError:
        why = "needs more memory than a document may use; hand over a smaller part of it."
        answer |= {"unreadable": why, "code": "document_too_large"}
    except RecursionError:
        why = "is nested too deeply to be read; hand over a simpler version of it."
        answer |= {"unreadable": why, "code": "document_unsafe"}
    return answer


def _keep_stdout_for_the_answer() -> BinaryIO:
    """A library that prints must not garble the answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
