"""Live updates of the pages, in a real browser, while the door cannot send them."""

from collections.abc import Generator

import pytest
from page_door import PageDoor, chromium, page_door
from playwright.sync_api import Browser, Route, expect
from servers import Pair

pytestmark = [pytest.mark.system, pytest.mark.timeout(200)]

WITHIN = 60_000  # ms, on a busy machine


@pytest.fixture(scope="module")
def door(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Generator[PageDoor, None, None]:
    with page_door(pair, tmp_path_factory.mktemp("door")) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Generator[Browser, None, None]:
    with chromium() as opened:
        yield opened


def test_a_page_whose_stream_was_refused_follows_it_later_by_itself(door: PageDoor, browser: Browser) -> None:
    page = browser.new_page(base_url=door.address)
    refusals = []

    def refuse(route: Route) -> None:
        if len(refusals) < 2:
            refusals.append(route.request.url)
            route.fulfill(status=503, content_type="application/problem+json", body="{}")
        else:
            route.continue_()

    page.route("**/api/v1/stream", refuse)
    page.goto("/")
    expect(page.locator("#live-state")).to_contain_text("interrupted", timeout=WITHIN)
    door.ask("What does the letter say?", "letter.txt")
    expect(page.locator("#live-state")).to_be_empty(timeout=WITHIN)
    assert len(refusals) == 2
    expect(page.get_by_role("link", name="What does the letter say?")).to_be_visible(timeout=WITHIN)
    page.context.close()


def test_the_forms_of_a_workflow_change_when_it_ends(door: PageDoor, browser: Browser) -> None:
    workflow = door.ask("What does the letter say?", "letter.txt", wait=False, approve=["*"])
    door.until(workflow, phase="approve")
    page = browser.new_page(base_url=door.address)
    page.goto(f"/w/{workflow}")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.get_by_role("heading", name="Ask further")).to_have_count(0)
    door.http.post(f"/api/v1/workflows/{workflow}/cancellation", json={"reason": "Enough."})
    expect(page.get_by_role("heading", name="Ask further")).to_be_visible(timeout=WITHIN)
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    page.context.close()
