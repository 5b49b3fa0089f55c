"""What a call used: as its provider reports it, or an estimate that is never too low."""

import re
from dataclasses import dataclass
from typing import Final

from pydantic_ai.usage import RequestUsage

from poweron_events.event import MAX_TOKENS
from poweron_services.models.providers.outgoing import WRAPPING, Outgoing

BYTES_PER_TOKEN: Final = 16
"""More than any text has on average: prose has about four. Fewer tokens than this implies are not believed."""
RUN: Final = re.compile(rb"(.)\1{3,}", re.DOTALL)
"""The same byte again and again, such as the spaces of a table: one token may stand for all of them."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    is_estimated: bool = False


def usage_of(reported: RequestUsage, outgoing: Outgoing, *, text: str, received: int) -> Usage:
    """The reported usage; an estimate of what is not reported, or is far below what was sent or received.

    No token is shorter than a byte, so the bytes bound the tokens of the prompt and of the answer; the limit of the
    answer bounds it, too. What a provider answered with an error costs what it reports, or nothing.

    Args:
        reported: by the provider.
        outgoing: the request.
        text: what was answered.
        received: the bytes of the body that it was answered in.
    """
    read, written = _tokens(reported.input_tokens), _tokens(reported.output_tokens)
    cached = _tokens(reported.cache_read_tokens)
    if cached > read:  # it reports the cached ones beside the others
        read = _tokens(read + cached)
    sent, is_estimated = outgoing.sent or b"", False
    if outgoing.paid and _is_implausible(read, sent):
        read, is_estimated = len(sent) + WRAPPING, True
    if outgoing.paid and _is_implausible(written, text.encode(errors="replace")):
        written, is_estimated = min(received, outgoing.limit), True
    thought = min(_tokens(reported.output_reasoning_tokens), written)
    return Usage(read, written, min(cached, read), thought, is_estimated)


def _is_implausible(tokens: int, content: bytes) -> bool:
    """Whether the content cannot have so few tokens."""
    if tokens > len(content) // BYTES_PER_TOKEN:
        return False
    return tokens <= len(RUN.sub(rb"\1", content)) // BYTES_PER_TOKEN


def _tokens(told: int) -> int:
    return max(0, min(told, MAX_TOKENS))
