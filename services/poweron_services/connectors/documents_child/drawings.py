"""Texts of charts and diagrams in Office files: the titles and numbers of charts, the texts of diagrams."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from poweron_services.connectors.documents_child.pipe_tables import pipe_table

CHART: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DIAGRAM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
DRAWING: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_AXES: Final = ("catAx", "dateAx", "valAx", "serAx")


def chart_texts(chart: Any) -> Iterator[str]:
    """Yield the titles of a chart and its axes, and a table for each group of series that share their categories.

    `chart` is the XML of a chart part.
    """
    title = _title(chart.find(f"{CHART}chart"))
    axes = list(filter(None, (_title(axis) for name in _AXES for axis in chart.iter(f"{CHART}{name}"))))
    heading = f"Chart: {title}" if title else ""
    yield from filter(None, [f"{heading} ({', '.join(axes)})" if title and axes else heading or ", ".join(axes)])
    for categories, group in groupby(chart.iter(f"{CHART}ser"), key=lambda series: _points(series, "cat", "xVal")):
        columns = [(series.findtext(f"{CHART}tx//{CHART}v", ""), _points(series, "val", "yVal")) for series in group]
        places = sorted(set(categories).union(*(values for _, values in columns)))
        rows = [[categories.get(place, ""), *(values.get(place, "") for _, values in columns)] for place in places]
        yield pipe_table([["", *(name for name, _ in columns)], *rows])


def diagram_list(model: Any) -> str:
    """Return the texts of a diagram (SmartArt) as a list, from its data part."""
    texts = (_text(point.find(f"{DIAGRAM}t")) for point in model.iter(f"{DIAGRAM}pt"))
    return "\n".join(f"- {text}" for text in texts if text)


def _title(parent: Any) -> str:
    title = parent.find(f"{CHART}title") if parent is not None else None
    return _text(title) or (title.findtext(f".//{CHART}v", "") if title is not None else "")


def _text(element: Any) -> str:
    """The text of the element's paragraphs, on one line."""
    if element is None:
        return ""
    paragraphs = ("".join(paragraph.itertext(f"{DRAWING}t")) for paragraph in element.iter(f"{DRAWING}p"))
    return " ".join(" ".join(paragraphs).split())


def _points(series: Any, *kinds: str) -> dict[int, str]:
    """The texts or numbers, keyed by index; of nested categories, the innermost."""
    points: dict[int, str] = {}
    for point in (point for kind in kinds for point in series.iterfind(f"{CHART}{kind}//{CHART}pt")):
        points.setdefault(int(point.get("idx")), _number(point.findtext(f"{CHART}v", "")))
    return points


def _number(text: str) -> str:
    """Format a number with its significant digits; return any other text unchanged."""
    try:
        return format(float(text), ".15g")
    except ValueError:
        return text
