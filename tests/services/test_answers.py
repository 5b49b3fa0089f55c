"""Answers of a model: JSON, read strictly, with a reason where they cannot be used."""

import pytest

from poweron_services.models.answers import RefinementAnswer, SelectionAnswer, Unacceptable, parse

GOOD = '{"decision": "stop", "reason": "Done.", "classification": "success", "more": 1}'


def test_unknown_keys_are_ignored() -> None:
    assert parse(GOOD, RefinementAnswer).decision == "stop"


@pytest.mark.req("L-02")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not one JSON object"),
        ("```json\n{}\n```", "not one JSON object"),
        ("null", "must be one JSON object, not NoneType"),
        ("{}", "decision: Field required"),
        (GOOD.replace("stop", "perhaps"), "decision"),
        ("[" * 100_000, "not one JSON object"),
        (" " * 200_001, "at most 200000 are read"),
        (GOOD.replace("Done.", r"\ud800"), "not one JSON object"),
    ],
)
def test_what_cannot_be_used_says_why(text: str, reason: str) -> None:
    with pytest.raises(Unacceptable, match=reason):
        parse(text, RefinementAnswer)


@pytest.mark.req("P-02")
def test_a_forbidden_key_is_named() -> None:
    with pytest.raises(Unacceptable, match="must not hold 'parameters'"):
        parse('{"parameters": {}}', SelectionAnswer, forbidden=frozenset({"parameters"}))
