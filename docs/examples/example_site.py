"""Writes the pages of the example site, which `invented_site.py` tells, into folders named after their hosts."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from invented_site import NOTES, PAGES, REPORT, REPORT_PATH, Block, Page
from reportlab.lib.pagesizes import LETTER
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate

_STYLE = "body{font-family:sans-serif;max-width:42em;margin:auto}table{border-collapse:collapse}td,th{padding:.2em 1em}"


def write_site(folder: Path) -> None:
    """Write every page, note and report of the site."""
    texts = {name: _html(name, page) for name, page in PAGES.items()} | NOTES
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _write_report(folder / REPORT_PATH)


def _html(name: str, page: Page) -> str:
    main = ["<main>", f"<h1>{escape(page.title)}</h1>", *_body(page), "</main>"]
    return "\n".join([*_head(page), *_menu(name), *main, *_foot(name)])


def _head(page: Page) -> Iterator[str]:
    yield f'<!DOCTYPE html>\n<html lang="{page.language}">\n<head>\n<meta charset="utf-8">'
    yield f"<title>{escape(page.title)}</title>"
    yield f'<meta property="article:published_time" content="{page.published}">'
    if page.canonical:
        yield f'<link rel="canonical" href="{page.canonical}">'
    yield f"<style>{_STYLE}</style>\n</head>\n<body>"


def _menu(name: str) -> Iterator[str]:
    """The pages of the same host, as most sites show them everywhere."""
    host = name.partition("/")[0]
    own = [(each, page.title) for each, page in PAGES.items() if each.startswith(f"{host}/")][:5]
    yield "<nav>"
    yield from (f'<a href="/{each.partition("/")[2]}">{escape(title)}</a>' for each, title in own)
    yield "</nav>"


def _body(page: Page) -> Iterator[str]:
    for block in page.blocks:
        yield _block(block)
    if page.links:
        yield "<ul>"
        yield from (f'<li><a href="{url}">{escape(words)}</a></li>' for url, words in page.links)
        yield "</ul>"


def _block(block: Block) -> str:
    if isinstance(block, list):
        return "<ul>" + "".join(f"<li>{escape(point)}</li>" for point in block) + "</ul>"
    if isinstance(block, tuple):
        head, *rows = block
        lines = [_row(head, "th"), *(_row(row, "td") for row in rows)]
        return "<table>\n" + "\n".join(lines) + "\n</table>"
    if block.startswith("# "):
        return f"<h2>{escape(block[2:])}</h2>"
    return f"<p>{escape(block)}</p>"


def _row(cells: tuple[str, ...], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _foot(name: str) -> Iterator[str]:
    yield f"<footer><p>{name.partition('/')[0]} is an example; all that it says is invented.</p></footer>"
    yield "</body>\n</html>\n"


def _write_report(path: Path) -> None:
    title, chapters = REPORT
    styles = getSampleStyleSheet()
    told: list[Flowable] = [Paragraph(title, styles["Title"])]
    for heading, text in chapters:
        told += [Paragraph(heading, styles["Heading2"]), Paragraph(text, styles["BodyText"])]
    SimpleDocTemplate(str(path), pagesize=LETTER, invariant=1, title=title, author="Harbor Museum").build(told)
