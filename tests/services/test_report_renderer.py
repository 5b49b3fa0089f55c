"""Reports: what a customer gets to see, and what never gets into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poweron_services.connectors.report_renderer import markdown_to_html


@pytest.mark.req("C-06")
def test_a_report_is_a_whole_page_in_its_language() -> None:
    page = markdown_to_html("Hello", title="Budget & plan", language="de")

    assert page.startswith('<!doctype html>\n<html lang="de" dir="ltr">')
    assert "<title>Budget &amp; plan</title>" in page
    assert "<h1>Budget &amp; plan</h1>" in page
    assert "<p>Hello</p>" in page


def test_arabic_reads_from_right_to_left() -> None:
    assert '<html lang="ar-EG" dir="rtl">' in markdown_to_html("x", title="x", language="ar-EG")


@pytest.mark.req("C-06")
def test_tables_keep_their_alignment() -> None:
    page = markdown_to_html("| a | b |\n| --- | ---: |\n| 1 | 2 |", title="t", language="en")

    assert '<td style="text-align:right">2</td>' in page


def test_a_title_that_the_text_repeats_is_shown_once() -> None:
    page = markdown_to_html("# Review\n\nText", title="Review", language="en")

    assert page.count("Review</h1>") == 1


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("![chart](https://evil.example/x.png)", "<p>chart</p>"),
        ("![<b>](//evil.example/x.png)", "<p>&lt;b&gt;</p>"),
        ('<img src="https://evil.example/x" onerror="y">', "&lt;img src="),
        ("[x](file:///etc/passwd)", "<p>[x](file:///etc/passwd)</p>"),
        ("[x](relative/path)", '<p><a rel="noopener noreferrer">x</a></p>'),
    ],
)
@pytest.mark.req("C-06")
def test_nothing_in_a_report_runs_or_loads(markdown: str, shown: str) -> None:
    assert shown in markdown_to_html(markdown, title="t", language="en")


def test_a_picture_inside_the_report_is_shown() -> None:
    page = markdown_to_html("![dot](data:image/png;base64,AAAA)", title="t", language="en")

    assert '<img src="data:image/png;base64,AAAA" alt="dot">' in page


@given(st.text(), st.text())
def test_no_text_adds_a_script_or_a_remote_address(markdown: str, title: str) -> None:
    page = markdown_to_html(markdown, title=title, language="en").lower()

    assert "<script" not in page
    assert 'src="http' not in page
    assert page.count("<style>") == 1
