"""The schemas of answers: what they admit is accepted, what is accepted they admit, and each provider takes them."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from provider_rules import anthropic_strict, azure_strict, openai_strict

from builders import At, Told, document, planned, requested, step
from poweron_events.catalog import CATALOG, WEB, ActionSpec
from poweron_events.fold.state import Workflow
from poweron_events.round_events import TaskPlan
from poweron_services.decider.answer_schemas import parameters_schema, reads_documents_first, selection_schema
from poweron_services.decider.defaults import defaults
from poweron_services.decider.references import as_listed, documents_at_hand, resolve
from poweron_services.decider.validation import (
    check_action,
    check_connection,
    check_documents,
    check_schema,
    complete_parameters,
    fields_of,
)
from poweron_services.models.answers import (
    ParametersAnswer,
    PlanningAnswer,
    RefinementAnswer,
    ReviewAnswer,
    SelectionAnswer,
    read,
)
from poweron_services.models.prompts import Prompt
from poweron_services.models.providers.schema_dialects import told
from poweron_services.roles.planner import generate_planning_prompt
from poweron_services.roles.refiner import create_refinement_prompt
from poweron_services.roles.reviewer import create_review_prompt
from poweron_services.roles.selector import FORBIDDEN, generate_react_plan_selection_prompt
from poweron_services.settings.config import Provider

Schema = dict[str, Any]

FOREIGN = {
    spec.name: spec
    for spec in (
        ActionSpec(
            "crm.update",
            {
                "type": "object",
                "properties": {
                    "connectionReference": {"type": "string"},
                    "id": {"type": "integer", "minimum": 1, "maximum": 9_999},
                    "state": {"enum": ["open", "won", "lost"]},
                    "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                    "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 5},
                    "owner": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string", "minLength": 1},
                            "mail": {"type": ["string", "null"]},
                        },
                        "required": ["name"],
                        "additionalProperties": False,
                    },
                },
                "required": ["connectionReference", "id", "state"],
            },
            "at_most_once",
            1_000,
        ),
        ActionSpec(
            "odd.shape",
            {
                "type": "object",
                "properties": {
                    "either": {
                        "oneOf": [{"type": "integer"}, {"type": "object", "properties": {"a": {"type": "string"}}}]
                    },
                    "open": {"type": "object"},
                    "anything": True,
                    "documentList": {"type": "array", "items": {"type": "string"}},
                },
            },
            "pure",
            1_000,
        ),
        ActionSpec("bare.call", {"type": "object", "properties": {}}, "pure", 1_000),
    )
}
ALL = {**CATALOG, **FOREIGN}
WORDS = st.text(st.characters(categories=("L", "N")), min_size=12, max_size=40).map(lambda text: f"About {text}")
"""Texts that are no placeholder and no words of the instructions."""


@st.composite
def asked(draw: st.DrawFn) -> Told:
    """A task in some state: with documents, connections, lists of actions and criteria of any number."""
    number = draw(st.integers(0, 60))
    opening: dict[str, Any] = {
        "documents": tuple(document(f"file {at}.pdf", document_id=f"d-{at}") for at in range(number)),
        "connections": tuple(draw(st.lists(st.sampled_from(["crm", "archive", "mail"]), unique=True))),
        "denied_methods": tuple(draw(st.lists(st.sampled_from(["web", "ai.process", "crm.*"]), unique=True))),
    }
    criteria = tuple(f"Point {at} is named." for at in range(1, draw(st.integers(1, 10)) + 1))
    return Told().tell(requested(**opening), planned(success_criteria=criteria))


def admitted(schema: Any) -> st.SearchStrategy[Any]:
    """Any value that the schema admits."""
    if not isinstance(schema, dict) or not schema:
        return st.recursive(st.none() | st.booleans() | WORDS, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return st.one_of([admitted(each) for each in schema[word]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of([admitted({**schema, "type": each}) for each in kind])
    return _OF_TYPE[kind](schema)


def _object(schema: Schema) -> st.SearchStrategy[Any]:
    members = schema.get("properties", {})
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: admitted(inner) for name, inner in members.items() if name in required},
        optional={name: admitted(inner) for name, inner in members.items() if name not in required},
    )


def _text(schema: Schema) -> st.SearchStrategy[Any]:
    if "pattern" in schema:
        written = st.from_regex(schema["pattern"].removeprefix("^").removesuffix("$"), fullmatch=True)
        return written.filter(lambda text: len(text) <= schema.get("maxLength", 400))
    return WORDS.map(lambda text: text[: schema.get("maxLength", 100)])


def _integer(schema: Schema) -> st.SearchStrategy[Any]:
    return st.integers(schema.get("minimum", -(2**50)), schema.get("maximum", 2**50))


def _number(schema: Schema) -> st.SearchStrategy[Any]:
    return st.floats(
        schema.get("minimum", schema.get("exclusiveMinimum", -1e9)),
        schema.get("maximum", 1e9),
        exclude_min="exclusiveMinimum" in schema,
        allow_nan=False,
    )


def _list(schema: Schema) -> st.SearchStrategy[Any]:
    most = schema.get("maxItems", 3)
    least = schema.get("minItems", 0)
    return st.lists(admitted(schema.get("items")), min_size=least, max_size=max(least, min(most, 3)))


_OF_TYPE: Mapping[Any, Callable[[Schema], st.SearchStrategy[Any]]] = {
    "object": _object,
    "array": _list,
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
    None: lambda _: st.none(),
}


def in_numbers(few: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A law of drawn data, looked at in a few examples, and in 10,000 where there is time (`-m soak`)."""

    def wrapped(law: Callable[..., None]) -> Callable[..., None]:
        def test(examples: int, **fixed: Any) -> None:
            @settings(max_examples=examples, deadline=None)
            @given(st.data())
            def holds(data: st.DataObject) -> None:
                law(data=data, **fixed)

            holds()

        others = [each for each in inspect.signature(law).parameters.values() if each.name != "data"]
        number = inspect.Parameter("examples", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([number, *others])  # type: ignore[attr-defined] # which fixtures it has
        test.__name__, test.__doc__ = law.__name__, law.__doc__
        many = pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])
        return pytest.mark.parametrize("examples", [few, many])(test)

    return wrapped


def select(workflow: Workflow, said: Any) -> SelectionAnswer:
    """The answer of stage 1, checked as the selector checks it."""
    prompt = generate_react_plan_selection_prompt(workflow, ALL)
    answer = read(json.dumps(said), SelectionAnswer, forbidden=FORBIDDEN, prompt=prompt).answer
    spec = check_action(answer.action, workflow, ALL)
    check_schema(answer.parameters_schema, spec)
    check_documents(answer.required_input_documents, spec)
    at_hand = documents_at_hand(workflow)
    resolve([as_listed(each, at_hand) for each in answer.required_input_documents], at_hand)
    check_connection(answer.required_connection, workflow, spec)
    return answer


@pytest.mark.req("P-02")
@in_numbers(50)
def test_every_selection_that_the_schema_admits_is_accepted(data: st.DataObject) -> None:
    """But a reference that is only described, where there are too many to list, may name none."""
    workflow = data.draw(asked()).workflow
    schema = selection_schema(workflow, ALL)
    assert schema is not None
    if len(documents_at_hand(workflow).get("round1_request", ())) < 50:
        select(workflow, data.draw(admitted(schema)))


@pytest.mark.req("P-02")
@in_numbers(50)
def test_every_selection_that_is_accepted_is_admitted(data: st.DataObject) -> None:
    workflow = data.draw(asked()).workflow
    at_hand = documents_at_hand(workflow)
    listed = [f"docItem:{one.document_id}:{one.document_name}" for held in at_hand.values() for one in held]
    name = data.draw(st.sampled_from(sorted(ALL)))
    own = fields_of(None, ALL[name])
    said = {
        "action": name,
        "actionObjective": data.draw(WORDS),
        "requiredInputDocuments": data.draw(st.lists(st.sampled_from(listed), max_size=4)) if listed else [],
        "requiredConnection": data.draw(st.sampled_from([None, "crm", "archive", "mail"])),
        "parametersSchema": data.draw(
            st.none()
            | (
                st.lists(st.sampled_from(own), unique_by=lambda field: field.name).map(
                    lambda fields: {"fields": [{"name": each.name, "type": each.type} for each in fields]}
                )
                if own
                else st.none()
            )
        ),
    }
    schema = selection_schema(workflow, ALL)
    assert schema is not None
    if name in WEB and reads_documents_first(workflow):
        return
    try:
        select(workflow, said)
    except Exception:  # noqa: BLE001 - whatever the checks refuse is none of this law's
        return
    Draft202012Validator(schema).validate(said)


@pytest.mark.req("P-02")
@pytest.mark.parametrize(
    ("prompt", "documents", "is_offered"),
    [
        ("When does the exhibition open?", True, False),
        ("When does the exhibition open?", False, True),
        ("Look on the web: when does the exhibition open?", True, True),
        ("Compare it with https://museum.example/hours", True, True),
        ("Was steht dazu im Internet?", True, True),
    ],
)
def test_the_web_waits_for_the_documents_that_were_handed_over(prompt: str, documents: bool, is_offered: bool) -> None:
    given = (document("letter.txt"),) if documents else ()
    told = Told().tell(requested(prompt=prompt, documents=given), planned())
    offered = {one["properties"]["action"]["enum"][0] for one in _offered(told)}
    assert ("web.search" in offered) == is_offered
    assert "web.search" in {
        one["properties"]["action"]["enum"][0] for one in _offered(told.tell(*step(1, decision="continue")))
    }


def _offered(told: Told) -> list[Any]:
    schema = selection_schema(told.workflow, ALL)
    assert schema is not None
    return list(schema["anyOf"])


@pytest.mark.req("P-04")
@in_numbers(50)
def test_all_parameters_that_the_schema_admits_are_accepted(data: st.DataObject) -> None:
    spec = ALL[data.draw(st.sampled_from(sorted(ALL)))]
    own = fields_of(None, spec)
    kept = [field for field in own if field.required or data.draw(st.booleans())]
    schema = parameters_schema(kept, spec)
    said = data.draw(admitted(schema))
    answer = read(json.dumps(said), ParametersAnswer).answer
    complete_parameters(
        answer.parameters,
        fields=kept,
        spec=spec,
        documents=["docList:round1_request"],
        connection="crm",
        defaults=defaults(spec, Told().tell(requested(), planned()).workflow),
    )


@pytest.mark.parametrize("stage", ["plan", "refine", "review"])
@in_numbers(50)
def test_every_plan_and_every_judgement_that_the_schema_admits_is_accepted(stage: str, data: st.DataObject) -> None:
    prompt, kind = judged(stage, data.draw(asked()))
    assert prompt.answer_schema is not None
    said = data.draw(admitted(prompt.answer_schema))
    answer = read(json.dumps(said), kind, prompt=prompt).answer
    if isinstance(answer, PlanningAnswer):
        assert all(TaskPlan(**dict(task)) for task in answer.tasks)
    elif "criteriaProgress" in said:
        assert [each.met for each in answer.criteria_progress] == [
            each["met"] for each in said["criteriaProgress"].values()
        ]


def judged(stage: str, told_: Told) -> tuple[Prompt, type[Any]]:
    """The prompt of a stage, and its answer."""
    if stage == "plan":
        return generate_planning_prompt(told_.workflow, ALL), PlanningAnswer
    at = At()
    told_.tell(at.selected(), at.parameters(), at.started(), at.done(), at.observed())
    if stage == "refine":
        observation = told_.workflow.step.observation
        assert observation is not None
        return create_refinement_prompt(told_.workflow, observation.observation), RefinementAnswer
    told_.tell(at.refined(decision="stop"))
    return create_review_prompt(told_.workflow), ReviewAnswer


@pytest.mark.parametrize("provider", get_args(Provider))
@in_numbers(25)
def test_each_provider_takes_the_schema_and_what_it_admits_is_admitted_there(
    provider: Provider, data: st.DataObject
) -> None:
    """What a dialect drops only widens it; it is held to in words, and by the check."""
    workflow = data.draw(asked()).workflow
    spec = ALL[data.draw(st.sampled_from(sorted(ALL)))]
    schema = data.draw(
        st.sampled_from([selection_schema(workflow, ALL), parameters_schema(fields_of(None, spec), spec)])
    )
    assert schema is not None
    sent, strict = told(schema, provider)
    if strict:
        RULES.get(provider, openai_strict)(sent)
    said = data.draw(admitted(whole(schema)))
    wrapped = {"answer": said} if sent["properties"].keys() == {"answer"} else said
    Draft202012Validator(sent).validate(wrapped)


RULES: Mapping[Provider, Callable[[Mapping[str, Any]], None]] = {"azure": azure_strict, "anthropic": anthropic_strict}


def whole(schema: Any) -> Any:
    """The schema in which nothing is left out."""
    if isinstance(schema, list):
        return [whole(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inside = {word: whole(inner) for word, inner in schema.items()}
    return {**inside, "required": list(schema["properties"])} if isinstance(schema.get("properties"), dict) else inside


def test_the_schema_is_the_same_while_the_state_is() -> None:
    first, again = (Told().tell(requested(), planned()).workflow for _ in range(2))
    assert json.dumps(selection_schema(first, ALL)) == json.dumps(selection_schema(again, dict(reversed(ALL.items()))))


def test_an_action_that_works_on_documents_is_no_choice_without_any() -> None:
    workflow = Told().tell(requested(documents=()), planned()).workflow
    schema = selection_schema(workflow, CATALOG)
    assert schema is not None
    chosen = {each["properties"]["action"]["enum"][0] for each in schema["anyOf"]}
    assert chosen == {"ai.process", "web.scrape", "web.search"}
