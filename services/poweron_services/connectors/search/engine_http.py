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
_UNREACHED: Final[Mapping[Code, Code]] = {"page_timeout": "search_timeout"}
_MEANING: Final[Mapping[Code, str]] = {
    "search_busy": "{} is asked too often.",
    "search_quota": "The account at {} has used up what it may search.",
    "search_timeout": "{} did not answer in time.",
    "search_unauthorized": "{} does not let us in.",
    "search_failed": "{} could not search.",
}
_DATE: Final = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")

_Read = TypeVar("_Read", bound=BaseModel)


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

    async def get(self, path: str, asked: Mapping[str, str | int]) -> dict[str, Any]:
        """Send a GET request with the parameters in the URL.

        Raises:
            EngineFailed: there is no usable answer.
        """
        url = f"{self.place.rstrip('/')}{path}?{urlencode(asked)}"
        try:
            answer = await self.client.get(url, headers={"accept": "application/json", **self.headers})
        except Refused as error:
            raise self._unreached(error) from None
        return self._answered(answer)

    async def post(self, path: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Send a POST request with JSON; raises as `get` does."""
        headers = {"accept": "application/json", "content-type": "application/json", **self.headers}
        try:
            url = f"{self.place.rstrip('/')}{path}"
            answer = await self.client.post(url, content=orjson.dumps(asked), headers=headers)
        except Refused as error:
            raise self._unreached(error) from None
        return self._answered(answer)

    def fail(self, code: Code, detail: str) -> NoReturn:
        """Raise `EngineFailed`; `detail` is for the log."""
        raise EngineFailed(_MEANING[code].format(self.name), code=code, detail=self._scrubbed(detail))

    def _unreached(self, error: Refused) -> EngineFailed:
        code = _UNREACHED.get(error.code, "search_failed")
        detail = self._scrubbed(f"{error} {error.detail}")
        return EngineFailed(_MEANING[code].format(self.name), code=code, detail=detail)

    def _answered(self, answer: WebResponse) -> dict[str, Any]:
        said = None if answer.truncated else _json(self._without_key(answer.body))
        if answer.status != 200:
            self.fail(self._meaning(answer.status, said), f"{answer.status}: {_told(said)}")
        if not isinstance(said, dict):
            self.fail("search_failed", "What it answered is no JSON, or longer than what is read.")
        return said

    def _meaning(self, status: int, said: object) -> Code:
        error = said.get("error") if isinstance(said, dict) else None
        named = error.get("code") if isinstance(error, dict) else None
        return self.codes.get(str(named)) or _STATUSES.get(status, "search_failed")

    def _without_key(self, body: bytes) -> bytes:
        """Replace our key in an engine's answer, which may repeat it; otherwise it could appear in the results."""
        key = self.key.get_secret_value().encode() if self.key else b""
        return body.replace(key, HIDDEN.encode()) if len(key) >= SHORTEST_KEY else body

    def _scrubbed(self, text: str) -> str:
        hidden = self._without_key(text.encode(errors="replace")).decode(errors="replace")
        return " ".join(redacted(hidden).split())[:MAX_SAID]


def readable(kind: type[_Read], told: object) -> list[_Read]:
    """Parse a list of results as `kind`; skip items that do not validate."""
    found = []
    for one in told if isinstance(told, list) else []:
        try:
            found.append(kind.model_validate(one))
        except ValidationError:
            continue
    return found


def inside(said: object, *names: str) -> object:
    """Return the value under these nested names, or None if there is none."""
    for name in names:
        said = said.get(name) if isinstance(said, dict) else None
    return said


def day(told: str | None) -> str | None:
    """Parse a date in the formats that engines use and return its day, or None if it is not a date."""
    if not told:
        return None
    if found := _DATE.match(told):
        return found[0]
    try:
        return parsedate_to_datetime(told).date().isoformat()
    except (ValueError, OverflowError):
        return None


def within_domains(question: str, domains: Sequence[str], *, longest: int) -> str:
    """Add operators that limit the question to domains, unless it gets too long: hits are filtered later anyway."""
    limited = f"{question} {' OR '.join(f'site:{domain}' for domain in domains)}"
    return limited if domains and len(limited) <= longest else question


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _told(said: object) -> str:
    """Extract an engine's error message from the objects that wrap it."""
    for _ in range(4):
        if isinstance(said, dict):
            said = next((said[name] for name in ("error", "detail", "message", "code") if name in said), "")
    return said if isinstance(said, str) else ""
