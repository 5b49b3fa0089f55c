"""The pages that explain codes: what each means, and what to do."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response

from poweron_events.codes import CODES, Explained
from poweron_services.door.page_rendering import rendered
from poweron_services.door.problems import HTTP_CODES, Problem, explained, status_of_code

router = APIRouter()

ALL: Final = CODES | HTTP_CODES
Code = Annotated[str, Path(max_length=64)]


@router.get("/problems")
async def problems_page(request: Request, q: Annotated[str, Query(max_length=100)] = "") -> Response:
    """List all codes, or those that contain a word."""
    words = q.lower().split()
    matches = {code: entry for code, entry in sorted(ALL.items()) if _matches(code, entry, words)}
    groups = {
        "Requests over HTTP": {code: entry for code, entry in matches.items() if code in HTTP_CODES},
        "Workflows": {code: entry for code, entry in matches.items() if code not in HTTP_CODES},
    }
    return rendered(request, "problems.html", groups=groups, q=q, count=len(matches), total=len(ALL))


def _matches(code: str, entry: Explained, words: list[str]) -> bool:
    text = f"{code} {code.replace('_', ' ')} {entry.meaning} {entry.remedy}".lower()
    return all(word in text for word in words)


@router.get("/problems/{code}")
async def explained_page(request: Request, code: Code) -> Response:
    """Explain one code."""
    entry = explained(code)
    if entry is None:
        raise Problem("not_found", f"There is no code {code!r}. The page /problems lists all.", status=404)
    http_status, is_of_http = status_of_code(code), code in HTTP_CODES
    return rendered(
        request, "explained_problem.html", code=code, entry=entry, http_status=http_status, is_of_http=is_of_http
    )
