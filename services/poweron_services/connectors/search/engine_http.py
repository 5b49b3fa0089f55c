"""The client for search engines with an API: it parses their answers and translates their failures into our codes.

An answer may repeat the key that we sent, so the key is redacted. An engine's error messages appear only in the log.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import urlencode

import orjson
from pydantic import BaseModel, SecretStr, ValidationError

from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.redaction import redacted
from poweron_services.connectors.web.web_client import WebClient, WebResponse

MAX_SAID = 300  # characters of an engine's error message
HIDDEN: Final = "[hidden]"
SHORTEST_KEY = 4  # characters

_STATUSES: Final[Mapping[int, Code]] = {
    401: "search_unauthorized",
    402: "search_quota",
    403: "search_unauthorized",
    408: "search_timeout",
    429: "search_busy",
    432: "search_quota",
    433: "search_quota",
    504: "search_timeout",
}
_FAILURE_CODES: Final[Mapping[Code, Code]] = {"page_timeout": "search_timeout"}
_MEANING: Final[Mapping[Code, str]] = {
    "search_busy": "{} is asked too often.",
    "search_quota": "The account at {} has used up what it may search.",
    "search_timeout": "{} did not answer in time.",
    "search_unauthorized": "{} does not let us in.",
    "search_failed": "{} could not search.",
}
_DATE: Final = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")

_Result = TypeVar("_Result", bound=BaseModel)


class EngineFailed(Refused):
    """The search failed; `code` says why."""

    code = "search_failed"


@dataclass(frozen=True, slots=True)
class EngineApi:
    """An engine's API: its name, address and credentials."""

    name: str
    """As users know it, such as `Tavily`."""
    place: str
    client: WebClient
    key: SecretStr | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """They include the key, if there is one."""
    codes: Mapping[str, Code] = field(default_factory=dict)
    """Our codes for the error codes in its answers; they override the meaning of the HTTP status."""

    async def get(self, path: str, parameters: Mapping[str, str | int]) -> dict[str, Any]:
        """Send a GET request with the parameters in the URL.

        Raises:
            EngineFailed: there is no usable answer.
        """
        url = f"{self.place.rstrip('/')}{path}?{urlencode(parameters)}"
        try:
            answer = await self.client.get(url, headers={"accept": "application/json", **self.headers})
        except Refused as error:
            raise self._connection_failure(error) from None
        return self._body(answer)

    async def post(self, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Send a POST request with JSON; raises as `get` does."""
        headers = {"accept": "application/json", "content-type": "application/json", **self.headers}
        try:
            url = f"{self.place.rstrip('/')}{path}"
            answer = await self.client.post(url, content=orjson.dumps(parameters), headers=headers)
        except Refused as error:
            raise self._connection_failure(error) from None
        return self._body(answer)

    def fail(self, code: Code, detail: str) -> NoReturn:
        """Raise `EngineFailed`; `detail` is for the log."""
        raise EngineFailed(_MEANING[code].format(self.name), code=code, detail=self._scrub(detail))

    def _connection_failure(self, error: Refused) -> EngineFailed:
        code = _FAILURE_CODES.get(error.code, "search_failed")
        detail = self._scrub(f"{error} {error.detail}")
        return EngineFailed(_MEANING[code].format(self.name), code=code, detail=detail)

    def _body(self, answer: WebResponse) -> dict[str, Any]:
        body = None if answer.truncated else _json(self._without_key(answer.body))
        if answer.status != 200:
            self.fail(self._meaning(answer.status, body), f"{answer.status}: {_error_text(body)}")
        if not isinstance(body, dict):
            self.fail("search_failed", "What it answered is no JSON, or longer than what is read.")
        return body

    def _meaning(self, status: int, body: object) -> Code:
        error = body.get("error") if isinstance(body, dict) else None
        error_code = error.get("code") if isinstance(error, dict) else None
        return self.codes.get(str(error_code)) or _STATUSES.get(status, "search_failed")

    def _without_key(self, body: bytes) -> bytes:
        """Replace our key in an engine's answer, which may repeat it; otherwise it could appear in the results."""
        key = self.key.get_secret_value().encode() if self.key else b""
        return body.replace(key, HIDDEN.encode()) if len(key) >= SHORTEST_KEY else body

    def _scrub(self, text: str) -> str:
        safe_text = self._without_key(text.encode(errors="replace")).decode(errors="replace")
        return " ".join(redacted(safe_text).split())[:MAX_SAID]


def readable(kind: type[_Result], items: object) -> list[_Result]:
    """Parse a list of results as `kind`; skip items that do not validate."""
    results = []
    for item in items if isinstance(items, list) else []:
        try:
            results.append(kind.model_validate(item))
        except ValidationError:
            continue
    return results


def inside(value: object, *names: str) -> object:
    """Return the value under these nested names, or None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def day(text: str | None) -> str | None:
    """Parse a date in the formats that engines use and return its day, or None if it is not a date."""
    if not text:
        return None
    if match := _DATE.match(text):
        return match[0]
    try:
        return parsedate_to_datetime(text).date().isoformat()
    except (ValueError, OverflowError):
        return None


def within_domains(question: str, domains: Sequence[str], *, longest: int) -> str:
    """Add operators that limit the question to domains, unless it gets too long: hits are filtered later anyway."""
    query = f"{question} {' OR '.join(f'site:{domain}' for domain in domains)}"
    return query if domains and len(query) <= longest else question


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _error_text(value: object) -> str:
    """Extract an engine's error message from the objects that wrap it."""
    for _ in range(4):
        if isinstance(value, dict):
            value = next((value[name] for name in ("error", "detail", "message", "code") if name in value), "")
    return value if isinstance(value, str) else ""
