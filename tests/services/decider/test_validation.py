"""Parameters, checked strictly and completed in code, for all six actions."""

from typing import Any

import pytest
from hypothesis import given as supposing
from hypothesis import strategies as st
from pydantic import ValidationError

from poweron_events import catalog
from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.codec import dumps
from poweron_events.event import Model
from poweron_events.step_events import ParametersSchema, SchemaField
from poweron_services.decider.coercion import cleaned
from poweron_services.decider.schema_check import Unfit, check_values
from poweron_services.decider.validation import Completed, NotAllowed, complete_parameters, fields_of

REQUIRED = {"web.search": "query", "web.scrape": "query", "ai.process": "aiPrompt"}
DOCUMENTS = ("docList:round1_request",)
CLASSES: dict[str, type[Model]] = {
    "web.search": catalog.WebSearchParameters,
    "web.scrape": catalog.WebScrapeParameters,
    "web.crawl": catalog.WebCrawlParameters,
    "ai.process": catalog.AiProcessParameters,
    "document.extract": catalog.DocumentExtractParameters,
    "document.generateReport": catalog.DocumentGenerateReportParameters,
}


def complete(action: str, given: dict[str, Any], **fields: Any) -> Completed:
    spec = CATALOG[action]
    told: dict[str, Any] = {"documents": DOCUMENTS, "defaults": {}, "fields": fields_of(None, spec), **fields}
    return complete_parameters(given, spec=spec, **told)


def completed(action: str, name: str, value: Any) -> Any:
    """What becomes of one parameter beside those that must be given."""
    given = {REQUIRED[action]: "roof"} if action in REQUIRED else {}
    return complete(action, {**given, name: value}).parameters[name]


@pytest.mark.req("D-04")
@pytest.mark.parametrize(
    ("action", "name", "value", "becomes"),
    [
        ("web.search", "maxResults", "5", 5),
        ("web.search", "maxResults", " 5 ", 5),
        ("web.search", "maxResults", "5.0", 5),
        ("web.search", "maxResults", 5.0, 5),
        ("web.search", "includeAnswer", "true", True),
        ("web.search", "includeAnswer", "False", False),
        ("web.search", "includeAnswer", "yes", True),
        ("web.search", "includeAnswer", "No", False),
        ("web.search", "query", 2026, "2026"),
        ("web.search", "query", "roof\r\nprice\x00\x1b[31m", "roof\nprice[31m"),
        ("web.search", "query", "roof\ud800", "roof"),
        ("web.search", "searchDepth", "Advanced", "advanced"),
        ("web.search", "topic", " NEWS ", "news"),
        ("web.search", "timeRange", "Week", "week"),
        ("web.search", "language", "de-CH", "de-CH"),
        ("web.search", "includeDomains", "example.com", ["example.com"]),
        ("web.search", "includeDomains", ["https://Example.com:8080/a/b?c#d"], ["example.com"]),
        ("web.search", "includeDomains", ["*.example.com", "example.com."], ["example.com", "example.com"]),
        ("web.search", "excludeDomains", ["www.bücher.example"], ["www.xn--bcher-kva.example"]),
        ("web.scrape", "excludeDomains", ["HTTP://a.example/path"], ["a.example"]),
        ("web.scrape", "extractDepth", "ADVANCED", "advanced"),
        ("web.crawl", "format", "Text", "text"),
        ("ai.process", "expectedDocumentFormats", "JSON", ["json"]),
        ("ai.process", "expectedDocumentFormats", ["CSV"], ["csv"]),
        ("ai.process", "includeMetadata", "false", False),
        ("document.extract", "aiPrompt", 7, "7"),
        ("document.generateReport", "title", "  ", "Report"),
        ("document.generateReport", "title", None, "Report"),
    ],
)
def test_a_value_is_made_to_fit_where_nothing_is_lost(action: str, name: str, value: Any, becomes: Any) -> None:
    found = completed(action, name, value)
    assert found == becomes
    assert type(found) is type(becomes)


@pytest.mark.req("D-04")
@pytest.mark.parametrize(
    ("action", "name", "value"),
    [
        *[
            ("web.search", "maxResults", value)
            for value in ("abc", 5.5, "5.5", True, [5], {}, "1_0", "\u0665", 0, -1, 51)
        ],
        *[("web.search", "maxResults", value) for value in (1e30, float("nan"), float("inf"), 10**40, "9" * 30)],
        *[("web.search", "includeAnswer", value) for value in (1, 0, "1", "maybe", "on", [], {"a": True})],
        *[("web.search", "query", value) for value in (True, 1.5, ["roof"], {"q": "roof"}, "x" * 401)],
        *[("web.search", "searchDepth", value) for value in ("deep", 1, ["basic"])],
        *[("web.search", "language", value) for value in ("German", "de_DE", "d", "de\nen")],
        ("web.search", "timeRange", "decade"),
        *[
            ("web.search", "includeDomains", [value])
            for value in (
                *("file:///etc/passwd", "ftp://example.com", "javascript:alert(1)", "//", "https://", ""),
                *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::1]", "http://[::1]/", "①②⑦.⓪.⓪.①"),
                *("localhost", "user@example.com", "https://user:secret@example.com", "exa mple.com", "a..example"),
                *("example.com\\@b.example", "exam%70le.com", "-a.example", f"{'a' * 64}.example", "a.example:99999"),
                *(5, None, ["example.com"]),
            )
        ],
        ("web.search", "includeDomains", [f"a{number}.example" for number in range(51)]),
        ("web.search", "includeDomains", {"a.example": True}),
        ("web.crawl", "format", "html"),
        ("ai.process", "expectedDocumentFormats", ["xml"]),
        ("ai.process", "customInstructions", "x" * 4_001),
        ("document.generateReport", "title", "x" * 201),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_a_sentence(action: str, name: str, value: Any) -> None:
    with pytest.raises(NotAllowed, match=rf"(?s)^The parameters (do not fit|of) {action}.*\.$"):
        completed(action, name, value)


@pytest.mark.req("D-04")
@pytest.mark.req("P-04")
@pytest.mark.parametrize(("action", "name"), REQUIRED.items())
@pytest.mark.parametrize("nothing", [{}, None, "", " \n", "\x00", "\ud800"])
def test_what_the_action_cannot_do_without_must_be_given(action: str, name: str, nothing: Any) -> None:
    given = {} if nothing == {} else {name: nothing}
    with pytest.raises(NotAllowed, match=f"^{name} must be given for {action}.$"):
        complete(action, given, defaults={name: "a default does not help"})


@pytest.mark.req("P-04")
def test_what_stage_one_calls_required_must_be_given() -> None:
    fields = (SchemaField(name="title", required=True), SchemaField(name="documentList", required=True))
    with pytest.raises(NotAllowed, match=r"^title must be given for document.generateReport.$"):
        complete("document.generateReport", {}, fields=fields)


@pytest.mark.req("P-04")
def test_what_was_not_asked_for_or_is_overruled_is_dropped_and_noted() -> None:
    given = {"query": "roof", "colour": "red", "timeRange": "day", "documentList": ["docList:other"], "topic": None}
    found = complete("web.search", given, overruled=("timeRange",), defaults={"searchDepth": "advanced"})
    assert found.dropped == ("colour", "documentList", "timeRange", "topic")
    assert found.parameters["timeRange"] is None
    assert found.parameters["searchDepth"] == "advanced"
    assert "searchDepth" in found.defaulted
    assert "query" not in found.defaulted


@pytest.mark.req("X-03")
@pytest.mark.req("D-04")
@pytest.mark.parametrize("action", [name for name, spec in CATALOG.items() if "documentList" in spec.parameter_names])
@pytest.mark.parametrize(
    "reference",
    [
        *("/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "C:\\secret.txt", "docList:../../etc/passwd", ""),
        *("docList:/etc/passwd", "docItem:../x:y", "docItem:/etc:passwd", "docItem:1:", "docItem:1", "doclist:a"),
        *("https://example.com/a.pdf", "docList:a\nb", " docList:a"),
    ],
)
def test_a_path_is_no_reference_to_a_document(action: str, reference: str) -> None:
    given = {REQUIRED[action]: "roof"} if action in REQUIRED else {}
    with pytest.raises(NotAllowed, match="documentList"):
        complete(action, given, documents=(reference,))


@pytest.mark.req("X-03")
@pytest.mark.parametrize("reference", ["docList:round1_task2_action3_generate_report", "docItem:r1d1:offers/a: b.pdf"])
def test_references_are_names_within_the_workflow(reference: str) -> None:
    assert complete("document.extract", {}, documents=(reference,)).parameters["documentList"] == [reference]


@pytest.mark.parametrize("action", ["web.crawl", "document.extract", "document.generateReport"])
def test_an_action_on_documents_is_refused_without_any(action: str) -> None:
    with pytest.raises(NotAllowed, match="documentList"):
        complete(action, {}, documents=())


@pytest.mark.req("P-03")
def test_stage_two_is_told_the_actions_own_types_and_choices() -> None:
    told = {field.name: (field.type, field.description) for field in fields_of(None, CATALOG["web.search"])}
    assert told == {
        "query": ("string", ""),
        "maxResults": ("number", ""),
        "searchDepth": ("enum", "one of basic, advanced"),
        "timeRange": ("enum", "one of day, week, month, year"),
        "topic": ("enum", "one of general, news, finance"),
        "includeDomains": ("object", ""),
        "excludeDomains": ("object", ""),
        "language": ("string", ""),
        "includeAnswer": ("boolean", ""),
        "includeRawContent": ("boolean", ""),
    }


@pytest.mark.req("P-03")
@pytest.mark.req("D-04")
def test_a_type_that_stage_one_has_wrong_stands_in_nobodys_way() -> None:
    schema = ParametersSchema(fields=(SchemaField(name="maxResults", type="boolean", description="How many"),))
    fields = fields_of(schema, CATALOG["web.search"])
    assert fields[0] == SchemaField(name="maxResults", type="number", description="How many")
    assert complete("web.search", {"query": "roof", "maxResults": 3}, fields=fields).parameters["maxResults"] == 3


@pytest.mark.parametrize(
    ("text", "clean"),
    [("a\tb\nc", "a\tb\nc"), ("a\rb\r\nc", "a\nb\nc"), ("\x00\x7f\x85a", "a"), ("\udc80é\U0001f600", "é\U0001f600")],
)
def test_text_loses_only_what_nobody_can_see(text: str, clean: str) -> None:
    assert cleaned(text) == clean


def anything() -> st.SearchStrategy[Any]:
    texts = st.text(st.characters(), max_size=20)  # halves of characters, too
    words = st.sampled_from(["5", "5.0", "true", "yes", "Advanced", "json", "week", "https://a.example/x", "de", ""])
    plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, words)
    return st.recursive(
        plain, lambda each: st.lists(each, max_size=3) | st.dictionaries(texts, each, max_size=3), max_leaves=6
    )


@st.composite
def answers(draw: st.DrawFn) -> tuple[ActionSpec, dict[str, Any]]:
    spec = draw(st.sampled_from(list(CATALOG.values())))
    names = st.sampled_from([*spec.parameter_names, "colour"]) | st.text(max_size=5)
    given = draw(st.dictionaries(names, anything(), max_size=6))
    if spec.name in REQUIRED and draw(st.booleans()):
        given[REQUIRED[spec.name]] = draw(st.text(min_size=1, max_size=50))
    return spec, given


@pytest.mark.req("D-04")
@supposing(answers())
def test_a_schema_made_from_a_class_takes_what_the_class_takes_and_fills_in_the_same(
    answered: tuple[ActionSpec, dict[str, Any]],
) -> None:
    spec, given = answered
    try:
        by_class = CLASSES[spec.name].model_validate_json(dumps(given), strict=True)
    except (ValidationError, TypeError, ValueError):
        with pytest.raises(Unfit):
            check_values(given, spec)
    else:
        assert check_values(given, spec) == by_class.model_dump(mode="json", by_alias=True)


def deep(depth: int = 5_000) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.req("D-04")
@pytest.mark.req("S42")
@supposing(answers())
def test_whatever_is_answered_fits_the_action_or_is_refused_and_completing_twice_changes_nothing(
    answered: tuple[ActionSpec, dict[str, Any]],
) -> None:
    spec, given = answered
    try:
        found = complete(spec.name, given)
    except NotAllowed:
        return
    CLASSES[spec.name].model_validate_json(dumps(found.parameters), strict=True)
    again = complete(spec.name, found.parameters)
    assert again.parameters == found.parameters
    assert set(found.dropped) <= set(given)
    assert set(given) - set(found.dropped) <= set(found.parameters) - set(found.defaulted)


@pytest.mark.req("S42")
@pytest.mark.parametrize("name", ["query", "maxResults", "includeDomains", "includeAnswer", "searchDepth"])
def test_what_is_nested_without_end_is_refused(name: str) -> None:
    with pytest.raises(NotAllowed):
        complete("web.search", {"query": "roof", name: deep()})
