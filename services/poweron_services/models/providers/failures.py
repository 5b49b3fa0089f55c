"""Failures of providers, translated into our errors: what they mean for the prompt, and whether a retry may help.

A provider's message about an error may contain the key that it received, so it is scrubbed, and foreign errors are
never chained: their texts would reach the log.
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
from poweron_services.models.chat_model import TooLong, UnreadableAnswer
from poweron_services.models.providers.http_client import Response, proxies
from poweron_services.models.providers.response_body import (
    MAX_BODY,
    ResponseTooLarge,
    UnreadableResponse,
    parsed,
    why_unreadable,
)
from poweron_services.settings.config import ProviderSettings

Kind = TypeVar("Kind", bound=BaseException)

MAX_SAID = 300  # characters of a provider's message about an error
SHORT = 6  # characters; a shorter text is not a secret
LONG = 12  # characters; a secret that is shorter may be an ordinary word
LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:sk|pk|key)-[\w*.-]{4,}|(?i:\bbearer)\s+\S+")
REFUSING: Final = frozenset(range(400, 500)) - {408, 409, 425, 429}  # statuses for which a retry does not help
HIDDEN: Final = "[hidden]"
FLAGGED: Final = frozenset({"invalid_prompt", "content_policy_violation", "content_filter"})
"""The codes with which providers refuse a prompt for its content."""
NEXT_REFUSED: Final = "Other words, or another model, may help."
LONGEST_WAIT: Final = 366 * 24 * 3600.0  # seconds; a longer wait that a provider asks for is cut to this
NEXT_BUSY: Final = "Wait {}, or have the limits of the account raised."
NEXT_TROUBLE: Final = "The provider's status page, or the log of a server of your own, may say more."
SAYS_TOO_LONG: Final = re.compile(
    r"(?:prompt|input|request|message)s? (?:is |are )?too (?:long|large)|context (?:length|size|window)"
    r"|too many (?:input )?tokens|too large for model|reduce the length|(?:input|prompt) length",
    re.IGNORECASE,
)

TOO_LONG: Final = b"context_length_exceeded"
"""OpenAI's code, which gateways also wrap in the errors of other providers."""
SAYS_LIMIT: Final = re.compile(r"max_(?:completion_|output_)?tokens", re.IGNORECASE)
"""The names that providers use for the limit of an answer when they refuse its value."""


@dataclass(frozen=True)
class Scrubber:
    """Removes secrets from the texts of third parties."""

    secrets: tuple[str, ...]
    """Longest first."""

    @classmethod
    def of(cls, known: ProviderSettings) -> "Scrubber":
        """Create a scrubber that knows every key, and the names, passwords and queries in addresses and proxy URLs."""
        values = [value.get_secret_value() for _, value in known if isinstance(value, SecretStr)]
        parts = {part for value in (*values, *proxies().values()) for part in _secrets_in(value)}
        forms = {form for part in parts for form in (part, unquote(part), quote(part, safe="")) if len(form) >= SHORT}
        return cls(tuple(sorted(forms, key=len, reverse=True)))

    def __call__(self, text: str) -> str:
        return redacted(LOOKS_LIKE_A_KEY.sub(HIDDEN, _hide(text, self.secrets)))

    def known(self, text: str) -> str:
        """Scrub the text of an answer, which may mention keys: remove only secrets too long to be a word."""
        return _hide(text, [secret for secret in self.secrets if len(secret) >= LONG])


def _hide(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _secrets_in(value: str) -> Iterable[str]:
    """Return a key as it is; for an address, its login, also encoded as in a header, and the values of its query."""
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
    """Translate an error of a request into ours: `Unavailable` if a retry may help."""
    model_name = f"{provider}:{name}"
    if _cause(error, ResponseTooLarge):
        return Refused(
            f"The answer of {model_name} was longer than {MAX_BODY:,} bytes; it was not read.",
            code="model_misconfigured",
        )
    if response.redirected_to:
        return _redirect(response, model_name, scrub)
    if _is_too_long(error, response.body):
        return TooLong(f"The prompt, with the room for the answer, is longer than what {model_name} takes.")
    if isinstance(error, ai.ModelAPIError) and error.provider_error_code in FLAGGED:
        return Refused(f"{model_name} would not answer{_detail(error, scrub)} {NEXT_REFUSED}", code="answer_refused")
    return _final(error, provider, name, scrub) or _passing(error, model_name, scrub, response)


def _redirect(response: Response, model_name: str, scrub: Scrubber) -> Refused:
    """Refuse a redirect: following it would send the key to another place."""
    to = scrub(response.redirected_to)[:MAX_SAID]
    return Refused(
        f"{model_name} answered with a redirect ({response.status}) to {to!r}, which is not followed, since the key "
        "would go there. Set the provider's address to the place that answers itself.",
        code="model_misconfigured",
    )


def _final(error: Exception, provider: str, name: str, scrub: Scrubber) -> Refused | None:  # noqa: PLR0911 - one case per kind
    """Translate an error that no retry helps against; None for any other."""
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
                f"The account at {provider} has used up what it may spend{_detail(error, scrub)}",
                code="model_quota_exceeded",
            )
        case ai.ModelRequestRejectedError() if SAYS_LIMIT.search(_message(error.body)):
            return Refused(
                f"{provider}:{name} does not write as much at once as it was asked for{_detail(error, scrub)}",
                code="answer_limit_too_large",
            )
        case ai.ModelAPIError() if isinstance(error, ai.ModelRequestRejectedError) or _status(error) in REFUSING:
            return Refused(f"{provider}:{name} refused the request{_detail(error, scrub)}", code="model_refused")
        case ai.UserError():
            return Refused(
                f"{provider}:{name} cannot be asked like this: {scrub(error.message)}", code="model_misconfigured"
            )
    return None


def _passing(error: Exception, model_name: str, scrub: Scrubber, response: Response) -> Unavailable:
    """Translate an error that may pass."""
    if (unreadable := _cause(error, UnreadableResponse)) is not None:
        return _unreadable(model_name, str(unreadable))
    match error:
        case ai.ModelRequestTimeout() | ai.ModelTimeoutError():
            return Unavailable(f"{model_name} did not answer in time.", code="model_timeout")
        case ai.ModelConnectionError():
            return Unavailable(f"{model_name} cannot be reached.", code="model_unavailable")
        case ai.ModelRateLimitError():
            wait = "a minute" if error.retry_after is None else f"{_wait(error):,.0f} s, as it asks"
            message = f"{model_name} is asked too often{_detail(error, scrub)} {NEXT_BUSY.format(wait)}"
            return Unavailable(message, code="model_busy", retry_after=_wait(error))
        case ai.ModelHTTPError() | ai.ModelServerError() | ai.ModelUnavailableError():
            message = f"{model_name} has trouble of its own{_detail(error, scrub)} {NEXT_TROUBLE}"
            return Unavailable(message, code="model_unavailable", retry_after=_wait(error))
    return _unreadable(model_name, why_unreadable(response.body, response.content_type))


def _unreadable(model_name: str, reason: str) -> UnreadableAnswer:
    return UnreadableAnswer(f"The answer of {model_name} could not be read: {reason}.")


def _wait(error: ai.ModelAPIError) -> float | None:
    """Return the number of seconds that the provider asks to wait before a retry."""
    return None if error.retry_after is None else min(error.retry_after, LONGEST_WAIT)


def reported_usage(answer: bytes) -> RequestUsage:
    """Return the tokens that a provider reports in an unusable answer."""
    body = parsed(answer)
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
    """Return whether the prompt is too long; self-hosted servers say so only in words."""
    if isinstance(error, ai.ModelContextWindowExceededError) or _status(error) == 413:
        return True
    if not isinstance(error, ai.ModelHTTPError):
        return False
    return TOO_LONG in body or bool(SAYS_TOO_LONG.search(_message(error.body)))


def _status(error: Exception) -> int | None:
    return error.status_code if isinstance(error, ai.ModelHTTPError) else None


def _detail(error: ai.ModelAPIError, scrub: Scrubber) -> str:
    """Return the status and the provider's message, as the end of a sentence."""
    status = _status(error)
    text = error.message if status is None else _message(error.body)  # from an error that came as an answer
    message = " ".join(scrub(text).split())[:MAX_SAID].rstrip(".")
    return (f" ({status})" if status else "") + (f": {message}." if message else ".")


def _message(body: object) -> str:
    """Return the message in the body of an error, however the provider wraps it."""
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
    """Return the error of this kind that led to the given one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, kind):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
