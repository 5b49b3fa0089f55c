"""The rendering of pages: templates, the form of values, and texts from outside with their invisible characters."""

import re
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi import Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.staticfiles import StaticFiles

from poweron_events.actor import Actor
from poweron_events.event import NANO, PREFIX
from poweron_events.request import MAX_PROMPT, MAX_REASON
from poweron_projections import reader
from poweron_services.door.door_state import DoorState, state_of
from poweron_services.door.form_parser import DOCUMENT_LIMITS, MAX_ALL_DOCUMENTS, MAX_DOCUMENT, MAX_FILES
from poweron_services.door.json_responses import dumped
from poweron_services.door.page_forms import LABELS, typed_in
from poweron_services.door.problems import POWERON, Problem, explained, retry_header, with_typed_commands
from poweron_services.door.session_cookies import COOKIE, form_token
from poweron_services.text.count_words import counted
from poweron_services.text.invisible_characters import INVISIBLE

HERE: Final = Path(__file__).parent
STATIC: Final = StaticFiles(directory=HERE / "static")
RELOADED_AFTER: Final = "2"  # seconds until a page of a door that is starting loads itself again
DOORS: Final = {"http": "over HTTP", "cli": "by command", "mcp": "over MCP", "kafka": "through Kafka"}
"""How an actor came in, in words."""
HEADINGS: Final = {"unavailable": "This page is unavailable right now"}
"""Headings of problems whose meaning is about the work of a workflow, not about a page."""
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BOLD: Final = re.compile(r"(?<!\w)\*\*(?=\S)|(?<=\S)\*\*(?!\w)")
_HEADING: Final = re.compile(r"(?:^|(?<= - ))#{1,6} +", re.MULTILINE)
_NAME_OF_COMMAND: Final = re.compile(r"^poweron(?= )")
_LABEL: Final = re.compile(r"round([0-9]+)_(?:request|task([0-9]+)_action([0-9]+)_([A-Za-z]+))")
_VERSION_OF_TYPE: Final = re.compile(r"\.v[0-9]+$")
VERSION: Final = version("poweron-services")


def visible(text: str, limit: int = 0) -> str:
    """Return a text from outside with the numbers of its invisible characters, cut to `limit` characters."""
    if limit and len(text) > limit:
        text = text[: limit - 1] + "…"
    return INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text.replace("\r\n", "\n"))


def money(nano_usd: int) -> str:
    """Return an amount in dollars, exact enough to see that a small one is not zero."""
    if not nano_usd:
        return "$0"
    dollars = nano_usd / NANO
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars >= 0.0001 else "< $0.0001"


def tokens(count: int) -> str:
    """Return a number of tokens."""
    return f"{count:,}"


def duration(ms: int | None) -> str:
    """Return a time span in its two largest units."""
    if ms is None:
        return "-"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next(index for index, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)


def day(date: str) -> str:
    """Return a date such as 2026-11-29 as a chart names it, such as “29 Nov”."""
    return f"{int(date[8:10])} {MONTHS[int(date[5:7]) - 1]}"


def size(count: int) -> str:
    """Return a number of bytes."""
    for unit, factor in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def words_of_type(type_: str) -> str:
    """Return the type of an event in words, such as “Action selected”."""
    name = _VERSION_OF_TYPE.sub("", type_.removeprefix(PREFIX))
    return visible(name.replace(".", " ").replace("_", " ").capitalize(), 80)


def plain(text: str) -> str:
    """Return a text without the marks that Markdown sets around bold words and before headings."""
    return _BOLD.sub("", _HEADING.sub("", text))


def origin(label: str) -> str:
    """Return in words where the documents of a label come from."""
    match = _LABEL.fullmatch(label)
    if match is None:
        return label
    round_, task, action, name = match.groups()
    return f"round {round_}, task {task}, action {action}: {name}" if task else f"given in round {round_}"


def prose(text: str) -> Markup:
    """Return a text of ours with what it sets in backticks as code, and commands as they are typed."""
    parts = [
        Markup("<code>%s</code>") % part if odd % 2 else escape(part)
        for odd, part in enumerate(with_typed_commands(text).split("`"))
    ]
    return Markup("").join(parts)


def json_text(value: Any) -> str:
    """Return a value as indented JSON."""
    return orjson.dumps(dumped(value), option=orjson.OPT_INDENT_2).decode()


TEMPLATES: Final = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    auto_reload=False,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "visible": visible,
    "money": money,
    "tokens": tokens,
    "duration": duration,
    "size": size,
    "day": day,
    "json": json_text,
    "prose": prose,
    "plain": plain,
    "origin": origin,
    "counted": counted,
    "utc": reader.time,
    "words": words_of_type,
}
TEMPLATES.globals |= {
    "version": VERSION,
    "poweron": POWERON,
    "doors": DOORS,
    "explained": explained,
    "max_prompt": MAX_PROMPT,
    "max_reason": MAX_REASON,
    "upload": {"most": MAX_FILES, "largest": MAX_DOCUMENT, "together": MAX_ALL_DOCUMENTS, "words": DOCUMENT_LIMITS},
}


def rendered(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Render a page."""
    html = TEMPLATES.get_template(template).render(
        nonce=request.state.nonce,
        path=request.url.path,
        form_token=form_token(request),
        has_session=COOKIE in request.cookies,
        acting=_actor_of_key(request),
        status=status,
        **values,
    )
    return Response(html, status, {"Cache-Control": "no-store"}, media_type="text/html")


def _actor_of_key(request: Request) -> Actor | None:
    """Return for whom the key of the request acts; None without a key, or on a page that needs none."""
    caller = getattr(request.state, "caller", None)
    return None if caller is None or caller.key is None else caller.actor


def problem_page(request: Request, problem: Problem) -> Response:
    """Render what went wrong, what to do about it, and what was typed into a form that was refused."""
    is_form, door = request.method != "GET", state_of(request)
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE and not door.is_started and not is_form:
        return _starting_page(request, problem, door)
    meaning = explained(problem.code)
    response = rendered(
        request,
        "problem.html",
        status=int(problem.status),
        problem=problem,
        meaning=meaning,
        heading=HEADINGS.get(problem.code) or (meaning.meaning.rstrip(".") if meaning else "Something went wrong"),
        is_form=is_form,
        here=_address(request),
        back=page_of_form(request.url.path) if is_form else "",
        typed=[(LABELS[name], text) for name, text in typed_in(request).items()],
    )
    response.headers.update(retry_header(problem))
    return response


def _starting_page(request: Request, problem: Problem, door: DoorState) -> Response:
    """Say that the door is starting, and what is still missing; the browser loads the page again by itself."""
    response = rendered(
        request,
        "starting.html",
        status=int(problem.status),
        parts=door.parts,
        progress=door.progress or str(problem),
        here=_address(request),
    )
    response.headers.update({**retry_header(problem), "Refresh": RELOADED_AFTER})
    return response


def _address(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def page_of_form(path: str) -> str:
    """Return the page that has the form which is sent to this path."""
    if path.startswith("/approvals/"):
        return "/approvals"
    if path.startswith("/operations/") or path == "/login":
        return path
    page = path.rpartition("/")[0]
    return page if page.startswith("/w/") else "/"
