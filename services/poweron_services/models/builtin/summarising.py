"""A report from texts: every section with its facts, sentences and tables; as markdown, JSON or CSV."""

import re
from collections.abc import Iterable

import orjson

from poweron_services.models.builtin.converting import as_csv
from poweron_services.models.builtin.digest import Fact, Grid, Heading, Item, Line, Part, Sentence, digest
from poweron_services.models.builtin.passages import Library, Place
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.sources import Row
from poweron_services.models.prompts import OutputFormat

_MARKUP = re.compile(r"([\\`*<\[\]])")
_BEGINS_BLOCK = re.compile(r"^(\d*)(?=[#>+=~-]|(?<=\d)[.)] )")


def summary(held: Library, language: str, output_format: OutputFormat = "markdown") -> str:
    """The documents in short, every part under the place where it stands."""
    found = digest(held)
    match output_format:
        case "json":
            return orjson.dumps(
                [_as_object(*document) for document in found.items()], option=orjson.OPT_INDENT_2
            ).decode()
        case "csv":
            return as_csv([("document", "place", "label", "value"), *_as_rows(found.values())])
        case "markdown":
            return _as_markdown(found, language)


def _as_markdown(found: dict[str, list[Part]], language: str) -> str:
    written = [f"# {say('summary_of', language, names=_listed(list(found)))}"]
    for name, parts in found.items():
        level = "##"
        if len(found) > 1:
            written.append(f"## {_escaped(name)}")
            level = "###"
        for part in parts:
            written += _section(part, level, language)
    return "\n\n".join(written)


def _section(part: Part, level: str, language: str) -> list[str]:
    title = part.title or (part.place.document if level == "##" else "")
    heading = [f"{level} {_escaped(title)}"] if title else []
    source = f"*{say('source', language, place=_escaped(str(part.place)))}*"
    return [*heading, source, *_blocks(part, level, language)]


def _blocks(part: Part, level: str, language: str) -> list[str]:
    """The items as markdown: what belongs to one list or one paragraph stands together."""
    found: list[str] = []
    before: type[Item] | None = None
    for item in part.items:
        if isinstance(item, Heading) and item.text in part.title:
            continue
        written = _written(item, level, language)
        apart = {Sentence: " ", Fact: "\n", Line: "\n"}.get(type(item))
        is_list = isinstance(item, Fact | Line) and before in (Fact, Line)
        if apart is not None and (before is type(item) or is_list):
            found[-1] += apart + written
        else:
            found.append(written)
        before = type(item)
    return found


def _written(item: Item, level: str, language: str) -> str:
    match item:
        case Fact(label, value):
            return f"- **{_plain(label)}:** {_plain(value)}"
        case Line(text):
            return f"- {_plain(text)}"
        case Sentence(text):
            return _plain(text)
        case Heading(text):
            return f"{level}# {_escaped(text)}"
        case Grid():
            return _table(item, language)


def _table(grid: Grid, language: str) -> str:
    rows = [grid.headers, ("---",) * len(grid.headers), *grid.rows]
    table = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
    return f"{table}\n\n{say('more_rows', language, count=grid.left_out)}" if grid.left_out else table


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|")


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _plain(text: str) -> str:
    """A text whose signs are shown, not read as markup."""
    return _BEGINS_BLOCK.sub(r"\1\\", _escaped(text))


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} (+{len(names) - 3})"


def _as_object(name: str, parts: list[Part]) -> dict[str, object]:
    return {"document": name, "sections": [_section_object(part) for part in parts]}


def _section_object(part: Part) -> dict[str, object]:
    facts = [{"label": item.label, "value": item.value} for item in part.items if isinstance(item, Fact)]
    sentences = [item.text for item in part.items if isinstance(item, Sentence | Line)]
    tables = [[dict(_named(item.headers, row)) for row in item.rows] for item in part.items if isinstance(item, Grid)]
    found: dict[str, object] = {"section": part.title or part.place.document, "source": str(part.place)}
    return found | {key: value for key, value in (("facts", facts), ("text", sentences), ("tables", tables)) if value}


def _as_rows(documents: Iterable[list[Part]]) -> list[Row]:
    parts = [part for document in documents for part in document]
    return [row for part in parts for item in part.items for row in _item_rows(item, part.place)]


def _item_rows(item: Item, place: Place) -> list[Row]:
    match item:
        case Fact(label, value):
            return [(place.document, place.locator, label, value)]
        case Line(text) | Sentence(text):
            return [(place.document, place.locator, "", text)]
        case Heading():
            return []
        case Grid(headers, rows):
            said = ("; ".join(f"{name}: {cell}" for name, cell in _named(headers, row) if cell) for row in rows)
            return [(place.document, place.locator, "", text) for text in said]


def _named(headers: Row, row: Row) -> list[tuple[str, str]]:
    names = [header or f"column {number}" for number, header in enumerate(headers, start=1)]
    return list(zip(names, row, strict=False))
