"""What can go wrong with a provider, in our words: what it means for the prompt, and whether another try may help.

Whatever a provider says about an error may hold the key that it was shown, so it is scrubbed, and foreign
errors are never chained: their texts would reach the log.
"""

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import orjson
from pydantic import SecretStr
from pydantic_ai import exceptions as ai
from pydantic_ai.usage import RequestUsage

from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.redaction import redacted
from poweron_services.config import ProviderSettings
from poweron_services.models.chat_model import TooLong, UnreadableAnswer
from poweron_services.models.providers.http_client import Response, proxies
from poweron_services.models.providers.response_body import MAX_BODY, TooMuch, Unreadable, parsed, why_unreadable

Kind = TypeVar("Kind", bound=BaseException)

MAX_SAID = 300  # characters of what a provider says about an error
SHORT = 6  # characters; what is shorter is no secret
LONG = 12  # characters; a secret that is shorter may be an ordinary word
LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:sk|pk|key)-[\w*.-]{4,}|(?i:\bbearer)\s+\S+")
REFUSING: Final = frozenset(range(400, 500)) - {408, 409, 425, 429}  # statuses that another try does not change
HIDDEN: Final = "[hidden]"
FLAGGED: Final = frozenset({"invalid_prompt", "content_policy_violation", "content_filter"})
"""The codes by which providers refuse a prompt for what it says."""
NEXT_REFUSED: Final = "Other words, or another model, may help."
LONGEST_WAIT: Final = 366 * 24 * 3600.0  # seconds; who asks for more asks for nothing that anybody waits for
NEXT_BUSY: Final = "Wait {}, or have the limits of the account raised."
NEXT_TROUBLE: Final = "The provider's status page, or the log of a server of your own, may say more."
SAYS_TOO_LONG: Final = re.compile(
    r"(?:prompt|input|request|message)s? (?:is |are )?too (?:long|large)|context (?:length|size|window)"
    r"|too many (?:input )?tokens|too large for model|reduce the length|(?:input|prompt) length",
    re.IGNORECASE,
)

TOO_LONG: Final = b"context_length_exceeded"
"""The code of OpenAI, which gateways wrap in the errors of other providers, too."""
SAYS_LIMIT: Final = re.compile(r"max_(?:completion_|output_)?tokens", re.IGNORECASE)
"""The names of the setting for the longest answer, as providers call it where they refuse its value."""


@dataclass(frozen=True)
class Scrubber:
    """Takes secrets out of what others say."""

    secrets: tuple[str, ...]
    """The longest first."""

    @classmethod
    def of(cls, known: ProviderSettings) -> "Scrubber":
        """One that knows every key, and the names, passwords and queries within addresses and those of proxies."""
        values = [value.get_secret_value() for _, value in known if isinstance(value, SecretStr)]
        parts = {part for value in (*values, *proxies().values()) for part in _secrets_in(value)}
        found = {form for part in parts for form in (part, unquote(part), quote(part, safe="")) if len(form) >= SHORT}
        return cls(tuple(sorted(found, key=len, reverse=True)))

    def __call__(self, text: str) -> str:
        return redacted(LOOKS_LIKE_A_KEY.sub(HIDDEN, _hidden(text, self.secrets)))

    def known(self, text: str) -> str:
        """The text of an answer, which may well speak of keys: only what is long enough to be no word is taken out."""
        return _hidden(text, [secret for secret in self.secrets if len(secret) >= LONG])


def _hidden(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _secrets_in(value: str) -> Iterable[str]:
    """A key as it stands; of an address who asks there, also as a header says it, and each value of the query."""
    if "://" not in value:
        return [value]
    try:
        url = urlsplit(value)
    except ValueError:
        return [value]
    login = url.netloc.rpartition("@")[0]
    name, _, password = login.partition(":")
    header = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    values = [value for _, value in parse_qsl(url.query)]
    return [*filter(None, (name, password, login, url.query, *values)), *([header] if login else [])]


def failure(error: Exception, provider: str, name: str, scrub: Scrubber, response: Response) -> PowerOnError:
    """What an error of a request means, in our words: `Unavailable` where another try may help."""
    named = f"{provider}:{name}"
    if _cause(error, TooMuch):
        return Refused(
            f"The answer of {named} was longer than {MAX_BODY:,} bytes; it was not read.", code="model_misconfigured"
        )
    if response.redirected_to:
        return _redirected(response, named, scrub)
    if _is_too_long(error, response.body):
        return TooLong(f"The prompt, with the room for the answer, is longer than what {named} takes.")
    if isinstance(error, ai.ModelAPIError) and error.provider_error_code in FLAGGED:
        return Refused(f"{named} would not answer{_said(error, scrub)} {NEXT_REFUSED}", code="answer_refused")
    return _final(error, provider, name, scrub) or _passing(error, named, scrub, response)


def _redirected(response: Response, named: str, scrub: Scrubber) -> Refused:
    """A redirect is not followed: the key would go to another place."""
    to = scrub(response.redirected_to)[:MAX_SAID]
    return Refused(
        f"{named} answered with a redirect ({response.status}) to {to!r}, which is not followed, since the key "
        "would go there. Set the provider's address to the place that answers itself.",
        code="model_misconfigured",
    )


def _final(error: Exception, provider: str, name: str, scrub: Scrubber) -> Refused | None:  # noqa: PLR0911 - one case per kind
    """What fails again however often it is tried."""
    match error:
        case ai.ModelAuthenticationError():
            return Refused(
                f"{provider} does not let us in ({_status(error)}): "
                f"its key is not valid, or may not use the model {name!r}.",
                code="model_access_denied",
            )
        case ai.ModelNotFoundError():
            return Refused(f"{provider} knows no model {name!r} (404) where it was asked.", code="model_unknown")
        case ai.ModelQuotaExceededError():
            return Refused(
                f"The account at {provider} has used up what it may spend{_said(error, scrub)}",
                code="model_quota_exceeded",
            )
        case ai.ModelRequestRejectedError() if SAYS_LIMIT.search(_message(error.body)):
            return Refused(
                f"{provider}:{name} does not write as much at once as it was asked for{_said(error, scrub)}",
                code="answer_limit_too_large",
            )
        case ai.ModelAPIError() if isinstance(error, ai.ModelRequestRejectedError) or _status(error) in REFUSING:
            return Refused(f"{provider}:{name} refused the request{_said(error, scrub)}", code="model_refused")
        case ai.UserError():
            return Refused(
                f"{provider}:{name} cannot be asked like this: {scrub(error.message)}", code="model_misconfigured"
            )
    return None


def _passing(error: Exception, named: str, scrub: Scrubber, response: Response) -> Unavailable:
    """What may pass by itself."""
    if (damaged := _cause(error, Unreadable)) is not None:
        return _unreadable(named, str(damaged))
    match error:
        case ai.ModelRequestTimeout() | ai.ModelTimeoutError():
            return Unavailable(f"{named} did not answer in time.", code="model_timeout")
        case ai.ModelConnectionError():
            return Unavailable(f"{named} cannot be reached.", code="model_unavailable")
        case ai.ModelRateLimitError():
            wait = "a minute" if error.retry_after is None else f"{_wait(error):,.0f} s, as it asks"
            said = f"{named} is asked too often{_said(error, scrub)} {NEXT_BUSY.format(wait)}"
            return Unavailable(said, code="model_busy", retry_after=_wait(error))
        case ai.ModelHTTPError() | ai.ModelServerError() | ai.ModelUnavailableError():
            said = f"{named} has trouble of its own{_said(error, scrub)} {NEXT_TROUBLE}"
            return Unavailable(said, code="model_unavailable", retry_after=_wait(error))
    return _unreadable(named, why_unreadable(response.body, response.content_type))


def _unreadable(named: str, why: str) -> UnreadableAnswer:
    return UnreadableAnswer(f"The answer of {named} could not be read: {why}.")


def _wait(error: ai.ModelAPIError) -> float | None:
    """In how many seconds the provider asks to be asked again."""
    return None if error.retry_after is None else min(error.retry_after, LONGEST_WAIT)


def told_usage(answered: bytes) -> RequestUsage:
    """The tokens that a provider says to have used, in an answer that is of no use."""
    body = parsed(answered)
    usage = _inside(body, "usage") or _inside(_inside(body, "error"), "usage")
    return RequestUsage(
        input_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        output_tokens=_count(usage, "completion_tokens", "output_tokens"),
    )


def _inside(body: object, name: str) -> object:
    return body.get(name) if isinstance(body, dict) else None


def _count(usage: object, *names: str) -> int:
    counts = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    return next((count for count in counts if type(count) is int and count > 0), 0)


def _is_too_long(error: Exception, body: bytes) -> bool:
    """Whether the prompt is too long: servers of one's own say it in words only."""
    if isinstance(error, ai.ModelContextWindowExceededError) or _status(error) == 413:
        return True
    if not isinstance(error, ai.ModelHTTPError):
        return False
    return TOO_LONG in body or bool(SAYS_TOO_LONG.search(_message(error.body)))


def _status(error: Exception) -> int | None:
    return error.status_code if isinstance(error, ai.ModelHTTPError) else None


def _said(error: ai.ModelAPIError, scrub: Scrubber) -> str:
    """The status and what the provider says, as the end of a sentence."""
    status = _status(error)
    told = error.message if status is None else _message(error.body)  # of an error that came as an answer
    message = " ".join(scrub(told).split())[:MAX_SAID].rstrip(".")
    return (f" ({status})" if status else "") + (f": {message}." if message else ".")


def _message(body: object) -> str:
    """The message within the body of an error, as each provider wraps it."""
    if isinstance(body, str):
        try:
            body = orjson.loads(body)
        except orjson.JSONDecodeError:
            return body if isinstance(body, str) and "<html" not in body.lower() else ""
    for _ in range(3):
        if isinstance(body, dict):
            body = next((body[name] for name in ("error", "message", "detail") if name in body), "")
    return body if isinstance(body, str) else ""


def _cause(error: BaseException, kind: type[Kind]) -> Kind | None:
    """The error of this kind that led to this one."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, kind):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None
