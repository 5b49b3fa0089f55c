"""Usage as a provider reports it: believed wherever a tokenizer or a cache explains it, else estimated from above."""

import pytest
from pydantic_ai.usage import RequestUsage

from poweron_services.models.chat_model import free
from poweron_services.models.providers.http_client import WRAPPING, Outgoing
from poweron_services.models.providers.provider_model import Usage, usage_of

PROSE = b"The exhibition opens on 3 May. " * 200
TABLE = b"| 1" + b" " * 90 + b"|\n"


def used(sent: bytes, text: str = "Yes.", **reported: int) -> Usage:
    outgoing = Outgoing(None, free, 1_000, sent=sent, paid=True)
    return usage_of(RequestUsage(**{"output_tokens": 2, **reported}), outgoing, text=text, received=400)


@pytest.mark.req("B-01")
@pytest.mark.parametrize("bytes_per_token", [1, 4, 6, 12])
def test_what_a_tokenizer_explains_is_believed(bytes_per_token: int) -> None:
    tokens = len(PROSE) // bytes_per_token
    assert used(PROSE, input_tokens=tokens) == Usage(tokens, 2)


@pytest.mark.req("B-01")
def test_a_prompt_of_spaces_may_have_few_tokens() -> None:
    assert used(TABLE * 100, input_tokens=400) == Usage(400, 2)


@pytest.mark.req("B-01")
def test_cached_tokens_that_are_reported_beside_the_others_count() -> None:
    """Among them, as most providers report them, they are no more than all."""
    assert used(PROSE, input_tokens=20, cache_read_tokens=1_500) == Usage(1_520, 2, cached_input_tokens=1_500)
    assert used(PROSE, input_tokens=1_520, cache_read_tokens=1_500) == Usage(1_520, 2, cached_input_tokens=1_500)


@pytest.mark.req("B-01")
@pytest.mark.parametrize("tokens", [0, 1, 20, len(PROSE) // 17])
def test_what_nothing_explains_is_estimated_from_above(tokens: int) -> None:
    assert used(PROSE, input_tokens=tokens) == Usage(len(PROSE) + WRAPPING, 2, is_estimated=True)


@pytest.mark.req("B-01")
def test_an_answer_of_few_tokens_is_estimated_by_what_was_received() -> None:
    assert used(PROSE, "word " * 100, input_tokens=1_500, output_tokens=3) == Usage(1_500, 400, is_estimated=True)
