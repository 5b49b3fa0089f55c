"""How sure the built-in model has to be: asks it the questions of `tests/answers`, and writes `docs/answers.md`.

    uv run docs/answers.py

For every threshold it says how many questions are answered right, and how many of those that the documents do not
answer are answered all the same.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from poweron_services.models.builtin import meaning
from poweron_services.models.builtin.passage_search import PassageSearch
from poweron_services.models.builtin.passages import library
from poweron_services.models.builtin.vocabulary import language_of
from poweron_services.models.embedding.packaged import packaged_embedder
from poweron_services.models.prompts import SourceText

HOUSE = Path(__file__).resolve().parent.parent
FOLDER = HOUSE / "tests" / "answers"
PAGE = HOUSE / "docs" / "answers.md"
STEPS = [step / 4 for step in range(-8, 9)]


@dataclass(frozen=True)
class Answered:
    """How a question was answered, and how sure that is."""

    document: str
    prompt: str
    contains: str | None
    paraphrased: bool
    said: str
    closest: tuple[str, ...]

    @property
    def kind(self) -> str:
        if self.contains is None:
            return "invented" if self.said else "refused"
        if self.said:
            return "right" if self.contains in self.said else "wrong"
        return "closest" if any(self.contains in one for one in self.closest) else "not found"


def answered(sure: float = meaning.SURE) -> list[Answered]:
    """The answers of the table, where an answer has to be that sure."""
    found, meaning.SURE = [], sure  # type: ignore[misc] # the only place that tries others
    for line in (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        language = language_of(asked["prompt"])
        text = (FOLDER / asked["document"]).read_text(encoding="utf-8")
        held = library((SourceText(asked["document"], asked["document"], text),), language)
        findings = PassageSearch(held, language, packaged_embedder()).findings(asked["prompt"])
        found.append(
            Answered(
                asked["document"],
                asked["prompt"],
                asked.get("contains"),
                asked["paraphrased"],
                "; ".join(statement.text for one in findings for statement in one.statements),
                tuple(statement.text for one in findings for statement in one.closest),
            )
        )
    return found
