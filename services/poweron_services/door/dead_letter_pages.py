"""The pages of dead letters: the bytes of a record that cannot be read, and a form that sends a corrected one."""

import json
from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from poweron_events.dead_letter import MAX_RAW
from poweron_projections import reader
from poweron_projections.entries import DeadLetterEntry
from poweron_services.client.redrive import REQUESTS, expect_request, read_dead_letter
from poweron_services.door.access import Auditor, CheckedForm, Operator, Reader
from poweron_services.door.dead_letter_commands import send_again
from poweron_services.door.door_state import Opened
from poweron_services.door.page_forms import REFUSALS
from poweron_services.door.page_rendering import rendered, visible
from poweron_services.door.problems import problem_of
from poweron_services.door.query_parameters import DEAD_LETTER_CURSOR, dead_letter_cursor, dead_letter_place
from poweron_services.door.query_route import QueryRoute
from poweron_services.text.invisible_characters import INVISIBLE

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

PAGE: Final = 50
SHOWN: Final = 8_192  # bytes in hexadecimal
LINE: Final = 16  # bytes
Topic = Annotated[str, Path(max_length=255)]
Number = Annotated[int, Path(ge=0, le=2**63 - 1)]


@router.get("/operations/deadletters")
async def dead_letters_page(
    *,
    request: Request,
    connections: Opened,
    _: Reader,
    before: Annotated[str | None, Query(pattern=DEAD_LETTER_CURSOR)] = None,
) -> Response:
    """List dead letters, newest first."""
    letters = await reader.dead_letters(connections.pool, limit=PAGE + 1, before=dead_letter_place(before))
    next_ = None
    if letters[PAGE:]:
        next_ = f"/operations/deadletters?{urlencode({'before': dead_letter_cursor(letters[PAGE - 1])})}"
    first = None if before is None else "/operations/deadletters"
    return rendered(request, "dead_letters.html", letters=letters[:PAGE], next=next_, first=first)


@router.get("/operations/deadletters/{topic}/{partition}/{offset}")
async def dead_letter_page(
    *, request: Request, topic: Topic, partition: Number, offset: Number, connections: Opened, caller: Auditor
) -> Response:
    """Show a dead letter: its reason, its bytes, and a form to send it again."""
    letter = await read_dead_letter(connections, topic, partition, offset)
    return _page(request, letter, may_redrive="operate" in caller.scopes)


def _page(
    request: Request,
    letter: DeadLetterEntry,
    *,
    may_redrive: bool,
    error: str = "",
    edited: str | None = None,
    status: int = 200,
) -> Response:
    raw = letter.raw or b""
    return rendered(
        request,
        "dead_letter.html",
        status=status,
        letter=letter,
        text=raw.decode(errors="replace"),
        is_text=_is_text(raw),
        lines=_hexadecimal(raw[:SHOWN]),
        shown=min(len(raw), SHOWN),
        kept=len(raw),
        is_cut=letter.size > MAX_RAW,
        is_request=letter.topic == REQUESTS,
        may_redrive=may_redrive,
        edited=_editable(raw) if edited is None else edited,
        error=error,
        place=f"{quote(letter.topic, safe='')}/{letter.partition}/{letter.offset}",
    )


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _editable(raw: bytes) -> str:
    """Return the text to edit: JSON with a field on each line and invisible characters escaped; empty for no text."""
    if not _is_text(raw):
        return ""
    try:
        text = orjson.dumps(orjson.loads(raw), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return visible(raw.decode())
    return INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _hexadecimal(raw: bytes) -> Sequence[tuple[str, str, str]]:
    """Return lines of an offset, the bytes in hexadecimal, and the printable ones as characters."""
    lines = []
    for start in range(0, len(raw), LINE):
        part = raw[start : start + LINE]
        printable = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        lines.append((f"{start:06x}", part.hex(" "), printable))
    return lines


@router.post("/operations/deadletters/{topic}/{partition}/{offset}")
async def redrive_form(
    *,
    request: Request,
    topic: Topic,
    partition: Number,
    offset: Number,
    caller: Operator,
    _: Auditor,
    form: CheckedForm,
    connections: Opened,
) -> Response:
    """Send a dead letter again, as it was or corrected, and lead to the workflow that it is about.

    Needs the scopes of its page, since a refusal shows the bytes again.
    """
    letter = await read_dead_letter(connections, topic, partition, offset)
    is_edited = form.get("how") == "edited"
    given = form.get("edited", "")
    text = given if is_edited and isinstance(given, str) else ""
    expect_request(topic)
    try:
        redriven = await send_again(connections, caller, letter, text.encode(errors="replace") if is_edited else None)
    except REFUSALS as error:
        problem, edited = problem_of(error), text if is_edited else None
        return _page(request, letter, may_redrive=True, error=str(problem), edited=edited, status=int(problem.status))
    facts = {"workflow": redriven.workflow_id, "source": redriven.identity.source, "id": redriven.identity.id}
    return RedirectResponse(f"/operations/redriven?{urlencode(facts)}", 303)


@router.get("/operations/redriven")
async def redriven_page(
    *,
    request: Request,
    connections: Opened,
    _: Reader,
    workflow: Annotated[str, Query(max_length=36)],
    source: Annotated[str, Query(max_length=255)],
    id_: Annotated[str, Query(alias="id", max_length=255)],
) -> Response:
    """Say what was sent again, and where its answer appears."""
    known = await reader.workflow(connections.pool, workflow) if len(workflow) == 36 else None
    return rendered(request, "redriven.html", workflow_id=workflow, workflow=known, source=source, id=id_)
