"""Checks whether a prompt would be the same now: renders it with the original delimiter and compares every byte.

The templates of earlier releases are found by their hash, to render again what these releases showed to a model.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import jinja2
import orjson

from poweron_events.event import ModelCall
from poweron_services import actions, roles
from poweron_services.models.prompts import Prompt, Rendered, Template
from poweron_services.replay.earlier_release import EarlierPrompts

RELEASED: Final = {
    "0.1.0": (
        "message.v1.md",
        "parameterizer.v1.md",
        "planner.v1.md",
        "process.v1.md",
        "refiner.v1.md",
        "reviewer.v1.md",
        "selector.v1.md",
    ),
    "0.2.0": (
        "actions.v1.md",
        "message.v2.md",
        "parameterizer.v2.md",
        "planner.v2.md",
        "process.v2.md",
        "refiner.v2.md",
        "reviewer.v2.md",
        "selector.v2.md",
    ),
    "0.3.0": (
        "actions.v2.md",
        "message.v3.md",
        "parameterizer.v2.md",
        "planner.v3.md",
        "refiner.v4.md",
        "reviewer.v3.md",
        "selector.v3.md",
    ),
}
"""The templates of each earlier release that are no longer in use, by version; their files must not change."""


@cache
def released_template(sha256: str) -> Template | None:
    """Return the template of an earlier release with this hash, or None."""
    return _by_hash().get(sha256)


@cache
def _by_hash() -> dict[str, Template]:
    names = {name for of_release in RELEASED.values() for name in of_release}
    folders = [Path(path) for package in (roles, actions) for path in package.__path__]
    files = sorted(file for folder in folders for file in folder.glob("*.v*.md") if file.name in names)
    templates = (Template(file.name, file.read_text(encoding="utf-8")) for file in files)
    return {template.sha256: template for template in templates}


@cache
def release_of(sha256: str) -> str | None:
    """Return the last release that had the template with this hash; None if no earlier release had it."""
    template = _by_hash().get(sha256)
    return max((release for release, names in RELEASED.items() if template and template.name in names), default=None)


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
