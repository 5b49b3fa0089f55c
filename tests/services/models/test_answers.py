"""Answers of a model: JSON, read strictly, with a reason where they cannot be used."""

from collections.abc import Callable

import pytest
from hostile_json import ALL

from poweron_services.models.answers import (
    ActionsAnswer,
    ParametersAnswer,
    PlanningAnswer,
    RefinementAnswer,
    SelectionAnswer,
    Unacceptable,
    parse,
)

GOOD = '{"decision": "stop", "reason": "Done.", "classification": "success", "more": 1}'


def test_unknown_keys_are_ignored() -> None:
    assert parse(GOOD, RefinementAnswer).decision == "stop"


@pytest.mark.req("L-02")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not one JSON object"),
        ("```json\n{}\n```", "decision is missing"),
        ("null", "must be one JSON object, not NoneType"),
        ("{}", "decision is missing"),
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
@pytest.mark.parametrize(
    "text",
    [
        '{"parameters": {}}',
        '{"action": "ai.process", "actionObjective": "Answer", "parametersSchema": {"documentList": "string"}}',
    ],
)
def test_a_forbidden_key_is_named(text: str) -> None:
    with pytest.raises(Unacceptable, match=r"must not hold '(parameters|documentList)'") as refused:
        parse(text, SelectionAnswer, forbidden=frozenset({"parameters"}))
    assert refused.value.code == "field_not_allowed"


SELECTED = '{"action": "ai.process", "actionObjective": "Answer"}'
PARAMETERS = frozenset({"parameters"})


@pytest.mark.req("L-02")
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{SELECTED}\n```",
        f"Here is my choice:\n\n{SELECTED}\n\nI hope that {{helps}}.",
        f"\ufeff{SELECTED}",
        f"{SELECTED}}}",
        f'<think>{{"draft": {{}}}}</think>{SELECTED}',
        f"A set like {{1, 2}} is none: {SELECTED}",
    ],
)
def test_one_object_within_prose_is_read(text: str) -> None:
    assert parse(text, SelectionAnswer, forbidden=PARAMETERS) == parse(SELECTED, SelectionAnswer)


@pytest.mark.req("L-02")
@pytest.mark.req("L-01")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SELECTED + SELECTED, "The answer holds 2 JSON objects; answer with exactly one."),
        (f"First {SELECTED}, then {SELECTED}.", "The answer holds 2 JSON objects"),
        ("{}" * 1_000, "The answer holds more than 20 JSON objects; answer with exactly one."),
        (SELECTED + "{}" * 20 + SELECTED, "The answer holds more than 20 JSON objects"),
        (f"[{SELECTED}, {SELECTED}]", "The answer must be one JSON object, not list."),
        (SELECTED.replace('"ai.process"', '["ai.process", "web.search"]'), "exactly one action is selected"),
        (SELECTED.replace("}", ', "action": "web.search"}'), "The answer holds 'action' twice in one object."),
        ("Or " + SELECTED.replace("}", ', "action": "web.search"}'), "The answer holds 'action' twice"),
        (f'It is {{"action": "ai.process", then {SELECTED}', "not one JSON object: Expecting property name"),
    ],
)
def test_more_than_one_action_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Unacceptable, match=reason):
        parse(text, SelectionAnswer)


@pytest.mark.req("P-02")
@pytest.mark.parametrize(
    "text",
    [
        SELECTED.replace("}", ', "parameters": {}}'),
        SELECTED.replace('"ai.process"', '{"method": "ai", "name": "process", "parameters": {"aiPrompt": "x"}}'),
        SELECTED.replace("}", ', "more": [{"parameters": null}]}'),
        f'{SELECTED} with {{"parameters": {{}}}}',
        SELECTED.replace("}", ', "Parameters": {"aiPrompt": "x"}}'),
        SELECTED.replace("}", ', " PARAMETERS": {}}'),
    ],
)
def test_parameters_are_refused_in_stage_1_wherever_they_stand(text: str) -> None:
    with pytest.raises(Unacceptable, match=r"(?i)must not hold ' ?parameters'\.$"):
        parse(text, SelectionAnswer, forbidden=PARAMETERS)


@pytest.mark.req("P-02")
@pytest.mark.parametrize(
    "key", ["documentList", "connectionReference", "history", "documents", "connections", "DocumentList"]
)
def test_a_schema_with_a_forbidden_key_is_refused(key: str) -> None:
    with pytest.raises(Unacceptable, match=f"parametersSchema: must not hold '{key}'"):
        parse(SELECTED.replace("}", f', "parametersSchema": {{"fields": [], "{key}": {{}}}}}}'), SelectionAnswer)


@pytest.mark.req("L-02")
def test_harmless_variations_are_read() -> None:
    text = """{"action": {"method": "ai", "name": "process"}, "actionObjective": "Answer", "learnings": null,
        "requiredInputDocuments": "docList:a", "requiredConnection": "", "parametersContext": null,
        "parametersSchema": {"fields": [{"name": "aiPrompt", "type": "string", "description": null}]}}"""
    answer = parse(text, SelectionAnswer)
    assert (answer.action, answer.learnings, answer.required_input_documents) == ("ai.process", (), ("docList:a",))
    assert (answer.required_connection, answer.parameters_context) == (None, "")
    assert answer.parameters_schema is not None
    assert answer.parameters_schema.fields[0].description == ""


def test_what_an_action_is_given_stays_as_it_is() -> None:
    given = {"a": None, "b": [{"c": None}]}
    text = '{"schema": "parameters_v1", "parameters": {"a": null, "b": [{"c": null}]}}'
    assert parse(text, ParametersAnswer).parameters == given
    text = (
        '{"actions": [{"action": "ai.process", "actionObjective": "x", "parameters": {"a": null, "b": [{"c": null}]}}]}'
    )
    assert parse(text, ActionsAnswer).actions[0].parameters == given


PLACES: dict[str, Callable[[str], str]] = {
    "as it stands": lambda text: text,
    "in a field": lambda text: GOOD.replace('"more": 1', f'"more": {text}'),
    "as a reason": lambda text: GOOD.replace('"Done."', text),
    "in a code fence": lambda text: f"```json\n{text}\n```",
    "before the answer": lambda text: f"{text}\n{GOOD}",
    "behind the answer": lambda text: f"{GOOD}\n{text}",
}


@pytest.mark.req("S42")
@pytest.mark.parametrize("place", PLACES)
def test_whatever_a_model_writes_is_read_or_refused_with_a_sentence(place: str) -> None:
    for hostile in ALL.values():
        told = said(PLACES[place](hostile.raw.decode("utf-8", errors="surrogateescape")))
        assert told == "stop" or (told.startswith("The answer ") and len(told) < 2_000)


def said(text: str) -> str:
    """The decision, or why there is none."""
    try:
        return parse(text, RefinementAnswer).decision
    except Unacceptable as refusal:
        return str(refusal)


@pytest.mark.req("S42")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * 10_000_000, "The answer has 10000000 characters; at most 200000 are read."),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "not one JSON object: it is nested too deeply."),
        (GOOD.replace("1}", "[" * 10_000 + "]" * 10_000 + "}"), "not one JSON object: it is nested too deeply."),
        (GOOD.replace("1}", '{"a":' * 900 + "1" + "}" * 901), "The answer does not fit: the data is nested too deeply"),
        (GOOD.replace("1}", "NaN}"), "not one JSON object: NaN is no number of JSON."),
        (GOOD.replace("1}", "1e999}"), "not one JSON object: number is infinity"),
        (GOOD.replace("1}", "1" * 5_000 + "}"), "not one JSON object: number is infinity"),
        (GOOD.replace("1}", '{"b": 1, "b": 1}}'), "The answer holds 'b' twice in one object."),
        ('{"' * 99_000, "not one JSON object: Expecting"),
        ("{ " * 99_000, "not one JSON object: unexpected character"),
    ],
)
def test_what_would_break_a_reader_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Unacceptable, match=reason):
        parse(text, RefinementAnswer)


def test_an_empty_list_is_told_without_the_words_of_a_library() -> None:
    with pytest.raises(Unacceptable) as raised:
        parse('{"tasks": []}', PlanningAnswer)
    assert str(raised.value) == "The answer does not fit: tasks must have at least 1 entry."
