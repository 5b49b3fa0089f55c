"""Documents that are longer than what a model takes, with facts planted in them, and a model that only reads."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from builders import CALL
from poweron_services.actions.action import Done, InputDocument, Order
from poweron_services.actions.ai_process import AiProcess
from poweron_services.actions.document_extract import DocumentExtract
from poweron_services.connectors.document_reader import ExtractedDocument, LoadBytes, OnPage, Section
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.call import Called
from poweron_services.models.chat_model import ChatModel, Completion, TooLong
from poweron_services.models.prompts import NOTHING, ProcessPrompt, Prompt

THINGS: Final = (
    *("delivery", "warranty", "locker", "museum", "invoice", "parcel", "bridge", "tenant", "engine", "vineyard"),
    *("lighthouse", "orchard", "printer", "glacier", "harbour", "archive", "tunnel", "greenhouse", "ferry", "quarry"),
)
"""What a code is planted for; other sentences speak of all of them without a code."""
_SUBJECTS: Final = ("The committee", "Our office", "The supplier", "A visitor", "The manager", "Nobody", "The board")
_VERBS: Final = ("discussed", "mentioned", "inspected", "described", "reviewed", "praised", "forgot", "postponed")
_REST: Final = (
    "in the autumn meeting, as the minutes of the year before had already suggested",
    "without naming any number, since the code of practice does not ask for one",
    "before the new contract was signed by both parties in the town hall",
    "and the delivery of the remaining papers was put off until spring",
    "while the costs of the project were still being worked out by the accountants",
    "although the report on it had not been read by everybody in the room",
)
_CODE: Final = re.compile(r"The (?P<thing>\w+) code is (?P<code>[A-Z]{2}-\d{4})")


def code(thing: str) -> str:
    number = THINGS.index(thing)
    return f"{chr(65 + number)}{chr(90 - number)}-{4_000 + 37 * number}"


def fact(thing: str) -> str:
    return f"The {thing} code is {code(thing)}."


def question(thing: str) -> str:
    return f"Which {thing} code is named?"


def filler(chance: random.Random, sentences: int) -> str:
    """Prose about the same things, which tells no code."""
    return " ".join(
        f"{chance.choice(_SUBJECTS)} {chance.choice(_VERBS)} the {chance.choice(THINGS)} {chance.choice(_REST)}."
        for _ in range(sentences)
    )


def long_document(name: str, pages: int, facts: Mapping[int, str], *, sentences: int = 20) -> ExtractedDocument:
    """A PDF of so many pages as it was read, with sentences planted on some of them."""
    chance = random.Random(f"{name} {pages}")
    sections = []
    for page in range(1, pages + 1):
        first, second = filler(chance, sentences // 2), filler(chance, sentences // 2)
        said = [first, *([facts[page]] if page in facts else []), second]
        sections.append(Section(f"page {page}", "\n\n".join(said)))
    return ExtractedDocument(name, "application/pdf", tuple(sections), truncated=False, notes=())


@dataclass
class Shelf:
    """Documents that were read already, each under its name."""

    documents: dict[str, ExtractedDocument] = field(default_factory=dict)
    reading: int = 0
    most_at_once: int = 0

    async def __call__(
        self, load: LoadBytes, size: int, name: str, *, on_page: OnPage | None = None
    ) -> ExtractedDocument:
        found = self.documents[name]
        if on_page is not None:
            on_page(len(found.sections), len(found.sections))
        return found

    def given(self) -> list[InputDocument]:
        return [given(name) for name in self.documents]


def given(name: str) -> InputDocument:
    async def load() -> bytes:
        return b"bytes"

    return InputDocument(f"docItem:d1:{name}", name, "application/pdf", 5, "0" * 64, load)


def short() -> Shelf:
    """Sixty pages with two codes."""
    return Shelf({"long.pdf": long_document("long.pdf", 60, {17: fact("museum"), 55: fact("ferry")})})


@dataclass
class Reader:
    """A model that answers with the codes it is shown, each with its place, and takes so many characters."""

    takes: int = 10**9
    asked: list[ProcessPrompt] = field(default_factory=list)
    says: Sequence[str] = ()
    """What it says instead, one for each call; then it reads."""

    async def complete(self, prompt: Prompt) -> Completion:
        assert isinstance(prompt, ProcessPrompt)
        shown = str(prompt.render())
        if len(shown) > self.takes:
            raise TooLong(f"The prompt has {len(shown)} characters.")
        self.asked.append(prompt)
        text = self.says[len(self.asked) - 1] if len(self.asked) <= len(self.says) else self.said(prompt, shown)
        return Completion(text, "tests", "reader", len(shown) // 4, len(text) // 4)

    def said(self, prompt: ProcessPrompt, shown: str) -> str:
        if prompt.extent == "answers":
            return "\n\n".join(document.text for document in prompt.documents) or "The documents do not say it."
        found, place = [], ""
        wanted = [thing for thing in THINGS if thing in prompt.ai_prompt] or list(THINGS)
        for line in shown.splitlines():
            place = line.removeprefix("## ") if line.startswith("## ") else place
            found += [f"{one[0]} ({place})" for one in _CODE.finditer(line) if one["thing"] in wanted]
        return "\n".join(found) or (NOTHING if prompt.extent == "part" else "The passages do not say it.")


@dataclass
class Asked:
    """What an action made of documents, what it asked for, and how far it said it was."""

    done: Done
    progress: list[tuple[str, int, int | None]]

    @property
    def text(self) -> str:
        return self.done.result.documents[0].document_data.decode()


async def process(
    shelf: Shelf,
    model: ChatModel,
    prompt: str,
    *,
    window: int = 1_000_000,
    action: type[AiProcess | DocumentExtract] = AiProcess,
    **parameters: Any,
) -> Asked:
    """Run `ai.process`, or another action that answers, over all documents of the shelf."""
    progress: list[tuple[str, int, int | None]] = []

    async def ask(asked: Prompt) -> Called:
        answer = await model.complete(asked)
        return Called(answer.text, CALL)

    order = Order(
        parameters={"aiPrompt": prompt, **parameters},
        documents=shelf.given(),
        language="en",
        idempotency_key="key",
        ask=ask,
        tell_progress=lambda unit, done, total=None: progress.append((unit, done, total)),
    )
    return Asked(await action(shelf, window)(order), progress)


def built_in() -> ChatModel:
    return BuiltinModel()
