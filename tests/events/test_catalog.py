"""The catalog: the six actions as data, by the same rules for each."""

import re

import pytest
from pydantic import TypeAdapter, ValidationError

from poweron_events.catalog import CATALOG, ActionSpec, Reference, meaningless
from poweron_events.event import ActionName, ActionPattern
from poweron_events.fold.history import list_reference
from poweron_events.fold.state import action_label
from poweron_events.step_events import ActionSelection

SPECS = pytest.mark.parametrize("spec", CATALOG.values(), ids=lambda spec: spec.name)


@pytest.mark.req("C-08")
def test_these_are_the_actions() -> None:
    assert {name: spec.parameter_names for name, spec in CATALOG.items()} == {
        "web.search": (
            *("query", "maxResults", "searchDepth", "timeRange", "topic", "includeDomains", "excludeDomains"),
            *("language", "includeAnswer", "includeRawContent"),
        ),
        "web.scrape": (
            *("query", "maxResults", "searchDepth", "timeRange", "topic", "includeDomains", "excludeDomains"),
            *("language", "includeAnswer", "includeRawContent", "extractDepth", "format"),
        ),
        "web.crawl": ("documentList", "extractDepth", "format"),
        "ai.process": (
            *("documentList", "aiPrompt", "processingMode", "includeMetadata", "customInstructions"),
            "expectedDocumentFormats",
        ),
        "document.extract": ("documentList", "aiPrompt"),
        "document.generateReport": ("documentList", "title", "expectedDocumentFormats"),
    }


@pytest.mark.req("C-09")
@SPECS
def test_an_action_says_its_effect_class_and_its_limit(spec: ActionSpec) -> None:
    assert spec.effect_class in ("pure", "idempotent")
    assert 1_000 <= spec.limit_ms <= 1_800_000


@SPECS
def test_an_action_is_listed_under_its_own_name(spec: ActionSpec) -> None:
    assert CATALOG[spec.name] is spec
    TypeAdapter(ActionName).validate_python(spec.name)


@pytest.mark.req("P-02")
@SPECS
def test_stage_2_is_never_asked_for_references(spec: ActionSpec) -> None:
    assert not {"documentList", "connectionReference"} & set(spec.business_parameters)
    assert set(spec.business_parameters) == set(spec.parameter_names) - {"documentList", "connectionReference"}


@SPECS
def test_parameters_have_wire_names(spec: ActionSpec) -> None:
    assert all(re.fullmatch(r"[a-z][A-Za-z]*", name) for name in spec.parameter_names)


@pytest.mark.req("M-01")
@pytest.mark.parametrize(
    "name", ["my-server.do_something-else", "gitHub.API-post_it", "a.b", "web-2.read_", "document.X"]
)
def test_a_name_may_hold_underscores_and_hyphens_in_both_parts(name: str) -> None:
    assert TypeAdapter(ActionName).validate_python(name) == name
    assert ActionSelection.of(name).compound == name
    method = name.partition(".")[0]
    for pattern in (name, method, f"{method}.*"):
        assert TypeAdapter(ActionPattern).validate_python(pattern) == pattern
        assert meaningless(pattern, {name}) is None


@pytest.mark.req("M-01")
@pytest.mark.parametrize(
    "name", ["a", "a.", ".b", "a.b.c", "-a.b", "_a.b", "a.-b", "a._b", "1a.b", "a.1b", "a b.c", "a.b\n", "ä.b", "A.b"]
)
def test_what_is_no_name_of_an_action_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(ActionName).validate_python(name)


@pytest.mark.req("M-08")
@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("document.generateReport", "generate_report"),
        ("my-server.do_something-else", "do_something_else"),
        ("my-server.API-getUser", "a_p_i_get_user"),
        ("my_server.get_userName", "get_user_name"),
    ],
)
def test_a_label_is_the_actions_name_in_snake_case_and_can_be_referred_to(name: str, label: str) -> None:
    assert action_label(name) == label
    TypeAdapter(Reference).validate_python(list_reference(f"round1_task1_action1_{label}"))
