"""Where the documents of a result are from, and what was found in them: told in its event, within bounds (C-07)."""

import pytest
from doubles import Counting
from test_executor import executor, ran, ready

from poweron_events import codec
from poweron_events.event import CitedSource, WebPage
from poweron_events.step_events import ActionResult, PageFindings
from poweron_services.actions.action import Done, Origin
from poweron_services.actions.action import document as written

PAGE = WebPage(url="https://a.example/x", fetched_at="2026-11-23T10:00:00Z", sha256="ab" * 32, content="cd" * 32)


@pytest.mark.req("C-07")
async def test_where_a_result_is_from_and_what_was_found_in_it_stands_in_its_event() -> None:
    found = PageFindings(relevance_score=870, key_points=("It opens on Monday.",))
    cited = CitedSource(n=1, page=PAGE, text="ef" * 32)
    links = ["https://a.example/next", "no address", "https://a.example/next", f"https://a.example/{'x' * 3_000}"]

    def brings() -> Done:
        documents = tuple(written(name, name, "text/markdown") for name in ("page.md", "answer.md", "note.md"))
        origins = (Origin(page=PAGE, findings=found), Origin(sources=(cited,)))
        return Done(ActionResult(success=True, documents=documents), origins=origins, links=tuple(links))

    (completed,) = await ran(executor(Counting(result=brings)), ready())
    assert [ref.page for ref in completed.documents] == [PAGE, None, None]
    assert [ref.sources for ref in completed.documents] == [(), (cited,), ()]
    assert (completed.findings, completed.links) == ((found,), ("https://a.example/next",))


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    ("action", "by_model"),
    [("web.search", [False, True]), ("document.extract", [False, True]), ("ai.process", [True, True])],
)
async def test_which_documents_a_model_may_have_written_stands_in_the_event_that_tells_of_them(
    action: str, by_model: list[bool]
) -> None:
    def brings() -> Done:
        documents = tuple(written(name, name, "text/markdown") for name in ("read.md", "answer.md"))
        return Done(ActionResult(success=True, documents=documents), origins=(Origin(), Origin(by_model=True)))

    (completed,) = await ran(executor(Counting(action, result=brings)), ready(action))
    assert [ref.by_model for ref in completed.documents] == by_model


@pytest.mark.req("E-10")
async def test_however_much_was_found_and_cited_its_event_stays_small() -> None:
    page = PAGE.model_copy(update={"url": f"https://a.example/{'x' * 2_000}", "title": "ü" * 300})
    found = PageFindings(relevance_score=1, key_points=("\u0001" * 300,) * 5, entities=("\u0001" * 100,) * 10)
    cited = tuple(CitedSource(n=n, page=page, text="ef" * 32) for n in range(1, 101))

    def brings() -> Done:
        documents = tuple(written(f"{n}.md", "x", "text/markdown") for n in range(30))
        links = tuple(f"https://a.example/{n}{'x' * 2_000}" for n in range(20))
        origins = (Origin(page=page, findings=found, sources=cited),) * 30
        return Done(ActionResult(success=True, documents=documents), ("n" * 500,) * 30, origins=origins, links=links)

    told = ready()
    completed, observed = await ran(executor(Counting(result=brings), observes=True), told)
    told.tell(completed, observed)
    assert len(told.values[-2]) < codec.MAX_EVENT
    assert len(told.values[-1]) < codec.MAX_EVENT
    assert completed.documents_left_out == 29
