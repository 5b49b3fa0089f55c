"""Open the place where content is kept (a folder, memory, or an S3-compatible bucket), and explain its errors.

Access to a bucket is configured as for other S3 clients, by the variables `AWS_…`. Every wait has a limit: the caller
retries and reports it.
"""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError
from obstore.store import MemoryStore, ObjectStore, S3Store, from_url

from poweron_events.errors import Refused
from poweron_events.redaction import redacted
from poweron_events.secret_files import SUFFIX, configured_secret

if TYPE_CHECKING:  # in the stubs only
    from obstore.store import ClientConfig, RetryConfig

PART: Final = 8_000_000  # bytes; larger content is uploaded in parts of this size
PARTS_AT_ONCE: Final = 4
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
METADATA: Final = "169.254.169.254"  # where a machine at Amazon gets credentials if there are no others
ROLE_TIMEOUT: Final = 5.0  # seconds for that at a first check: at Amazon it takes milliseconds
_NAMED: Final = (
    *("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
)
MAX_SHOWN: Final = 300  # characters of a store's message
_CODE: Final = re.compile(r"<Code>(\w{1,100})</Code>")

RETRIES: "Final[RetryConfig]" = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}
_TIMEOUTS: Final = {"connect_timeout": "3s", "timeout": "60s"}

NO_CREDENTIALS: Final = (
    "No credentials were found for it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role."
)
NOT_LET_IN: Final = (
    "It does not let us in: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and that they may list the "
    "bucket and read, write and delete in it."
)
NO_BUCKET: Final = "There is no such bucket: make it, or name another one in POWERON_CONTENT."
NO_CONDITIONS: Final = (
    "It does not know conditional writes (`If-None-Match`), without which two processes could make two keys for one "
    "workflow: use a server that does."
)


def open_store(place: str, environment: Mapping[str, str] = os.environ) -> ObjectStore | Path:
    """Open the store at a URL, or the folder at a path."""
    if place == "memory:///":
        return MemoryStore()
    if "://" in place:
        secrets: Any = {name.lower(): value for name, value in bucket_secrets(environment).items()}
        options = _client_options(environment)
        return from_url(place, config=secrets or None, retry_config=RETRIES, client_options=options)
    folder = Path(place)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def bucket_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that a bucket is opened with, by their variables; each may be in a file.

    Raises:
        Refused: a file cannot be used.
    """
    return {name: secret for name in SECRETS if (secret := _secret(name, environment))}


def _secret(variable: str, environment: Mapping[str, str]) -> str | None:
    try:
        return configured_secret(variable, environment)
    except ValueError as error:
        raise Refused(f"A setting cannot be used: {variable}{SUFFIX}: {error}.") from error


def _client_options(environment: Mapping[str, str]) -> "ClientConfig":
    """Return the timeouts that the environment does not set, and permit plain HTTP if an endpoint uses `http://`."""
    options: ClientConfig = {}
    if "AWS_CONNECT_TIMEOUT" not in environment:
        options["connect_timeout"] = _TIMEOUTS["connect_timeout"]
    if "AWS_TIMEOUT" not in environment:
        options["timeout"] = _TIMEOUTS["timeout"]
    if any(environment.get(name, "").startswith("http://") for name in ENDPOINTS):
        options["allow_http"] = True
    return options


def look_time(store: ObjectStore, environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the time limit of a first check; None unless only the machine itself could supply credentials."""
    is_named = any(environment.get(name) for name in _NAMED)
    return ROLE_TIMEOUT if isinstance(store, S3Store) and not is_named else None


def what_happened(error: Exception) -> str:
    """Explain a store's error and what to do about it, in sentences without a full stop at the end."""
    said = str(error)
    code = _code(error)
    if code == "NoSuchBucket":
        return NO_BUCKET.removesuffix(".")
    if _is_without_credentials(error):
        return NO_CREDENTIALS.removesuffix(".")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return f"{NOT_LET_IN} {f'It says {code}' if code else ''}".rstrip(". ")
    shown = redacted(said.partition("\n")[0])[:MAX_SHOWN].rstrip(". ")
    return f"{shown} ({code})" if code else shown


def is_final(error: Exception) -> bool:
    """Return whether the error will not resolve by itself, because something must be configured first."""
    return (
        is_missing_bucket(error)
        or _is_without_credentials(error)
        or isinstance(error, PermissionDeniedError | UnauthenticatedError)
    )


def is_missing_bucket(error: Exception) -> bool:
    """Return whether nothing can be found because the bucket does not exist."""
    return _code(error) == "NoSuchBucket"


def _is_without_credentials(error: Exception) -> bool:
    """Return whether the library fell back to asking the machine for a role, which only its message reveals."""
    said = f"{error}"
    return METADATA in said


def _code(error: Exception) -> str:
    """Return the code that an S3 server gives; empty if there is none."""
    return next(iter(_CODE.findall(f"{error}")), "")
