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

    def __init__(self, content: bytes) -> None:
        self.text = content.decode("utf-8", errors="replace")
        self._texts = tuple(_texts(self.text))

    @property
    def fence(self) -> str | None:
        """The delimiter of the prompt; None if it has none."""
        return next((match[1] for text in self._texts if (match := _FENCE.search(text))), None)

    @property
    def actions(self) -> dict[str, tuple[str, ...]] | None:
        """The actions that the prompt lists, with the names of their parameters; None if it lists none."""
        bare = "\n".join(_outside(text) for text in self._texts)
        listing = {name: tuple(filter(None, names.split(","))) for name, names in _ACTION.findall(bare)}
        return listing or None

    def holds(self, rendered: Rendered) -> bool:
        """Return whether this rendering is what was sent."""
        if self._texts == (self.text,):
            return self.text == str(rendered)
        data, instructions = rendered.data, rendered.instructions.strip()  # as some provider clients send them
        return data in self._texts and any(instructions in text for text in self._texts)

    def parting(self, rendered: Rendered) -> str:
        """Return a sentence that shows where a rendering first differs from what was sent."""
        text = str(rendered) if self._texts == (self.text,) else rendered.data
        prompt_text = next((text for text in self._texts if _FENCE.search(text)), self.text)
        at = next(
            (n for n, (a, b) in enumerate(zip(prompt_text, text, strict=False)) if a != b),
            min(len(prompt_text), len(text)),
        )
        begin = max(0, at - 20)
        then, now = prompt_text[begin : at + PARTED], text[begin : at + PARTED]
        return f"At character {at + 1:,} it was {then!r} and is {now!r}."


def _texts(text: str) -> Iterator[str]:
    """Yield every text of a request's body; anything else is one text."""
    try:
        body = orjson.loads(text) if text.startswith("{") else None
    except orjson.JSONDecodeError:
        body = None
    if body is None:
        yield text
    else:
        yield from _inside(body)


def _inside(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(inner)


def _outside(text: str) -> str:
    """Return the text of a prompt outside its delimiters."""
    match = _FENCE.search(text)
    return text if match is None else re.sub(rf"<<< {match[1]}\n.*?\n>>> {match[1]}", "", text, flags=re.DOTALL)


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
        return _compare(
            prompt,
            template,
            stored,
            fence,
            partial(earlier.shown, release=release_of(call.template_sha256)) if by_earlier else _values,
        )
    except jinja2.UndefinedError as error:
        return CheckedPrompt(
            "inconclusive", f"{template.name} of an earlier release shows what is not known now: {error}."
        )


def _values(prompt: Prompt) -> dict[str, Any]:
    return prompt.shown()


def _compare(
    prompt: Prompt, template: Template, stored: StoredPrompt, fence: str, shown: Callable[[Prompt], dict[str, Any]]
) -> CheckedPrompt:
    candidate: Prompt | None = prompt
    rendered = first = template.render(shown(prompt) | {"share": prompt.share}, fence)
    while candidate is not None:  # a model with a small context window was shown less
        rendered = template.render(shown(candidate) | {"share": candidate.share}, fence)
        if stored.holds(rendered):
            newer = template.sha256 != prompt.template.sha256
            note = f"Rendered with {template.name}, where {prompt.template.name} is used now." if newer else ""
            return CheckedPrompt("same", note)
        candidate = candidate.shorter()
    return CheckedPrompt("differs", f"{template.name}: {stored.parting(first)}")
