"""The timeline of a workflow for people: who asked, what was decided and why, and what came of it.

It follows from the files of a bundle alone, so the script of auditors makes it again and compares.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from poweron_projections.audit.verifier.answer_quotes import AnswerQuotes
from poweron_projections.audit.verifier.event_facts import (
    event_facts,
    longer_texts,
    place_words,
    source_words,
    utc_words,
)
from poweron_projections.audit.verifier.timeline_summary import timeline_summary

TITLE: Final = "Timeline of workflow"
PROOF: Final = (
    "A verified ledger proves that the stored history was not altered after a checkpoint; it does not prove that what "
    "a service reported is true, nor that nothing was left out at the source."
)
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;background:#f4f4f4;padding:.7rem;overflow-wrap:anywhere}dt{font-weight:600}"
    "dd{margin:0 0 .3rem 1rem;overflow-wrap:anywhere}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}"
    "h3{font-size:1rem}"
)
FORMAT: Final = 1
"""Grows with every change of what a timeline looks like: a script can make those of its own format again."""
_MARK: Final = re.compile(rb'<!-- timeline ([0-9]+) -->|<meta name="timeline" content="([0-9]+)">')
_SHOWN: Final = 20_000  # characters of a text; the file named beside it has the rest
_NOT_PLAIN: Final = re.compile(r"[^\n -~]")
_HIDDEN: Final = frozenset(("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))


class TimelineItem(NamedTuple):
    """One event in words: its heading, facts by name, and longer texts by name, all as people see them."""

    heading: str
    facts: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]]


def timeline_items(
    events: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]], contents: Mapping[str, bytes]
) -> Iterator[TimelineItem]:
    """Yield a summary, then the events in their order; `contents` has documents, prompts and answers, if any."""
    yield _item("Summary", timeline_summary(events, entries), ())
    accepted = [event for event, entry in zip(events, entries, strict=True) if entry["verdict"] == "accepted"]
    quotes = AnswerQuotes(accepted, contents)
    for event, entry in zip(events, entries, strict=True):
        data = event["data"]
        stands = "" if entry["verdict"] == "accepted" else f", {entry['verdict']}: without effect"
        heading = f"{entry['seq']}. {_words(event['type'])}{stands}"
        facts = [("Time", utc_words(entry["time"])), ("Recorded by", source_words(event["source"]))]
        facts += [("Place", place)] if (place := place_words(data)) else []
        facts += [
            *event_facts(event["type"], data, contents),
            *(quotes.facts(data) if entry["verdict"] == "accepted" else ()),
        ]
        yield _item(heading, facts, longer_texts(data, contents))


def _item(heading: str, facts: Iterable[tuple[str, str]], texts: Iterable[tuple[str, str]]) -> TimelineItem:
    return TimelineItem(
        _visible(heading),
        [(_visible(name), _visible(value)) for name, value in facts],
        [(_visible(name), _cut(value)) for name, value in texts],
    )


def timeline_files(
    workflow_id: str,
    events: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
    files: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Return the timeline as the files of a bundle, which has the contents among its other files."""
    prefix = "blobs/"
    contents = {name[len(prefix) :]: data for name, data in files.items() if name.startswith(prefix)}
    items = list(timeline_items(events, entries, contents))
    return {
        "timeline.md": timeline_markdown(workflow_id, items).encode(),
        "timeline.html": timeline_html(workflow_id, items).encode(),
    }


def is_of_another_format(timeline: bytes) -> bool:
    """Return whether another release wrote this timeline, by the mark in it."""
    found = _MARK.search(timeline)
    return found is None or int(found[1] or found[2]) != FORMAT


def timeline_markdown(workflow_id: str, items: Iterable[TimelineItem]) -> str:
    """Return the timeline as Markdown."""
    lines = [f"*{PROOF}*", "", f"# {TITLE} {workflow_id}", ""]
    for item in items:
        lines += [f"## {_joined(item.heading)}", ""]
        lines += [f"- {_joined(name)}: {_code(value)}" for name, value in item.facts]
        for name, text in item.texts:
            fence = "`" * max(3, _longest_run(text) + 1)
            lines += ["", f"{_joined(name)}:", "", fence, text, fence]
        lines.append("")
    return "\n".join([*lines, f"<!-- timeline {FORMAT} -->", ""])


def timeline_html(workflow_id: str, items: Iterable[TimelineItem]) -> str:
    """Return the timeline as a page without scripts."""
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="timeline" content="{FORMAT}">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{TITLE} {_escaped(workflow_id)}</title>",
        f"<style>{_STYLE}</style>",
        f"<p><em>{_escaped(PROOF)}</em></p><h1>{TITLE} <code>{_escaped(workflow_id)}</code></h1>",
    ]
    for item in items:
        facts = "".join(f"<dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd>" for name, value in item.facts)
        texts = "".join(f"<h3>{_escaped(name)}</h3><pre>{_escaped(text)}</pre>" for name, text in item.texts)
        parts.append(f"<section><h2>{_escaped(item.heading)}</h2><dl>{facts}</dl>{texts}</section>")
    return "\n".join([*parts, "</html>", ""])


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)  # no attribute has a text


def _words(kind: str) -> str:
    """Return the type of an event in words: `poweron.action.selected.v1` is `action selected`."""
    return _joined(_visible(" ".join(kind.split(".")[1:-1])))


def _cut(text: str) -> str:
    shown = _visible(text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}\n… and {len(shown) - _SHOWN} more characters"


def _visible(text: str) -> str:
    """Return the text with control, format and private characters as their code points; line breaks stay."""
    if text.isprintable() or text.replace("\n", "").isprintable():
        return text
    return _NOT_PLAIN.sub(_visible_character, text)


def _visible_character(match: re.Match[str]) -> str:
    character = match[0]
    return f"[U+{ord(character):04X}]" if unicodedata.category(character) in _HIDDEN else character


def _joined(text: str) -> str:
    return " ".join(text.split())


def _code(text: str) -> str:
    shown = _joined(text)
    if "`" not in shown:
        return f"`{shown}`"
    fence = "`" * (_longest_run(shown) + 1)
    return f"{fence} {shown} {fence}"


def _longest_run(text: str) -> int:
    """Return the number of backticks in the longest run of them."""
    length = 0
    while "`" * (length + 1) in text:
        length += 1
    return length
