"""A report as one HTML page that can be sent to a customer.

The page is self-contained: its style and figures are embedded, and it has no script and loads nothing.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Final

import jinja2
import nh3
from markupsafe import Markup, escape

from poweron_services.connectors.reports_child.markdown_blocks import LINKED, PICTURES
from poweron_services.connectors.reports_child.report import (
    Block,
    Code,
    Figure,
    Heading,
    Listing,
    Paragraph,
    Report,
    ReportQuote,
    ReportTable,
    Run,
    Runs,
)

FIGURE: Final = "data:image/svg+xml;base64,"
TAGS: Final = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "img", "figure", "figcaption", "nav", "section"),
}
ATTRIBUTES: Final = {
    "a": {"href"},
    "img": {"src", "alt", "width"},
    "th": {"scope", "class"},
    "td": {"class"},
    "ol": {"start"},
    "nav": {"aria-label"},
    **{f"h{level}": {"id"} for level in range(1, 7)},
}
SCHEMES: Final = {"http", "https", "mailto", "data"}

PAGE: Final = jinja2.Template(
    """\
<!doctype html>
<html lang="{{ report.language }}" dir="{{ direction }}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<meta name="author" content="{{ report.author }}">
<title>{{ report.title }}</title>
<style>
{{ style }}
</style>
</head>
<body>
<main>
<header><h1>{{ report.title }}</h1>
{%- if report.cover %}
<p class="cover">{{ report.cover | join(" · ") }}</p>
{%- endif %}</header>
{{ body }}
</main>
</body>
</html>
""",
    autoescape=True,
)
STYLE: Final = """\
:root { --ink: #1f2933; --soft: #52606d; --line: #d9e2ec; --shade: #f5f8fa; --accent: #1d5b79; }
* { box-sizing: border-box; }
body { margin: 0; background: #e9eef2; color: var(--ink);
  font: 16px/1.6 "Segoe UI", "Helvetica Neue", Helvetica, Arial, "Noto Sans", "Noto Sans Arabic", sans-serif; }
main { max-width: 52rem; margin: 2.5rem auto; padding: 3.5rem 4rem 4rem; background: #fff;
  border-top: 6px solid var(--accent); border-radius: 4px; box-shadow: 0 1px 12px rgb(31 41 51 / 12%);
  overflow-wrap: break-word; hyphens: auto; }
header { margin-bottom: 2rem; padding-bottom: 1.25rem; border-bottom: 1px solid var(--line); }
.cover { margin: .75rem 0 0; color: var(--soft); }
nav { margin-bottom: 2.5rem; padding: 1rem 1.5rem; background: var(--shade); border-radius: 4px; }
nav p { margin: 0 0 .5rem; font-weight: 600; color: var(--accent); }
nav ul { margin: 0; padding-inline-start: 1.25rem; }
h1, h2, h3, h4, h5, h6 { line-height: 1.25; break-after: avoid; hyphens: manual; }
header h1 { margin: 0; font-size: 2.1rem; letter-spacing: -.01em; color: var(--accent); }
h2 { margin: 2.25rem 0 .75rem; font-size: 1.35rem; color: var(--accent); }
h3 { margin: 1.75rem 0 .5rem; font-size: 1.1rem; }
h4, h5, h6 { margin: 1.5rem 0 .5rem; font-size: 1rem; color: var(--soft); }
p, ul, ol, blockquote, pre, table { margin: 0 0 1rem; }
li { margin: .25rem 0; }
li > p { margin: 0; }
a { color: var(--accent); text-underline-offset: 2px; }
table { width: 100%; border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th { padding: .5rem .75rem; text-align: start; vertical-align: top; }
thead th { background: var(--accent); color: #fff; vertical-align: bottom; }
tbody th { font-weight: 600; border-bottom: 1px solid var(--line); }
td { padding: .5rem .75rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: end; white-space: nowrap; }
[dir="rtl"] td.number { text-align: left; unicode-bidi: plaintext; }
tbody tr:nth-child(even) { background: var(--shade); }
tr { break-inside: avoid; }
figure { margin: 0 0 1.5rem; break-inside: avoid; }
figcaption { font-size: .9rem; color: var(--soft); }
blockquote { padding: .75rem 1.25rem; border-inline-start: 4px solid var(--accent); background: var(--shade); }
blockquote > :last-child { margin-bottom: 0; }
code { padding: .1em .3em; border-radius: 3px; background: var(--shade); font: .9em ui-monospace, Consolas, monospace; }
pre { padding: 1rem; border: 1px solid var(--line); border-radius: 4px; background: var(--shade); overflow-x: auto; }
pre code { padding: 0; background: none; }
img { max-width: 100%; height: auto; }
@page { margin: 18mm; }
@media print {
  body { background: #fff; font-size: 10.5pt; }
  main { max-width: none; margin: 0; padding: 0; border: 0; box-shadow: none; }
  thead th { background: #fff; color: var(--ink); border-bottom: 2px solid var(--ink); }
  pre { white-space: pre-wrap; }
}
@media (max-width: 40rem) {
  main { margin: 0; padding: 1.75rem 1.25rem; border-radius: 0; }
  table { display: block; overflow-x: auto; }
}"""


def html(report: Report) -> str:
    """Write the whole page."""
    body = Markup("\n").join([*_contents(report), *_blocks(report.blocks), *_blocks(report.sources)])
    clean = nh3.clean(
        str(body),
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_filter,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer",
    )
    direction = "rtl" if report.right_to_left else "ltr"
    page: str = PAGE.render(report=report, direction=direction, style=Markup(STYLE), body=Markup(clean))
    return page


def _contents(report: Report) -> Iterator[Markup]:
    if not report.contents:
        return
    entries = Markup("").join(
        Markup('<li><a href="#{}">{}</a></li>').format(heading.anchor, "".join(run.text for run in heading.runs))
        for heading in report.headings
    )
    yield Markup('<nav aria-label="{0}"><p>{0}</p><ul>{1}</ul></nav>').format(report.contents, entries)


def _blocks(content: Iterable[Block]) -> Iterator[Markup]:
    for block in content:
        match block:
            case Heading():
                tag = f"h{min(6, block.level + 1)}"
                yield Markup(f'<{tag} id="{{}}">{{}}</{tag}>').format(block.anchor, _text(block.runs))
            case Paragraph():
                yield Markup("<p>{}</p>").format(_text(block.runs))
            case Listing():
                yield _listing(block)
            case ReportQuote():
                yield Markup("<blockquote>{}</blockquote>").format(Markup("").join(_blocks(block.blocks)))
            case Code():
                yield Markup("<pre><code>{}</code></pre>").format(block.text)
            case ReportTable():
                yield _table(block)
            case Figure():
                source = FIGURE + b64encode(block.svg.encode()).decode()
                figure = Markup('<figure><img src="{}" alt="{}" width="660"><figcaption>{}</figcaption></figure>')
                yield figure.format(source, block.alt, block.caption)


def _listing(listing: Listing) -> Markup:
    items = Markup("").join(Markup("<li>{}</li>").format(_item(item)) for item in listing.items)
    if listing.start is None:
        return Markup("<ul>{}</ul>").format(items)
    return Markup('<ol start="{}">{}</ol>').format(listing.start, items)


def _item(item: tuple[Block, ...]) -> Markup:
    first, *rest = item or (Paragraph(()),)
    head = _text(first.runs) if isinstance(first, Paragraph) else Markup("").join(_blocks([first]))
    return head + Markup("").join(_blocks(rest))


def _table(table: ReportTable) -> Markup:
    head = Markup("")
    if table.header:
        cells = _cells("th", table.header, table, ' scope="col"')
        head = Markup("<thead><tr>{}</tr></thead>").format(cells)
    rows = Markup("").join(Markup("<tr>{}</tr>").format(_row(row, table)) for row in table.rows)
    return Markup("<table>{}<tbody>{}</tbody></table>").format(head, rows)


def _row(row: tuple[Runs, ...], table: ReportTable) -> Markup:
    """A table row. Its first cell is a row header, unless it is a number, empty or the only cell."""
    if len(row) < 2 or table.aligned[0] == "end" or not row[0]:
        return _cells("td", row, table)
    return Markup('<th scope="row">{}</th>').format(_text(row[0])) + _cells("td", row[1:], table, first=1)


def _cells(tag: str, cells: tuple[Runs, ...], table: ReportTable, more: str = "", first: int = 0) -> Markup:
    result = Markup("")
    for column, cell in enumerate(cells, start=first):
        side = Markup(' class="number"') if table.aligned[column] == "end" else Markup("")
        result += Markup(f"<{tag}{more}{side}>{{}}</{tag}>").format(_text(cell))
    return result


def _text(runs: Runs) -> Markup:
    return Markup("").join(map(_run, runs))


def _run(run: Run) -> Markup:
    if run.picture:
        return Markup('<img src="{}" alt="{}">').format(run.picture, run.text)
    text = Markup("<br>").join(escape(line) for line in run.text.split("\n"))
    marks = {"code": run.monospace, "strong": run.bold, "em": run.italic, "s": run.strike}
    for tag in (tag for tag, is_set in marks.items() if is_set):
        text = Markup(f"<{tag}>{{}}</{tag}>").format(text)
    return Markup('<a href="{}">{}</a>').format(run.link, text) if run.link else text


def _filter(tag: str, attribute: str, value: str) -> str | None:
    """Allow only embedded pictures, and links only within the page, to the web and to mailboxes."""
    if (tag, attribute) == ("img", "src"):
        return value if value.startswith((*PICTURES, FIGURE)) else None
    if attribute == "href":
        return value if value.startswith((*LINKED, "#")) else None
    return value
