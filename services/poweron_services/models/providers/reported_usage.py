"""The usage of a call, as its provider reports it, or an estimate that is never too low."""

import re
from dataclasses import dataclass
from typing import Final

from pydantic_ai.usage import RequestUsage

from poweron_events.event import MAX_TOKENS
from poweron_services.models.providers.outgoing import WRAPPING, Outgoing

BYTES_PER_TOKEN: Final = 16
"""More than any text has on average: prose has about four. A report of fewer tokens than this implies is rejected."""
RUN: Final = re.compile(rb"(.)\1{3,}", re.DOTALL)
"""A run of the same byte, such as the spaces of a table: one token may cover all of it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    is_estimated: bool = False


def usage_of(reported: RequestUsage, outgoing: Outgoing, *, text: str, received: int) -> Usage:
    """Return the reported usage; estimate what is missing or far below what was sent or received.

    No token is shorter than a byte, so the bytes limit the tokens of the prompt and of the answer; the limit of the
    answer applies as well. A request that a provider answered with an error costs what it reports, or nothing.

    Args:
        reported: the usage that the provider reports.
        outgoing: the request.
        text: the answer.
        received: the size of the response body, in bytes.
    """
    read, written = _tokens(reported.input_tokens), _tokens(reported.output_tokens)
    cached = _tokens(reported.cache_read_tokens)
    if cached > read:  # the provider reports cached tokens separately
        read = _tokens(read + cached)
    sent, is_estimated = outgoing.sent or b"", False
    if outgoing.paid and _is_implausible(read, sent):
        read, is_estimated = len(sent) + WRAPPING, True
    if outgoing.paid and _is_implausible(written, text.encode(errors="replace")):
        written, is_estimated = min(received, outgoing.limit), True
    thought = min(_tokens(reported.output_reasoning_tokens), written)
    return Usage(read, written, min(cached, read), thought, is_estimated)


def _is_implausible(tokens: int, content: bytes) -> bool:
    """Return whether the content must have more tokens than this."""
    if tokens > len(content) // BYTES_PER_TOKEN:
        return False
    return tokens <= len(RUN.sub(rb"\1", content)) // BYTES_PER_TOKEN


def _tokens(told: int) -> int:
    return max(0, min(told, MAX_TOKENS))
