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
    expect(page.locator("#live-state")).to_be_empty(timeout=WITHIN)
    assert len(refusals) == 2
    door.ask("What does the letter say?", "letter.txt")
    expect(page.get_by_role("link", name="What does the letter say?")).to_be_visible(timeout=WITHIN)
    page.context.close()
