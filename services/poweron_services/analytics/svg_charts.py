"""Charts as SVG: columns over days, and bars beside their names. Pure; they use no script, and the reader's fonts."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 640
HEIGHT: Final = 220
LEFT: Final = 56  # room for the numbers beside the columns
BOTTOM: Final = 24
TOP: Final = 10
COLOURS: Final = ("#2563a8", "#d97706", "#6b7280", "#0f8a6d", "#8b5cf6", "#b4235a")
NAMES: Final = 230  # room for the names beside bars
MOST_OF_NAME: Final = 34  # characters that fit there
BAR: Final = 26
STEPS: Final = (1, 1.2, 2, 4, 6, 8, 10)  # a quarter of each is easy to read
WHOLE_QUARTERS: Final = (1, 2, 3, 4, 5, 10)  # quarters of a scale for counts

Said = Callable[[float], str]
"""Formats a number."""


class Bar(NamedTuple):
    """A name, the length of its bar, the text after the bar, and its colour."""

    name: str
    value: float
    said: str
    colour: str = COLOURS[0]


def columns(
    days: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    said: Said,
    title: str,
    colours: Sequence[str] = COLOURS,
    is_count: bool = False,
) -> str:
    """Draw one column per day, stacked in the order of the series; a scale of counts has whole numbers."""
    most = max((sum(values) for values in zip(*series.values(), strict=True)), default=0)
    scale = 4 * _round_up(most / 4, WHOLE_QUARTERS, least=1) if is_count else _round_up(most, STEPS)
    inner, wide = HEIGHT - TOP - BOTTOM, (WIDTH - LEFT) / max(1, len(days))
    parts = [_grid(scale, inner, said)]
    heights = [0.0] * len(days)
    for (name, values), colour in zip(series.items(), colours, strict=False):
        for place, value in enumerate(values):
            if value <= 0:
                continue
            high, base = value / scale * inner, heights[place] / scale * inner
            position = f'x="{LEFT + place * wide + wide * 0.14:.1f}" y="{TOP + inner - base - high:.1f}"'
            size = f'width="{wide * 0.72:.1f}" height="{high:.1f}"'
            tooltip = f"<title>{escape(days[place])}: {escape(name)} {escape(said(value))}</title>"
            parts.append(f'<rect {position} {size} fill="{colour}">{tooltip}</rect>')
            heights[place] += value
    parts += _days(days, wide)
    return _svg(HEIGHT, title, parts) + legend(zip(series, colours, strict=False))


def bars(values: Sequence[Bar], *, title: str) -> str:
    """Draw one bar per line."""
    longest = max((bar.value for bar in values), default=0) or 1
    room, parts = WIDTH - NAMES - 150, list[str]()
    for place, (name, value, said, colour) in enumerate(values):
        y, long = place * BAR + 4, max(2.0, value / longest * room)
        parts.append(f'<text x="{NAMES - 8}" y="{y + 13}" text-anchor="end">{escape(_truncate(name))}</text>')
        parts.append(f'<rect x="{NAMES}" y="{y}" width="{long:.1f}" height="18" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{NAMES + long + 8:.1f}" y="{y + 13}">{escape(said)}</text>')
    return _svg(len(values) * BAR + 6, title, parts)


def _grid(scale: float, inner: float, said: Said) -> str:
    lines = []
    for part in range(5):
        y = TOP + inner - inner * part / 4
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(said(scale * part / 4))}</text>')
    return "".join(lines)


def _days(days: Sequence[str], wide: float) -> list[str]:
    """Label every few days, so that labels do not overlap."""
    interval = max(1, -(-len(days) // 8))
    return [
        f'<text x="{min(LEFT + (place + 0.5) * wide, WIDTH - 18):.1f}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{escape(day[5:])}</text>"
        for place, day in enumerate(days)
        if (len(days) - 1 - place) % interval == 0
    ]


def legend(names: Iterable[tuple[str, str]]) -> str:
    """Draw what each colour stands for."""
    entries = (f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in names)
    return f'<p class="legend">{"".join(entries)}</p>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
    return f"{head}{''.join(parts)}</svg>"


def _round_up(most: float, steps: Sequence[float], *, least: float = 0) -> float:
    """Round up to the next of these steps times a power of ten."""
    if most <= least:
        return least or 1
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in steps if step * power >= most)


def _truncate(name: str) -> str:
    return name if len(name) <= MOST_OF_NAME else name[: MOST_OF_NAME - 1] + "…"
