"""The pages that begin and end a session: a key is entered once, and a cookie stands for it."""

import re
from typing import Final
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from poweron_services.door.access import CheckedForm, is_of_this_machine, usable_key
from poweron_services.door.http_guard import LOOPBACK_NAMES, host_name
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import Problem, explained, retry_header
from poweron_services.door.session_cookies import begin_session, check_token, end_session

router = APIRouter()

UNENCRYPTED: Final = (
    "Browsers keep a session only over HTTPS, and this page came over HTTP, where others can read a key on its way."
)
_OWN_PATH: Final = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]{0,2000}")
MAX_FORM: Final = 10_000  # bytes


@router.get("/login")
async def login_page(request: Request) -> Response:
    """Show a form that takes a key."""
    return _page(request, request.query_params.get("next", "/"))


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session with the key of the form."""
    form = await _small_form(request)
    check_token(request, form.get("token", ""))
    key, following = form.get("key", "").strip(), form.get("next", "/")
    if not _is_secure(request):
        return _page(request, following, status=403)
    try:
        access_key = await usable_key(request, key)
    except Problem as problem:
        response = _page(request, following, error=_sentences(problem), status=int(problem.status))
        response.headers.update(retry_header(problem))
        return response
    response = RedirectResponse(_own(following), 303)
    begin_session(request, response, access_key)
    return response


@router.post("/logout")
async def log_out(_: CheckedForm) -> Response:
    """End the session."""
    response = RedirectResponse("/login", 303)
    end_session(response)
    return response


def login_redirect(request: Request) -> Response:
    """Send a person whose session has ended, or has not begun, to the form."""
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    target = path if request.method == "GET" else "/"
    return RedirectResponse(f"/login?next={quote(_own(target), safe='/')}", 303)


def _page(request: Request, following: str, *, error: str = "", status: int = 200) -> Response:
    return rendered(
        request,
        "login.html",
        status=status,
        following=_own(following),
        error=error,
        unencrypted="" if _is_secure(request) else UNENCRYPTED,
        is_local=is_of_this_machine(request),
    )


async def _small_form(request: Request) -> dict[str, str]:
    """Read a form of a sender who is not known yet, so no more than a few bytes of it."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise Problem("request_too_large", f"The form has more than {MAX_FORM:,} bytes.")
    try:
        fields = parse_qs(body.decode(), max_num_fields=10)
    except ValueError as error:
        raise Problem("request_unreadable", "The form cannot be read.") from error
    return {name: values[0] for name, values in fields.items()}


def _own(path: str) -> str:
    """Return the path if it leads to a page of this door, else that of the first page."""
    return path if _OWN_PATH.fullmatch(path) and not path.startswith(("/login", "/logout")) else "/"


def _is_secure(request: Request) -> bool:
    """Return whether the browser can keep a session: it came over TLS, possibly to a proxy, or to loopback.

    Browsers send `Sec-Fetch-Site` only there, so it shows TLS even if the proxy does not say so.
    """
    is_encrypted = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    return is_encrypted or "sec-fetch-site" in request.headers or host_name(request.scope) in LOOPBACK_NAMES


def _sentences(problem: Problem) -> str:
    meaning = explained(problem.code)
    return f"{problem} {meaning.remedy}" if meaning else str(problem)
