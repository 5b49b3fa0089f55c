"""The catalog: the six actions as data, by the same rules for each."""

import re

import pytest
from pydantic import TypeAdapter

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.event import ActionName

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
        "document.generateReport": ("documentList", "title"),
    }


@pytest.mark.req("C-09")
@SPECS
def test_an_action_says_its_effect_class_and_its_limit(spec: ActionSpec) -> None:
    assert spec.effect_class in ("pure", "idempotent")
    assert 1_000 <= spec.limit_ms <= 600_000


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
