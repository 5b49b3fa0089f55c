"""References to documents: one function resolves them."""

import pytest

from builders import At, Told, document, planned, requested
from poweron_services.decider.references import UnknownReference, as_listed, documents_at_hand, resolve

A, B = document("a.pdf", document_id="1"), document("b:c.pdf", document_id="2")


def told() -> Told:
    history = Told().tell(requested(documents=(A, B)), planned(), At().selected(), At().parameters(), At().started())
    return history.tell(At().done(documents=(document("text.md", document_id="3"),)), At().observed())


@pytest.mark.req("R-01")
@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("docList:round1_request", ["1", "2"]),
        ("docItem:1:a.pdf", ["1"]),
        ("docItem:2:b:c.pdf", ["2"]),
        ("docList:round1_task1_action1_extract", ["3"]),
    ],
)
def test_a_list_names_all_its_documents_and_an_item_one(reference: str, found: list[str]) -> None:
    assert [one.document_id for one in resolve([reference], documents_at_hand(told().workflow))] == found


@pytest.mark.req("D-04")
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("round1_request", "docList:round1_request"),
        (" a.pdf ", "docItem:1:a.pdf"),
        ("b:c.pdf", "docItem:2:b:c.pdf"),
        ("3", "docItem:3:text.md"),
        ("c.pdf", "c.pdf"),
    ],
)
def test_a_label_a_name_or_an_id_by_itself_is_enough_where_nothing_else_is_called_so(said: str, meant: str) -> None:
    assert as_listed(said, documents_at_hand(told().workflow)) == meant


@pytest.mark.req("D-04")
def test_what_two_documents_are_called_is_left_for_its_check() -> None:
    labelled = {"round1_request": (A, document("a.pdf", document_id="9"))}
    assert as_listed("a.pdf", labelled) == "a.pdf"


@pytest.mark.req("R-01")
def test_a_document_that_is_named_twice_comes_once() -> None:
    named = resolve(["docItem:2:b:c.pdf", "docList:round1_request"], documents_at_hand(told().workflow))
    assert [one.document_id for one in named] == ["2", "1"]


@pytest.mark.req("R-01")
@pytest.mark.req("X-03")
@pytest.mark.parametrize("reference", ["docItem:1:b.pdf", "docList:", "a.pdf", "/etc/passwd", "docItem:9:a.pdf", ""])
def test_what_names_no_document_is_refused_and_the_known_lists_are_said(reference: str) -> None:
    with pytest.raises(
        UnknownReference, match="known are docList:round1_request, docList:round1_task1_action1_extract"
    ):
        resolve([reference], documents_at_hand(told().workflow))


@pytest.mark.req("R-01")
def test_two_documents_of_one_name_are_two() -> None:
    same = document("a.pdf", document_id="2")
    labelled = {"round1_request": (A,), "round1_task1_action1_extract": (same,)}
    assert resolve([f"docList:{label}" for label in labelled], labelled) == (A, same)
