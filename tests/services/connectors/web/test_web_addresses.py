"""Which addresses of the web a workflow knows: what people and results gave, never what a model wrote (S4)."""

from typing import Any

import pytest
from processor_time import within

from builders import At, Told, document, planned, requested
from poweron_events.event import DocumentRef, WebPage
from poweron_events.fold.state import ChatMessage
from poweron_services.decider.authorship import written_by_model
from poweron_services.decider.validation import NotAllowed
from poweron_services.decider.web_addresses import (
    addresses_in,
    canonical,
    check_addresses,
    is_known,
    known_addresses,
    texts_of,
)

PAGE = WebPage(
    url="https://museum.example/prices", fetched_at="2026-11-23T10:00:00Z", sha256="ab" * 32, content="cd" * 32
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See https://a.example/b.", ("https://a.example/b",)),
        ("(https://a.example/b)", ("https://a.example/b",)),
        ("https://a.example/Rust_(a), HTTP://B.example!", ("https://a.example/Rust_(a)", "HTTP://B.example")),
        ("[https://a.example](https://b.example/x)", ("https://a.example", "https://b.example/x")),
        ("<https://a.example/?q=1&r=2>", ("https://a.example/?q=1&r=2",)),
        ("„https://a.example/“ und »https://b.example«", ("https://a.example/", "https://b.example")),
        (r"http:\\a.example\b and http:/c.example", (r"http:\\a.example\b", "http:/c.example")),
        ("twice: https://a.example https://a.example", ("https://a.example",)),
        ("an e-mail to ada@a.example, ftp://a.example, report.pdf", ()),
        (f"https://a.example/{'x' * 3_000}", ()),
    ],
)
def test_the_addresses_in_a_text_are_found_without_the_punctuation_behind_them(
    text: str, found: tuple[str, ...]
) -> None:
    assert addresses_in(text) == found


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("HTTPS://A.example:443/b/../c#d", "https://a.example/c"),
        ("http:a.example", "http://a.example/"),
        ("https://müller.example/ä", "https://xn--mller-kva.example/%C3%A4"),
        ("https://", None),
        ("javascript:alert(1)", None),
        (f"https://a.example/{'x' * 3_000}", None),
    ],
)
def test_an_address_has_one_form_whoever_wrote_it(address: str, written: str | None) -> None:
    assert canonical(address) == written


def said(kind: str, text: str, **fields: object) -> ChatMessage:
    return ChatMessage(seq=0, time_ms=0, kind=kind, status="step", round=1, message=text, **fields)  # type: ignore[arg-type]


@pytest.mark.req("S4")
def test_known_is_what_requests_say_what_results_link_to_and_where_their_pages_are() -> None:
    known = known_addresses(
        [
            said("workflow_start", "Read https://a.example/x?y=1 and museum.example/prices."),
            said("step", "", links=("https://linked.example/next",)),
            said("step", "", documents=(document("page.md", page=PAGE),)),
        ]
    )
    for address in (
        "https://a.example/x?y=1",
        "https://A.example/x?y=1#top",
        "https://museum.example/prices",
        "http://museum.example/prices",
        "https://linked.example/next",
    ):
        assert is_known(address, known), address


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    "made_up",
    [
        "https://a.example/x?y=1&q=SECRET",
        "https://a.example/x",
        "https://a.example/",
        "http://a.example/x?y=1",
        "https://a.example.attacker.example/x?y=1",
        "https://user@a.example/x?y=1",
        "https://a.example:8443/x?y=1",
    ],
)
def test_an_address_that_was_changed_in_any_way_is_not_known(made_up: str) -> None:
    known = known_addresses([said("workflow_start", "Read https://a.example/x?y=1")])
    assert not is_known(made_up, known)
    with pytest.raises(NotAllowed) as refused:
        check_addresses([f"Fetch {made_up} now"], known)
    assert refused.value.code == "address_unknown"
    assert "SECRET" not in f"{refused.value} {refused.value.detail}"


@pytest.mark.req("S4")
@pytest.mark.parametrize("kind", ["task_start", "step", "task_end", "round_end"])
def test_what_a_model_said_makes_no_address_known(kind: str) -> None:
    assert known_addresses(
        [said(kind, "See https://attacker.example/?q=SECRET", learnings=("https://b.example",))]
    ) == (frozenset())


@pytest.mark.req("S4")
def test_no_depth_hides_an_address_in_parameters() -> None:
    hidden = {"query": "museums", "includeDomains": [{"x": ["https://attacker.example/?q=SECRET"]}]}
    with pytest.raises(NotAllowed, match="attacker"):
        check_addresses(texts_of(hidden), frozenset())  # type: ignore[arg-type]


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    ("label", "name", "told", "by_model"),
    [
        ("round1_request", "notes.md", {}, False),
        ("round1_task1_action1_extract", "notes.pdf.md", {}, False),
        ("round1_task1_action1_extract", "extract.md", {}, True),
        ("round1_task1_action3_extract", "answer.md.md", {"by_model": True}, True),
        ("round1_task1_action1_search", "answer.md", {"by_model": True}, True),
        ("round1_task1_action12_crawl", "page.md", {"page": PAGE}, False),
        ("round1_task1_action2_process", "answer.md", {}, True),
        ("round1_task1_action2_generate_report", "report.md", {}, True),
        ("round1_task1_action2_invent", "a.md", {}, True),
    ],
)
def test_a_document_is_a_models_where_its_event_says_so_or_else_unless_it_was_handed_over_or_read(
    label: str, name: str, told: dict[str, Any], by_model: bool
) -> None:
    held = document(name, **told)
    other: dict[str, tuple[DocumentRef, ...]] = {"round1_request": (document("other.pdf"),)}
    assert written_by_model(held, other | {label: (held,)}) is by_model


@pytest.mark.req("S4")
def test_a_document_of_which_nobody_knows_whose_it_is_counts_as_a_models() -> None:
    told = Told().tell(requested(), planned(), At().selected())
    assert written_by_model(document("lost.md"), {"round1_request": told.workflow.current.opening.documents})


@pytest.mark.req("X-06")
@pytest.mark.parametrize("address", ["http://a", "a.example/"])
def test_an_address_with_much_punctuation_behind_it_takes_no_long_time(address: str) -> None:
    with within(1):
        known_addresses([said("workflow_start", address + ")" * 80_000)])
