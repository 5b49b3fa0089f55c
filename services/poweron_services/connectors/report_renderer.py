"""Markdown of unknown origin becomes one HTML page that can be handed to a customer.

The page needs nothing from anywhere: its style is inside, it has no script, and images from other hosts are dropped.
"""

from collections.abc import Sequence

import jinja2
import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

RIGHT_TO_LEFT = {"ar", "fa", "he", "ur"}
TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "img", "sup", "sub"),
}
ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt"}, "th": {"style"}, "td": {"style"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto", "data"}
IMAGE_DATA = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/gif;base64,", "data:image/webp;base64,")

PAGE = jinja2.Template(
    """\
<!doctype html>
<html lang="{{ language }}" dir="{{ direction }}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<title>{{ title }}</title>
<style>
{{ style }}
</style>
</head>
<body>
<main>
<header><h1>{{ title }}</h1></header>
{{ body }}
</main>
</body>
</html>
""",
    autoescape=True,
)
STYLE = """\
:root { --ink: #1f2933; --soft: #52606d; --line: #d9e2ec; --shade: #f5f8fa; --accent: #1d5b79; }
* { box-sizing: border-box; }
body { margin: 0; background: #e9eef2; color: var(--ink);
  font: 16px/1.6 "Segoe UI", "Helvetica Neue", Helvetica, Arial, "Noto Sans", sans-serif; }
main { max-width: 52rem; margin: 2.5rem auto; padding: 3.5rem 4rem 4rem; background: #fff;
  border-top: 6px solid var(--accent); border-radius: 4px; box-shadow: 0 1px 12px rgb(31 41 51 / 12%);
  overflow-wrap: break-word; }
header { margin-bottom: 2rem; padding-bottom: 1.25rem; border-bottom: 1px solid var(--line); }
h1, h2, h3, h4, h5, h6 { line-height: 1.25; break-after: avoid; }
h1 { margin: 2rem 0 .75rem; font-size: 1.7rem; color: var(--accent); }
header h1 { margin: 0; font-size: 2.1rem; letter-spacing: -.01em; }
h2 { margin: 2.25rem 0 .75rem; font-size: 1.35rem; color: var(--accent); }
h3 { margin: 1.75rem 0 .5rem; font-size: 1.1rem; }
h4, h5, h6 { margin: 1.5rem 0 .5rem; font-size: 1rem; color: var(--soft); }
p, ul, ol, blockquote, pre, table { margin: 0 0 1rem; }
li { margin: .25rem 0; }
a { color: var(--accent); text-underline-offset: 2px; }
table { width: 100%; border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th { padding: .55rem .75rem; background: var(--accent); color: #fff; text-align: start; vertical-align: bottom; }
th:empty { padding: 0; }
td { padding: .5rem .75rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tbody tr:nth-child(even) { background: var(--shade); }
tr { break-inside: avoid; }
blockquote { padding: .75rem 1.25rem; border-inline-start: 4px solid var(--accent); background: var(--shade); }
blockquote > :last-child { margin-bottom: 0; }
code { padding: .1em .3em; border-radius: 3px; background: var(--shade); font: .9em ui-monospace, Consolas, monospace; }
pre { padding: 1rem; border: 1px solid var(--line); border-radius: 4px; background: var(--shade); overflow-x: auto; }
pre code { padding: 0; background: none; }
img { max-width: 100%; }
hr { margin: 2rem 0; border: 0; border-top: 1px solid var(--line); }
@page { margin: 18mm; }
@media print {
  body { background: #fff; font-size: 10.5pt; }
  main { max-width: none; margin: 0; padding: 0; border: 0; box-shadow: none; }
  th { background: #fff; color: var(--ink); border-bottom: 2px solid var(--ink); }
  pre { white-space: pre-wrap; }
}
@media (max-width: 40rem) {
  main { margin: 0; padding: 1.75rem 1.25rem; border-radius: 0; }
  table { display: block; overflow-x: auto; }
}"""


def markdown_to_html(markdown: str, *, title: str, language: str) -> str:
    """A whole page; a heading in the markdown that only repeats the title is not shown twice."""
    html = _renderer().render(_without_title(markdown, title))
    body = nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_filtered,
        url_schemes=SCHEMES,
        filter_style_properties={"text-align"},
        link_rel="noopener noreferrer",
    )
    page: str = PAGE.render(
        title=title,
        language=language,
        direction="rtl" if language.partition("-")[0].lower() in RIGHT_TO_LEFT else "ltr",
        style=jinja2.filters.do_mark_safe(STYLE),
        body=jinja2.filters.do_mark_safe(body),
    )
    return page


def _renderer() -> MarkdownIt:
    """Markup in the markdown is shown as the text it is."""
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.add_render_rule("image", _image)
    return renderer


def _image(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """A picture that would have to be fetched is replaced by its description."""
    if str(tokens[index].attrs["src"]).startswith(IMAGE_DATA):
        return renderer.image(tokens, index, options, env)
    return escapeHtml(tokens[index].content)


def _without_title(markdown: str, title: str) -> str:
    first, _, rest = markdown.lstrip().partition("\n")
    return rest if first.removeprefix("# ").strip() == title.strip() and first.startswith("# ") else markdown


def _filtered(tag: str, attribute: str, value: str) -> str | None:
    """Pictures only from inside the page, links only to the web and to mailboxes."""
    if (tag, attribute) == ("img", "src"):
        return value if value.startswith(IMAGE_DATA) else None
    if attribute == "href":
        return value if value.startswith(("http://", "https://", "mailto:", "#")) else None
    return value
