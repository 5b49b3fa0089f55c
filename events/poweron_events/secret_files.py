"""Secrets in files: `NAME_FILE` names the file that holds what `NAME` would hold."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

MAX_SECRET: Final = 100_000  # bytes
SUFFIX: Final = "_FILE"


def configured_secret(variable: str, environment: Mapping[str, str]) -> str | None:
    """Return the secret that a variable or its file holds; None if neither is set.

    Raises:
        ValueError: both are set, or the file cannot be used.
    """
    return secret_from_file(variable, environment) or environment.get(variable)


def secret_from_file(variable: str, environment: Mapping[str, str]) -> str | None:
    """Return the secret in the file that `…_FILE` names; None if that is not set. A process reads each file once.

    Raises:
        ValueError: the variable itself is set as well, or the file cannot be used.
    """
    path = environment.get(variable + SUFFIX)
    if not path:
        return None
    if environment.get(variable):
        raise ValueError(f"{variable} is set as well: keep one of the two, and unset the other")
    return _read_once(path)


def read_secret(path: str) -> str:
    """Return the content of a file without the line breaks at its end.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is too large, or is not text.
    """
    with Path(path).open("rb") as file:
        data = file.read(MAX_SECRET + 1)
    if len(data) > MAX_SECRET:
        raise ValueError(f"the file {path} has more than {MAX_SECRET} bytes")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"the file {path} is not text in UTF-8") from None  # the error would show the bytes


@cache
def _read_once(path: str) -> str:
    try:
        secret = read_secret(path)
    except OSError as error:
        raise ValueError(
            f"the file {path!r} cannot be read: {error.strerror}. Name a file that the user of this process can read"
        ) from error
    if not secret.strip():
        raise ValueError(f"the file {path!r} is empty: write the secret into it, or unset this variable")
    return secret
