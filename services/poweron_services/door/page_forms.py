"""The forms of pages: their fields and files, and what was typed, which a refusal shows again beside its reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile

from poweron_events.errors import Conflict, Refused
from poweron_services.door.form_parser import MAX_TEXT
from poweron_services.door.problems import Problem, problem_of

LABELS: Final = {
    "prompt": "Question",
    "reason": "Reason",
    "set": "New values",
    "tokens": "More tokens",
    "cost": "More money, in US dollars",
    "edited": "Request",
    "models": "Models",
    "model": "Another model",
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


def refusal_of(request: Request, error: Exception) -> FormRefusal:
    """Return the refusal of the form of this request."""
    form = _form_of(request)
    return FormRefusal(problem_of(error), typed_in(request), has_files=bool(files_of(form)))


def typed_in(request: Request) -> Mapping[str, str]:
    """Return what was typed into the form of this request, by the name of the field; nothing if it was not read."""
    form = _form_of(request)
    return {name: text for name in LABELS if (text := field_of(form, name))}


def files_of(form: FormData) -> list[UploadFile]:
    """Return the files of a form; an empty choice of files is none.

    Browsers write a quotation mark in a file name as `%22` (https://html.spec.whatwg.org/#multipart-form-data).
    """
    files = [part for _, part in form.multi_items() if isinstance(part, UploadFile) and part.filename]
    for file in files:
        file.filename = (file.filename or "").replace("%22", '"')
    return files


def field_of(form: FormData, name: str, *, limit: int = MAX_TEXT) -> str:
    """Return the text of a field with the line ends of Unix; empty if it is missing."""
    value = form.get(name, "")
    return value.replace("\r\n", "\n").strip()[:limit] if isinstance(value, str) else ""


def limited_field(form: FormData, name: str, most: int) -> str:
    """Return the text of a field as `field_of` does.

    Raises:
        Problem: it has more than `most` characters.
    """
    text = field_of(form, name)
    if len(text) > most:
        sentence = f"The {LABELS[name].lower()} has {len(text):,} characters; {most:,} are allowed."
        raise Problem("invalid_request", sentence, status=422)
    return text


def _form_of(request: Request) -> FormData:
    form: FormData = getattr(request.state, "form", FormData())
    return form
