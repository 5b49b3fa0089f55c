"""Schemas of somebody else's server: each is understood, or refused with a sentence; none hangs, crashes or fetches."""

import socket
import time
from typing import Any

import pytest
from hypothesis import given as supposing
from hypothesis import settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from builders import Told, planned, requested
from poweron_events.catalog import ActionSpec
from poweron_events.json_schema import UnusableSchema
from poweron_events.step_events import ParametersSchema, SchemaField
from poweron_services.decider.schema_check import (
    ENDLESS,
    Unfit,
    _schema_checker,
    check_description,
    check_values,
    pattern_cost,
)
from poweron_services.decider.validation import (
    Completed,
    NotAllowed,
    check_connection,
    check_schema,
    complete_parameters,
    fields_of,
)

TEXT = {"type": "string"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("somebody wants to reach the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def described(schema: Any) -> ActionSpec:
    spec = ActionSpec("my-server.do_it", schema, "at_most_once", 1_000)
    check_description(spec)
    return spec


def complete(schema: Any, given: dict[str, Any], documents: tuple[str, ...] = ()) -> Completed:
    spec = described(schema)
    return complete_parameters(given, fields=fields_of(None, spec), spec=spec, documents=documents, defaults={})


def becomes(schema: Any, value: Any) -> Any:
    return complete({"properties": {"x": schema}}, {"x": value}).parameters["x"]


# --- understood -----------------------------------------------------------------------------------

ISSUE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$ref": "#/definitions/Issue",
    "definitions": {
        "Issue": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "What it is\nabout", "minLength": 1},
                "state": {"anyOf": [{"$ref": "#/definitions/State"}, {"type": "null"}], "default": None},
                "priority": {"oneOf": [{"const": 1, "title": "high"}, {"const": 2, "title": "low"}]},
                "labels": {"type": ["array", "null"], "items": TEXT, "uniqueItems": True},
                "size": {"$ref": "#/definitions/Size", "description": "How large"},
                "place": {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]},
                "weight": {"type": ["number", "string"]},
                "draft": {"type": "boolean", "default": "broken"},
                "anything": True,
                "documentList": {"type": "array", "items": TEXT},
                "connectionReference": TEXT,
            },
            "required": ["title", "documentList"],
            "additionalProperties": False,
        },
        "State": {"type": "string", "enum": ["open", "Closed"]},
        "Size": {"type": "integer", "minimum": 1, "default": 3},
    },
}


@pytest.mark.req("P-03")
def test_stage_two_is_told_the_fields_of_a_foreign_schema() -> None:
    spec = described(ISSUE)
    assert spec.parameter_names[:2] == ("title", "state")
    told = {field.name: (field.type, field.required, field.description) for field in fields_of(None, spec)}
    assert told == {
        "title": ("string", True, "What it is about"),
        "state": ("enum", False, "one of open, Closed"),
        "priority": ("enum", False, "one of 1, 2"),
        "labels": ("object", False, ""),
        "size": ("number", False, "How large"),
        "place": ("object", False, ""),
        "weight": ("number", False, ""),
        "draft": ("boolean", False, ""),
        "anything": ("object", False, ""),
    }


@pytest.mark.req("D-04")
@pytest.mark.req("P-05")
def test_values_are_made_to_fit_a_foreign_schema_and_its_defaults_are_filled_in() -> None:
    given = {
        "title": 2026,
        "state": " closed ",
        "priority": "2",
        "labels": "roof",
        "place": {"page": "7", "more": "8"},
        "weight": "5",
        "connectionReference": "crm",
        "colour": "red",
    }
    found = complete(ISSUE, given, documents=("docList:round1_request",))
    assert found.parameters == {
        "title": "2026",
        "state": "Closed",
        "priority": 2,
        "labels": ["roof"],
        "place": {"page": 7, "more": "8"},
        "weight": "5",
        "size": 3,
        "documentList": ["docList:round1_request"],
    }
    assert found.defaulted == ("size",)
    assert found.dropped == ("colour", "connectionReference")


@pytest.mark.req("D-02")
@pytest.mark.parametrize(("depths", "filled"), [(["basic", "advanced"], "advanced"), (["flat", "deep"], "flat")])
def test_a_default_of_ours_that_another_schema_does_not_take_is_left_out(depths: list[str], filled: str) -> None:
    spec = described({"properties": {"searchDepth": {"enum": depths, "default": depths[0]}}})
    found = complete_parameters(
        {}, fields=(), spec=spec, documents=(), defaults={"searchDepth": "advanced", "timeRange": "day"}
    )
    assert (found.parameters, found.defaulted) == ({"searchDepth": filled}, ("searchDepth",))


@pytest.mark.req("P-02")
def test_a_connection_that_a_foreign_schema_asks_for_is_that_of_stage_one() -> None:
    spec = described({"properties": {"connectionReference": TEXT, "title": TEXT}, "required": ["connectionReference"]})
    asked = fields_of(None, spec)
    found = complete_parameters({"title": "A"}, fields=asked, spec=spec, documents=(), connection="crm", defaults={})
    assert [field.name for field in asked] == ["title"]
    assert (found.parameters, found.defaulted) == ({"title": "A", "connectionReference": "crm"}, ())
    workflow = Told().tell(requested(connections=("crm",)), planned()).workflow
    check_connection("crm", workflow, spec)
    with pytest.raises(NotAllowed, match="needs a connection, known are crm") as refused:
        check_connection(None, workflow, spec)
    assert refused.value.code == "connection_missing"


@pytest.mark.req("P-02")
def test_stage_one_names_no_documents_and_nothing_that_a_foreign_schema_does_not_hold() -> None:
    for name, said in (("documentList", "must not hold 'documentList'"), ("colour", "'colour' is no parameter of")):
        with pytest.raises(NotAllowed, match=said):
            check_schema(ParametersSchema(fields=(SchemaField(name=name),)), described(ISSUE))


@pytest.mark.req("D-04")
@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (TEXT, [1], "x must be a text"),
        ({"type": "integer"}, 5.5, "x must be a whole number"),
        ({"type": "integer", "maximum": 4}, "5", "x must be at most 4"),
        ({"type": "number"}, "five", "x must be a number"),
        ({"type": ["number", "boolean"]}, "five", "x must be number or boolean"),
        ({"enum": ["a", 1, None]}, "b", "x must be 'a' or 1"),
        ({"const": "a"}, 1, "x must be 'a'"),
        ({"type": "string", "maxLength": 3}, "roof", "x must have at most 3 characters"),
        ({"type": "array", "maxItems": 1}, [1, 2], "x must have at most 1 entry"),
        ({"type": "array", "uniqueItems": True}, [1, 1], "x does not keep the rule 'uniqueItems' of its schema"),
        ({"type": "array", "items": {"type": "integer"}}, [1, "a"], "x.1 must be a whole number"),
        ({"type": "string", "pattern": "^a$"}, "a\n", r"x: String should match pattern '^a$'"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "a", "x must be a whole number"),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "a", "x does not keep the rule 'anyOf' of its schema"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, "x does not keep the rule 'oneOf' of its schema"),
        ({"type": "object", "required": ["a", "b"]}, {"a": 1}, "x.b is missing"),
        ({"properties": {}, "additionalProperties": False}, {"a": 1}, "x.a is not a known field"),
        ({"not": {}}, 1, "x does not keep the rule 'not' of its schema"),
        (False, 1, "data holds what must not be there"),
    ],
)
def test_a_value_that_does_not_fit_a_foreign_schema_is_refused_with_a_sentence(
    schema: Any, value: Any, said: str
) -> None:
    with pytest.raises(NotAllowed) as raised:
        becomes(schema, value)
    assert str(raised.value) == f"The parameters do not fit my-server.do_it: {said}."


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"type": "object", "additionalProperties": True}, {"properties": {}}]
)
def test_an_action_whose_schema_names_no_parameters_gets_none(schema: Any) -> None:
    found = complete(schema, {"x": 1})
    assert (found.parameters, found.dropped) == ({}, ("x",))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "date"}, "no date"),  # a format is a remark, not a rule
        ({"type": "string", "pattern": r"^\p{L}+$"}, "Straße"),
        ({"enum": ["a", "A"]}, "A"),
        ({"type": "integer", "nullable": True}, 1),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, 1),
        ({"properties": {"$ref": TEXT, "pattern": TEXT}}, {"$ref": "a", "pattern": "("}),
    ],
)
def test_odd_schemas_are_understood(schema: Any, value: Any) -> None:
    assert becomes(schema, value) == value


# --- refused --------------------------------------------------------------------------------------


def doubling(depth: int) -> dict[str, Any]:
    """Each definition names the next one twice."""
    parts: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**parts, f"d{depth}": {}}}


def nested(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"properties": {"x": schema}}
    return schema


LOOP: dict[str, Any] = {"type": "object"}
LOOP["properties"] = {"x": LOOP}


@pytest.mark.req("X-06")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (True, "schema of an object"),
        (False, "schema of an object"),
        (None, "schema of an object"),
        ([], "schema of an object"),
        ("{}", "schema of an object"),
        ({"type": "string"}, "schema of an object"),
        ({"type": ["object", "null"]}, "schema of an object"),
        ({"properties": []}, "'properties' of the schema holds list"),
        ({"properties": {"x": 1}}, "holds int where a schema is expected"),
        ({"properties": {"x": {"type": "text"}}}, "described by no usable schema: 'text' is not valid"),
        ({"properties": {"x": {"enum": 5}}}, "described by no usable schema"),
        ({"properties": {"x": {"minLength": "a"}}}, "described by no usable schema"),
        ({"properties": {"x": {"items": [TEXT]}}}, "holds list where a schema is expected"),
        ({"properties": {"x": {"anyOf": {}}}}, "'anyOf' of the schema holds dict"),
        ({"required": "x"}, "`required`"),
        ({"required": ["x"]}, "requires 'x', which it does not describe"),
        ({"properties": {"": {}}}, "'' is no name of a parameter"),
        ({"properties": {"x\n=== rules ===": {}}}, "is no name of a parameter"),
        ({"properties": {"x" * 101: {}}}, "is no name of a parameter"),
        ({"properties": {f"x{n}": {} for n in range(51)}}, "has 51 parameters, more than 50"),
        ({"$ref": "https://example.com/schema.json"}, "a reference to something outside"),
        ({"properties": {"x": {"$ref": "file:///etc/passwd"}}}, "a reference to something outside"),
        ({"properties": {"x": {"$ref": "other.json#/a"}}}, "a reference to something outside"),
        ({"properties": {"x": {"$ref": "#name"}}}, "a reference to something outside"),
        ({"properties": {"x": {"$ref": 5}}}, "a reference to something outside"),
        ({"properties": {"x": {"$ref": "#/$defs/none"}}}, "names nothing in the schema"),
        ({"properties": {"x": {"$id": "https://example.com/", "type": "string"}}}, "must not hold '$id'"),
        ({"properties": {"x": {"$dynamicRef": "#x"}}}, "must not hold '$dynamicRef'"),
        ({"patternProperties": {"(a+)+$": {}}}, "must not hold 'patternProperties'"),
        ({"unevaluatedProperties": False}, "must not hold 'unevaluatedProperties'"),
        ({"$ref": "#"}, "'#' of the schema refers to itself"),
        ({"properties": {"x": {"$ref": "#"}}}, "'#' of the schema refers to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "refers to itself"),
        (LOOP, "no JSON"),
        ({"properties": {"x": {"default": object()}}}, "no JSON"),
        ({"properties": {"x": {"default": "\ud800"}}}, "no JSON"),
        (nested(40), "nested more than 32 deep"),
        (nested(5_000), "no JSON"),
        (doubling(14), "more than 5000 values"),
        ({"properties": {"x": {"enum": ["a" * 300_000]}}}, "more than 200000"),
        ({"properties": {"x": {"enum": list(range(6_000))}}}, "more than 5000 values"),
        ({"properties": {"x": {"pattern": "("}}}, "described by no usable schema: the pattern '(' cannot be used."),
        ({"properties": {"x": {"pattern": r"(a)\1"}}}, "described by no usable schema"),
        ({"properties": {"x": {"pattern": "(?=a)"}}}, "described by no usable schema"),
        ({"properties": {"x": {"pattern": "((a{0,90}){0,90}){0,9}"}}}, "take too long to check"),
        ({"properties": {f"x{n}": {"pattern": "^.{0,100}z"} for n in range(9)}}, "take too long to check"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_a_sentence(schema: Any, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(UnusableSchema) as raised:
        described(schema)
    assert why in str(raised.value)
    assert len(str(raised.value)) < 400
    assert time.monotonic() - began < 5


@pytest.mark.req("X-06")
@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "^([a-zA-Z]+)*$", r"(\w+\s?)*!", r"^(\w*\s*){20}\d$"]
)
def test_a_pattern_that_others_never_end_with_is_checked_in_time_that_grows_with_the_text(pattern: str) -> None:
    spec = described({"properties": {"x": {"type": "string", "pattern": pattern}}})
    began = time.monotonic()
    with pytest.raises(Unfit, match="should match pattern"):
        check_values({"x": "a" * 50_000 + "\n"}, spec)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("pattern", "cost"),
    [
        ("abc", 3),
        ("a{5}", 5),
        ("(ab){2,5}", 10),
        ("(?:a{3}b){3}c", 13),
        (r"\w{10}", 40),
        ("[a-z]{0,61}", 61),
        (r"[\w-]{10}", 40),
        ("a{0}b*", 2),
        (r"\(a{3}\)", 5),
        ("a" * 1_001, ENDLESS),
        ("(?x)(a #\n)", ENDLESS),
        ("(a{50}[[x](] ){50}", ENDLESS),
        ("(a{50}[](] ){50}", ENDLESS),
        ("(a{50}[^](] ){50}", ENDLESS),
        ("a)", ENDLESS),
    ],
)
def test_what_a_pattern_costs_is_counted(pattern: str, cost: int) -> None:
    assert pattern_cost(pattern) == cost


@pytest.mark.req("X-06")
def test_more_values_than_can_be_checked_are_refused() -> None:
    kinds = [{"type": "object", "required": [f"a{n}"]} for n in range(400)]
    spec = described({"properties": {"x": {"type": "array", "items": {"anyOf": kinds}}}})
    with pytest.raises(Unfit, match="more values than can be checked"):
        check_values({"x": [{}] * 10_000}, spec)


# --- laws -----------------------------------------------------------------------------------------

KEYWORDS = [
    *("type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "enum", "const", "default", "$ref"),
    *("pattern", "minimum", "multipleOf", "maxLength", "minItems", "uniqueItems", "additionalProperties", "$defs"),
    *("description", "format", "if", "then", "contains", "propertyNames", "prefixItems", "dependentSchemas", "$id"),
]
WORDS = st.sampled_from(
    ["string", "integer", "object", "array", "null", "x", "#", "#/$defs/x", "#/properties/x", "(a+)+$", "hostname", "5"]
)
VALUES = st.none() | st.booleans() | st.integers(-5, 50) | st.floats() | WORDS | st.text(max_size=5)
ANYTHING = st.recursive(
    VALUES,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS) | WORDS, each, max_size=4),
    max_leaves=25,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries({}, optional={"type": KINDS | st.lists(KINDS, min_size=1, unique=True), "default": VALUES})
    | st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=3)})
    | st.fixed_dictionaries({"$ref": st.sampled_from(["#", "#/$defs/x", "#/$defs/y"])}),
    lambda each: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["x", "y", "documentList"]), each, max_size=3),
            "items": each,
            "anyOf": st.lists(each, min_size=1, max_size=3),
            "allOf": st.lists(each, min_size=1, max_size=2),
            "additionalProperties": each,
            "not": each,
            "pattern": st.sampled_from(["^a", "(a|a)*$", "("]),
            "minimum": st.integers(-5, 5),
            "format": st.just("hostname"),
        },
    ),
    max_leaves=12,
)
OBJECTS = st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from(["x", "y", "documentList"]), SCHEMAS, max_size=3)},
    optional={
        "$defs": st.fixed_dictionaries({"x": SCHEMAS, "y": SCHEMAS}),
        "required": st.lists(st.sampled_from(["x", "y"]), unique=True),
        "additionalProperties": st.booleans(),
        "type": st.just("object"),
    },
)


def test_values_that_were_found_to_fit_come_anew_each_time() -> None:
    spec = described({"properties": {"x": {"type": "array"}}})
    first = check_values({"x": [1]}, spec)
    first["x"] = "changed"
    assert check_values({"x": [1]}, spec) == {"x": [1]}


def test_values_that_fit_one_schema_do_not_fit_another_of_that_name() -> None:
    assert check_values({"x": 7}, described({"properties": {"x": {"maximum": 9}}})) == {"x": 7}
    for _ in range(2):
        with pytest.raises(Unfit, match="x must be at most 5"):
            check_values({"x": 7}, described({"properties": {"x": {"maximum": 5}}}))


def test_schemas_that_differ_in_their_order_alone_keep_it() -> None:
    for names in (["x", "y"], ["y", "x"]):
        spec = described({"properties": {name: {} for name in names}})
        assert [field.name for field in fields_of(None, spec)] == names


@supposing(st.dictionaries(st.sampled_from(KEYWORDS), ANYTHING | SCHEMAS, max_size=4) | ANYTHING | OBJECTS)
def test_a_schema_is_one_by_the_metaschema_put_together_where_it_is_one_by_the_draft(schema: Any) -> None:
    draft = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    assert _schema_checker().is_valid(schema) == draft.is_valid(schema)


@pytest.mark.req("X-06")
@settings(deadline=5_000)
@supposing(ANYTHING | OBJECTS, st.dictionaries(st.sampled_from(["x", "y", "z", "documentList"]), ANYTHING, max_size=4))
def test_whatever_a_schema_holds_it_is_refused_or_any_answer_fits_or_is_refused(schema: Any, given: Any) -> None:
    try:
        spec = described(schema)
    except UnusableSchema:
        return
    fields = fields_of(None, spec)
    assert [field.name for field in fields] == list(spec.business_parameters)
    try:
        found = complete_parameters(given, fields=fields, spec=spec, documents=("docList:a",), defaults={})
    except NotAllowed:
        return
    assert set(found.parameters) <= set(spec.parameter_names)
    assert check_values(found.parameters, spec) == found.parameters
    again = complete_parameters(found.parameters, fields=fields, spec=spec, documents=("docList:a",), defaults={})
    assert again.parameters == found.parameters
