"""The process that reads one document: bytes on standard input, one JSON answer on standard output, then its end."""

import json
import os
import sys
from dataclasses import asdict
from typing import Any, BinaryIO

from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import Limits, confine
from poweron_services.connectors.documents_child.readers import read


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
    try:
        return {"document": asdict(read(sys.stdin.buffer.read(), name, limits))}
    except Unreadable as error:
        return {"unreadable": str(error), "code": error.code}
    except MemoryError:
        why = "needs more memory than a document may use; hand over a smaller part of it."
        return {"unreadable": why, "code": "document_too_large"}
    except RecursionError:
        why = "is nested too deeply to be read; hand over a simpler version of it."
        return {"unreadable": why, "code": "document_unsafe"}


def _keep_stdout_for_the_answer() -> BinaryIO:
    """A library that prints must not garble the answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
