"""Redacts secrets in everything that an action returns, in every form in which they are likely to appear.

The replacement is never longer than the secret, so that what fitted into an event still fits. Compressed or encrypted
bytes are not searched, and a secret that appears in pieces is not found.
"""

import base64
import html
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from pydantic import BaseModel

from poweron_events.redaction import HIDDEN

MIN_SECRET: Final = len(HIDDEN)  # characters; anything shorter appears in too many harmless texts
MIN_LINE: Final = 16  # characters of a line of a multi-line secret, such as a key in PEM
ANY_PLACE: Final = 3  # the bytes that four characters of Base64 encode: a secret may begin at any of them
_SCHEMES: Final = frozenset({"basic", "bearer", "token", "apikey", "api-key", "key"})

Value = TypeVar("Value")


class SecretRedaction:
    """Replaces secrets with `[hidden]`, without a way to read the values back."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for secret in _secrets(value) for form in _forms(secret)}
        self._texts = tuple(sorted(forms))
        self._bytes = tuple(sorted({form.encode("utf-8", "surrogatepass") for form in forms}))
        self._wide = tuple(sorted({form.encode(code, "surrogatepass") for form in forms for code in _WIDE}))

    def __bool__(self) -> bool:
        """Return whether there are any secrets."""
        return bool(self._texts)

    def redacted(self, text: str) -> str:
        """Return the text without the secrets; the same object if it contains none."""
        places = _places(text, self._texts)
        return HIDDEN.join(_rests(text, places)) if places else text

    def redacted_bytes(self, data: bytes) -> bytes:
        """Return bytes without the secrets, in UTF-8 or UTF-16; the same object if they contain none."""
        forms = (*self._bytes, *self._wide) if b"\0" in data else self._bytes
        places = _places(data, forms)
        return HIDDEN.encode().join(_rests(data, places)) if places else data

    def redacted_in(self, value: Value) -> Value:
        """Return the value with all texts and bytes in it redacted, at any depth; itself if it contains no secret.

        Raises:
            ValueError: the redacted value is not valid where the secret was.
        """
        return cast("Value", self._redact(value)) if self else value

    def _redact(self, value: Any) -> Any:
        match value:
            case str():
                return self.redacted(value)
            case bytes():
                return self.redacted_bytes(value)
            case Mapping():
                return self._mapping(value)
            case list() | tuple() | set() | frozenset():
                return self._collection(value)
            case _:
                return self._object(value)

    def _object(self, value: Any) -> Any:
        if isinstance(value, BaseModel):
            changes = self._changes({name: getattr(value, name) for name in type(value).model_fields})
            return type(value).model_validate({**dict(value), **changes}) if changes else value
        if is_dataclass(value) and not isinstance(value, type):
            changes = self._changes({part.name: getattr(value, part.name) for part in fields(value) if part.init})
            return replace(value, **changes) if changes else value
        return value

    def _collection(self, value: Any) -> Any:
        items = [self._redact(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return getattr(type(value), "_make", type(value))(items)  # a named tuple has its own constructor

    def _mapping(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        result = {self._redact(name): self._redact(item) for name, item in value.items()}
        is_same = result.keys() == value.keys() and all(result[name] is value[name] for name in value)
        return value if is_same else result

    def _changes(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: self._redact(part) for name, part in parts.items()}
        return {name: part for name, part in values.items() if part is not parts[name]}


NO_SECRETS: Final = SecretRedaction()
_WIDE: Final = ("utf-16-le", "utf-16-be")


def _secrets(value: str) -> Iterator[str]:
    """Yield what must be hidden of a value: all of it, and the parts that another program may repeat alone."""
    yield from (text for text in (value, value.strip()) if len(text) >= MIN_SECRET)
    yield from (line.strip() for line in value.splitlines()[1:-1] if len(line.strip()) >= MIN_LINE)
    for part in (*_credentials(value.strip()), *_of_address(value.strip())):
        yield from (text for text in (part,) if len(text) >= MIN_SECRET)


def _credentials(value: str) -> Iterator[str]:
    """Yield the part of a header after its scheme, and for a login also the password."""
    scheme, _, rest = value.partition(" ")
    if scheme.casefold() not in _SCHEMES:
        return
    yield rest.strip()
    if scheme.casefold() == "basic":
        try:
            login = base64.b64decode(rest.strip(), validate=True).decode()
        except ValueError:
            return
        yield from (login, login.partition(":")[2])


def _of_address(value: str) -> Iterator[str]:
    """Yield the password and the query values of a URL."""
    if "://" not in value:
        return
    try:
        address = urlsplit(value)
        yield address.password or ""
    except ValueError:
        return
    yield from (query_value for _, query_value in parse_qsl(address.query))


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms of a secret in a text: as it is, escaped, or encoded alone or together with its surroundings."""
    yield secret
    for form in (quote(secret, safe=""), quote(secret, errors="replace"), quote_plus(secret, errors="replace")):
        yield from (form, _lower_escapes(form))
    escaped = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]]
    yield from (*escaped, *(form.replace("/", "\\/") for form in escaped), *(json.dumps(e)[1:-1] for e in escaped))
    yield from (html.escape(secret), html.escape(secret, quote=False), html.escape(secret).replace("&#x27;", "&#39;"))
    data = secret.encode("utf-8", "surrogatepass")
    yield from (data.hex(), data.hex().upper())
    for before in range(ANY_PLACE):
        yield from _in_base64(data, before)


def _lower_escapes(text: str) -> str:
    first, *escapes = text.split("%")
    return "%".join([first, *(escape[:2].lower() + escape[2:] for escape in escapes)])


def _in_base64(data: bytes, before: int) -> Iterator[str]:
    """Yield the characters that encode only these bytes, if this many bytes precede them."""
    first, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
    content = b"\0" * before + data
    for text in (base64.b64encode(content), base64.urlsafe_b64encode(content)):
        yield text[first:end].decode()


def _places(text: Any, forms: Iterable[Any]) -> list[tuple[int, int]]:
    """Return where the forms occur in a text or in bytes, as `_merge` does."""
    occurring = [form for form in forms if form in text]
    return _merge(_occurrences(text, occurring)) if occurring else []


def _occurrences(text: Any, forms: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """Yield where the forms occur; the places may overlap."""
    for form in forms:
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = text.find(form, at + 1)


def _merge(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the places in order, with those that overlap or touch merged."""
    result = list[tuple[int, int]]()
    for begin, end in sorted(places):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def _rests(text: Any, places: list[tuple[int, int]]) -> Iterator[Any]:
    """Yield what is between the places."""
    begin = 0
    for at, end in places:
        yield text[begin:at]
        begin = end
    yield text[begin:]
