"""The forms of pages: their fields and files, and what was typed, which a refusal shows again beside its reason."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile

from poweron_events.errors import Conflict, Refused
from poweron_services.door.access import MAX_FIELD, MAX_FIELDS, MAX_FILES, Known
from poweron_services.door.problems import Problem, problem_of

LABELS: Final = {
    "prompt": "Question",
    "reason": "Reason",
    "set": "New values",
    "tokens": "More tokens",
    "cost": "More money, in US dollars",
    "edited": "Request",
    "models": "Models",
    "times": "Answers of each",
}
"""The fields into which people type, by name."""
REFUSALS: Final = (Problem, Refused, Conflict, ValidationError)
"""The errors after which a page shows the form again; others get a page of their own."""


@dataclass(frozen=True, slots=True)
class FormRefusal:
    """Why a form was refused, and what was typed into it."""

    problem: Problem
    typed: Mapping[str, str] = field(default_factory=dict)
    """By the name of the field."""
    has_files: bool = False
    """Whether files were chosen; a browser does not choose them again."""

    @property
    def status(self) -> int:
        return int(self.problem.status)


async def _read_form(request: Request, _: Known) -> AsyncGenerator[FormData, None]:
    async with request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD) as form:
        request.state.typed = {name: text for name in LABELS if (text := field_of(form, name))}
        request.state.has_files = bool(files_of(form))
        yield form


TypedForm = Annotated[FormData, Depends(_read_form)]
"""A form whose texts are kept for a page that refuses it. A handler names it before `CheckedForm`, and what may fail
after both."""


def refusal_of(request: Request, error: Exception) -> FormRefusal:
    """Return the refusal of the form of this request."""
    return FormRefusal(problem_of(error), typed_in(request), getattr(request.state, "has_files", False))


def typed_in(request: Request) -> Mapping[str, str]:
    """Return what was typed into the form of this request, by the name of the field."""
    typed: Mapping[str, str] = getattr(request.state, "typed", {})
    return typed


async def form_of(request: Request) -> tuple[FormData, list[UploadFile]]:
    """Return the fields of a checked form and its files."""
    form = await request.form()
    return form, files_of(form)


def files_of(form: FormData) -> list[UploadFile]:
    """Return the files of a form; an empty choice of files is none."""
    return [part for _, part in form.multi_items() if isinstance(part, UploadFile) and part.filename]


def field_of(form: FormData, name: str, *, limit: int = MAX_FIELD) -> str:
    """Return the text of a field with the line ends of Unix; empty if it is missing."""
    value = form.get(name, "")
    return value.replace("\r\n", "\n").strip()[:limit] if isinstance(value, str) else ""
