"""Checks whether a prompt would be the same now: renders it with the original delimiter and compares every byte."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import jinja2
import orjson

from poweron_events.event import ModelCall
from poweron_services.models.prompts import Prompt, Rendered, Template
from poweron_services.replay.earlier_release import EarlierPrompts
from poweron_services.replay.template_archive import release_of, released_template

Sameness = Literal["same", "differs", "inconclusive"]
_FENCE: Final = re.compile(r"^<<< ([0-9a-f]{16})$", re.MULTILINE)
_ACTION: Final = re.compile(r"^- ([a-z][\w-]*\.[A-Za-z][\w-]*)\(([^()\n]*)\)$", re.MULTILINE)
PARTED: Final = 60  # characters to show of a difference
ERASED: Final = "The prompt was erased."
NOT_KEPT: Final = "The prompt was never kept."


class CheckedPrompt(NamedTuple):
    """The result of comparing a prompt or a decision with the recorded one."""

    sameness: Sameness
    detail: str = ""


NO_PROMPT: Final = CheckedPrompt("same")
"""The result if no model was asked, then or now."""


class StoredPrompt:
    """A prompt as it was sent: the rendering itself, or the body of a request to a provider that contains it."""

    def __init__(self, sent: bytes) -> None:
        self.text = sent.decode("utf-8", errors="replace")
        self._texts = tuple(_texts(self.text))

    @property
    def fence(self) -> str | None:
        """The delimiter of the prompt; None if it has none."""
        return next((found[1] for text in self._texts if (found := _FENCE.search(text))), None)

    @property
    def actions(self) -> dict[str, tuple[str, ...]] | None:
        """The actions that the prompt lists, with the names of their parameters; None if it lists none."""
        bare = "\n".join(_outside(text) for text in self._texts)
        found = {name: tuple(filter(None, given.split(","))) for name, given in _ACTION.findall(bare)}
        return found or None

    def holds(self, rendered: Rendered) -> bool:
        """Return whether this rendering is what was sent."""
        if self._texts == (self.text,):
            return self.text == str(rendered)
        data, instructions = rendered.data, rendered.instructions.strip()  # as some provider clients send them
        return data in self._texts and any(instructions in text for text in self._texts)

    def parting(self, rendered: Rendered) -> str:
        """Return a sentence that shows where a rendering first differs from what was sent."""
        text = str(rendered) if self._texts == (self.text,) else rendered.data
        sent = next((each for each in self._texts if _FENCE.search(each)), self.text)
        at = next((n for n, (a, b) in enumerate(zip(sent, text, strict=False)) if a != b), min(len(sent), len(text)))
        begin = max(0, at - 20)
        then, now = sent[begin : at + PARTED], text[begin : at + PARTED]
        return f"At character {at + 1:,} it was {then!r} and is {now!r}."


def _texts(sent: str) -> Iterator[str]:
    """Yield every text of a request's body; anything else is one text."""
    try:
        body = orjson.loads(sent) if sent.startswith("{") else None
    except orjson.JSONDecodeError:
        body = None
    if body is None:
        yield sent
    else:
        yield from _inside(body)


def _inside(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(inner)


def _outside(text: str) -> str:
    """Return the text of a prompt outside its delimiters."""
    found = _FENCE.search(text)
    return text if found is None else re.sub(rf"<<< {found[1]}\n.*?\n>>> {found[1]}", "", text, flags=re.DOTALL)


def check_prompt(
    prompt: Prompt, call: ModelCall, stored: StoredPrompt, earlier: EarlierPrompts, *, by_earlier: bool
) -> CheckedPrompt:
    """Compare what a role would show now with what was shown then, possibly by an earlier release."""
    template = prompt.template
    if call.template_sha256 != template.sha256:
        released = released_template(call.template_sha256) if by_earlier else None
        if released is None:
            became = "has changed" if call.template == template.name else f"gave way to {template.name}"
            return CheckedPrompt("differs", f"The template {call.template} {became}.")
        template = released
    if (fence := stored.fence) is None:
        return CheckedPrompt("inconclusive", "The stored prompt has no delimiter that is known.")
    try:
        return _compared(
            prompt,
            template,
            stored,
            fence,
            partial(earlier.shown, release=release_of(call.template_sha256)) if by_earlier else _shown,
        )
    except jinja2.UndefinedError as error:
        return CheckedPrompt(
            "inconclusive", f"{template.name} of an earlier release shows what is not known now: {error}."
        )


def _shown(prompt: Prompt) -> dict[str, Any]:
    return prompt.shown()


def _compared(
    prompt: Prompt, template: Template, stored: StoredPrompt, fence: str, shown: Callable[[Prompt], dict[str, Any]]
) -> CheckedPrompt:
    tried: Prompt | None = prompt
    rendered = first = template.render(shown(prompt) | {"share": prompt.share}, fence)
    while tried is not None:  # a model with a small context window was shown less
        rendered = template.render(shown(tried) | {"share": tried.share}, fence)
        if stored.holds(rendered):
            newer = template.sha256 != prompt.template.sha256
            told = f"Rendered with {template.name}, where {prompt.template.name} is used now." if newer else ""
            return CheckedPrompt("same", told)
        tried = tried.shorter()
    return CheckedPrompt("differs", f"{template.name}: {stored.parting(first)}")
