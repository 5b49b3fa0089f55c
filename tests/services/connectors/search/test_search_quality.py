"""How good the search in a folder is: the page with the answer is among the first five."""

from pathlib import Path

import pytest
from search_pages import KINDS, PLACES, write_pages

from poweron_services.connectors.search.page_folder import PageFolder
from poweron_services.connectors.search.search_provider import SearchQuery

AMONG = 5
ENOUGH = 36  # of forty


@pytest.mark.req("C-01")
async def test_over_two_hundred_pages_the_one_with_the_answer_is_among_the_first_five(tmp_path: Path) -> None:
    questions = write_pages(tmp_path)
    folder = PageFolder(tmp_path)
    assert (len(KINDS) * len(PLACES), len(questions)) == (200, 40)

    found = {
        question: [hit.url for hit in (await folder.search(SearchQuery(question, AMONG, language="en"))).hits]
        for question in questions
    }

    missed = [question for question, url in questions.items() if url not in found[question]]
    assert len(missed) <= len(questions) - ENOUGH, missed
