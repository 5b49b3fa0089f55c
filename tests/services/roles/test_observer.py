"""The observation: small, and honest about what it left out."""

import pytest

from builders import At, Told, document, planned, requested
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.event import UnreadDocument, WebPage
from poweron_events.fold.history import findings
from poweron_events.step_events import ActionCompleted, Omitted, PageFindings
from poweron_services.roles.observation_builder import observe_build
from poweron_services.roles.observer import Observer


def told(completed: ActionCompleted) -> Told:
    return Told().tell(requested(), planned(), At().selected(), At().parameters(), At().started(), completed)


@pytest.mark.req("L-04")
@pytest.mark.req("M-03")
def test_what_is_too_much_is_cut_and_the_cut_is_said() -> None:
    documents = tuple(document(f"{number}.md", mime_type="text/markdown") for number in range(7))
    done = At().done(documents=documents, notes=("n" * 250, *["short"] * 9))
    recorded = observe_build(told(done).workflow, done, ["x" * 400, "y" * 300, "a  \n b", "", ""], CATALOG)
    seen = recorded.observation
    assert (len(seen.previews), len(seen.notes), seen.documents_count) == (5, 8, 7)
    assert [len(preview.snippet) for preview in seen.previews] == [300, 300, 3, 0, 0]
    assert max(map(len, seen.notes)) == 200
    assert seen.truncated
    assert seen.omitted == Omitted(previews=2, notes=2, characters=101 + 51)


@pytest.mark.req("C-07")
def test_what_was_found_in_pages_is_shown_beside_how_they_begin_and_the_links_stand_apart() -> None:
    page = WebPage(url="https://a.example/x", fetched_at="2026-11-23T10:00:00Z", sha256="ab" * 32, content="cd" * 32)
    found = PageFindings(relevance_score=870, key_points=("It opens on Monday. (line 3)",), entities=("Monday", "12 €"))
    done = At().done(
        documents=(document("x.md", mime_type="text/markdown", page=page), document("note.md")),
        findings=(found,),
        links=("https://a.example/next",),
    )
    seen = observe_build(told(done).workflow, done, ["# X", "a note"], CATALOG).observation
    first, second = seen.previews
    assert (first.url, first.relevance_score) == ("https://a.example/x", 870)
    assert (first.key_points, first.entities) == (found.key_points, found.entities)
    assert (second.url, second.relevance_score, second.key_points) == (None, None, ())
    assert (seen.links, seen.truncated) == (("https://a.example/next",), False)


@pytest.mark.req("C-07")
def test_a_preview_shows_what_a_page_says_and_not_the_head_above_it() -> None:
    head = "# Hours\n\n- URL: https://a.example/x\n- Fetched at: 2026-11-23T10:00:00Z\n\n---\n\n"
    done = At().done(documents=(document("x.md", mime_type="text/markdown"),))
    seen = observe_build(told(done).workflow, done, [f"{head}It opens on Monday."], CATALOG).observation
    assert (seen.previews[0].snippet, seen.truncated) == ("It opens on Monday.", False)


@pytest.mark.req("M-03")
def test_what_fits_is_not_said_to_be_cut() -> None:
    done = At().done()
    seen = observe_build(told(done).workflow, done, ["a" + " " * 400 + "b"], CATALOG).observation
    assert (seen.previews[0].snippet, seen.truncated, seen.omitted) == ("a b", False, None)


@pytest.mark.req("H-02")
@pytest.mark.parametrize("success", [True, False])
def test_the_summary_has_at_most_200_characters(success: bool) -> None:
    done = At().done(
        success=success, error="e" * 900, documents=tuple(document("d" * 90, document_id=str(n)) for n in range(9))
    )
    said = observe_build(told(done).workflow, done, [""] * 5, CATALOG).summary
    assert len(said) == 200
    assert said.startswith("document.extract gave 9 documents: " if success else "document.extract failed: eee")


@pytest.mark.req("H-02")
@pytest.mark.parametrize(
    ("mime_type", "text", "beginning"),
    [
        ("text/markdown", "The total\n is **42.00**.", " - The total is **42.00**."),
        ("text/plain", "42", " - 42"),
        ("text/plain", " \n", ""),
        ("application/json", '{"total": 42}', ""),
        ("text/csv", "total,42", ""),
        ("image/png", "", ""),
    ],
)
def test_the_summary_of_an_answer_ends_with_its_beginning_where_that_is_in_words(
    mime_type: str, text: str, beginning: str
) -> None:
    assert summary("ai.process", mime_type, text) == f"ai.process gave 2 documents: a, b{beginning}"


@pytest.mark.req("H-02")
@pytest.mark.parametrize("action", ["document.extract", "web.crawl", "ai.unheard"])
def test_the_summary_of_what_answers_no_question_names_the_documents_only(action: str) -> None:
    assert summary(action, "text/markdown", "# letter.pdf") == f"{action} gave 2 documents: a, b"


def summary(action: str, mime_type: str, text: str) -> str:
    documents = (document("a", mime_type=mime_type), document("b", mime_type="text/plain"))
    before = Told().tell(requested(), planned(), At().selected(action=action))
    found, again = (
        observe_build(before.workflow, At().done(documents=documents), [text, "more"], CATALOG) for _ in range(2)
    )
    assert found == again
    return found.summary


@pytest.mark.req("R-02")
async def test_the_observer_reads_the_beginning_from_the_content_store_and_bears_that_it_was_erased() -> None:
    content, id_ = ContentStore.at("memory:///"), Told().id
    kept = document("a.md", mime_type="text/markdown", content=await content.put(id_, "Größe 42".encode()))
    done = At().done(
        documents=(kept, document("b.md", mime_type="text/markdown"), document("c.png", mime_type="image/png"))
    )
    (recorded,) = await Observer(content, CATALOG)(told(done).workflow)
    assert [preview.snippet for preview in recorded.observation.previews] == ["Größe 42", "", ""]


def unread(*names: str, code: str = "document_empty") -> tuple[UnreadDocument, ...]:
    return tuple(
        UnreadDocument(document_name=name, code=code, reason=f"'{name}' is empty; check it.") for name in names
    )


@pytest.mark.req("L-10")
@pytest.mark.parametrize(
    ("documents", "left_out", "said"),
    [
        (unread("a.pdf"), 0, "gave 1 document (1 document could not be read): text.md"),
        (
            (*unread("a.pdf", "b.pdf"), *unread("c.pdf", code="partly_read")),
            0,
            "gave 1 document (2 documents could not be read): text.md",
        ),
        (unread(*(f"{n}.pdf" for n in range(20))), 3, "gave 1 document (23 documents could not be read): "),
        (
            (*unread("a.pdf"), *unread(*(f"{n}.pdf" for n in range(8)), code="partly_read")),
            2,
            "gave 1 document (1 document could not be read): text.md",
        ),
        ((), 0, "gave 1 document: text.md"),
    ],
)
def test_the_summary_says_how_many_documents_could_not_be_read(
    documents: tuple[UnreadDocument, ...], left_out: int, said: str
) -> None:
    done = At().done(
        unread=documents, unread_left_out=left_out, documents=(document("text.md", mime_type="text/markdown"),)
    )
    assert said in observe_build(told(done).workflow, done, [""], CATALOG).summary


@pytest.mark.req("M-03")
def test_what_was_not_read_stands_apart_from_the_notes_and_shares_their_limits() -> None:
    long = unread("a.pdf")[0].model_copy(update={"reason": "r" * 300})
    done = At().done(unread=(long, *unread(*(f"{n}.pdf" for n in range(5)))), unread_left_out=2, notes=("n",) * 4)
    seen = observe_build(told(done).workflow, done, [""], CATALOG).observation
    assert [len(seen.unread), len(seen.notes)] == [6, 2]
    assert len(seen.unread[0].reason) == 200
    assert seen.omitted == Omitted(notes=2 + 2, characters=101)
    assert findings(seen)[:2] == (seen.unread[0].reason, "'0.pdf' is empty; check it.")


def test_where_nothing_could_be_read_each_document_tells_why_and_the_error_does_not_repeat_it() -> None:
    documents = unread("a.pdf", "b.pdf")
    done = At().done(
        success=False, outcome="failed", documents=(), error=documents[0].reason, code="documents_unreadable",
        unread=documents,
    )  # fmt: skip
    seen = observe_build(told(done).workflow, done, [], CATALOG)
    assert (seen.observation.code, seen.observation.notes) == ("documents_unreadable", ())
    assert findings(seen.observation) == tuple(each.reason for each in documents)
    assert seen.summary == "document.extract failed: 'a.pdf' is empty; check it."


@pytest.mark.req("H-02")
def test_the_summary_of_a_denied_action_says_that_it_did_not_run() -> None:
    done = At().done(success=False, outcome="denied", documents=(), error="ada denied it.", code="approval_denied")
    assert observe_build(told(done).workflow, done, [], CATALOG).summary == (
        "document.extract did not run: ada denied it."
    )
