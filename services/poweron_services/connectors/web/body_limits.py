"""Reading and decompressing response bodies within limits."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from poweron_events.errors import Refused

PIECE: Final = 65_536  # bytes that are decompressed at once
MAX_RATIO: Final = 200  # decompressed bytes per byte sent
TURN: Final = 0.005  # seconds after which other tasks run
ANY_RATIO: Final = 1_000_000  # bytes that may be decompressed at any ratio
GZIP: Final = zlib.MAX_WBITS | 16
GZIP_START: Final = b"\x1f\x8b"
ZLIB_METHOD: Final = 8
MAX_DIGITS: Final = 18
TEXTS: Final = frozenset({"", "application/xhtml+xml", "application/xml"})
"""Media types besides `text/*` that may be truncated; empty if the server names none."""


@dataclass(frozen=True, slots=True)
class Body:
    """A decompressed body."""

    content: bytes
    truncated: bool = False


async def read_body(chunks: AsyncIterable[bytes], headers: Mapping[str, str], *, host: str, limit: int) -> Body:
    """Read and decompress a body of at most `limit` bytes, both as sent and decompressed.

    A longer text is truncated. Other types are refused, because a part of them is unusable.

    Raises:
        Refused: the body is too large (`page_too_large`) or cannot be decompressed (`page_unavailable`).
    """
    partly = _is_text(headers)
    if not partly and _content_length(headers) > limit:
        raise too_large(host, f"it announced {_content_length(headers)} bytes, {limit} are read")
    decompression = _decompression(headers.get("content-encoding", ""), host)
    content, size = bytearray(), 0
    async for chunk in _in_turns(chunks):
        size += len(chunk)
        for piece in _unpack(decompression, chunk, host):
            content += piece
            if len(content) > max(ANY_RATIO, MAX_RATIO * size):
                raise too_large(host, f"it unpacks to more than {MAX_RATIO} times of what is sent")
            if len(content) > limit:
                break
        if max(size, len(content)) > limit:
            if not partly:
                raise too_large(host, f"more than {limit} bytes were sent")
            return Body(bytes(content[:limit]), truncated=True)
    if not decompression.complete:
        raise broken_off(host, "the compressed body has no end")
    return Body(bytes(content))


async def _in_turns(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the same chunks and let other tasks run in between, since a thousand may arrive at once."""
    began = time.monotonic()
    async for chunk in chunks:
        yield chunk
        if time.monotonic() - began > TURN:
            await asyncio.sleep(0)
            began = time.monotonic()


def broken_off(host: str, detail: str) -> Refused:
    return Refused(
        f"{host} sent a page that is damaged or incomplete.", code="page_unavailable", detail=f"{host}: {detail}."
    )


def too_large(host: str, detail: str) -> Refused:
    return Refused(f"{host} sends more than can be read of a page.", code="page_too_large", detail=f"{host}: {detail}.")


class _Unpacking(Protocol):
    @property
    def complete(self) -> bool:
        """Whether the data so far may be the whole body."""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk, which must not be empty."""


class _Deflated:
    """Decompresses deflate, with the zlib header or, as some servers send it, without one."""

    def __init__(self) -> None:
        self._stream: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        return self._stream is None or self._stream.eof

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if chunk[0] & 0xF == ZLIB_METHOD else -zlib.MAX_WBITS)
        while chunk and not self._stream.eof:
            yield self._stream.decompress(chunk, PIECE)
            chunk = self._stream.unconsumed_tail


class _Gzipped:
    """Decompresses one gzip member after the other; data after the last one is ignored."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(GZIP)
        self._begun = False
        self._held = b""
        """The first byte after a member, which may be the start of the next one."""

    @property
    def complete(self) -> bool:
        return self._stream.eof or not self._begun

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        chunk, self._held, self._begun = self._held + chunk, b"", True
        while chunk:
            if self._stream.eof:
                if chunk == GZIP_START[:1]:
                    self._held = chunk
                if not chunk.startswith(GZIP_START):
                    return
                self._stream = zlib.decompressobj(GZIP)
            yield self._stream.decompress(chunk, PIECE)
            chunk = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail


class _Layers:
    """Decompresses a body with several codings, or none."""

    def __init__(self, layers: Sequence[_Unpacking]) -> None:
        self._layers = layers

    @property
    def complete(self) -> bool:
        return all(layer.complete for layer in self._layers)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        yield from self._unpack(chunk, self._layers)

    def _unpack(self, chunk: bytes, layers: Sequence[_Unpacking]) -> Iterator[bytes]:
        if not layers:
            yield chunk
            return
        for piece in filter(None, layers[0].pieces(chunk)):
            yield from self._unpack(piece, layers[1:])


CODINGS: Final[Mapping[str, Callable[[], _Unpacking]]] = {"gzip": _Gzipped, "x-gzip": _Gzipped, "deflate": _Deflated}
NO_CODING: Final = frozenset({"", "identity", "none", "binary", "8bit", "utf-8"})
MOST_CODINGS: Final = 3


def _decompression(header: str, host: str) -> _Unpacking:
    """The decompression for a Content-Encoding header, which lists codings in the order of their application.

    Values that are not codings are ignored, because some servers send them.
    """
    codings = [coding for part in header.split(",") if (coding := part.strip().lower()) not in NO_CODING]
    if len(codings) > MOST_CODINGS or not set(codings) <= CODINGS.keys():
        raise broken_off(host, "the body is packed as nobody asked for")
    layers = [CODINGS[coding]() for coding in reversed(codings)]
    return layers[0] if len(layers) == 1 else _Layers(layers)


def _unpack(decompression: _Unpacking, chunk: bytes, host: str) -> Iterator[bytes]:
    if not chunk:  # an HTTP/2 frame may be empty
        return
    try:
        yield from decompression.pieces(chunk)
    except zlib.error as error:
        raise broken_off(host, f"the body cannot be unpacked: {error}") from error


def _is_text(headers: Mapping[str, str]) -> bool:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type.startswith("text/") or media_type in TEXTS


def _content_length(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) <= MAX_DIGITS else 0
