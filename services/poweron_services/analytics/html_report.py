"""A report as one self-contained HTML page, without network access or scripts. Pure: turns figures into text.

Its charts are SVG in the reader's fonts: columns over days, and bars beside their names.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from poweron_events.fold.stage_specs import STAGES
from poweron_services.analytics.report_figures import Figures, Row

BEGINNING: Final = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>PowerOn, '
"""The beginning of every report."""


STAGE_LABELS: Final = {stage.name: stage.label for stage in STAGES} | {
    "approve": "Waiting for an approval",
    "claim": "Waiting for a process",
}
"""Labels of the stages, and of the two waits that `bi` counts apart."""


FATES: Final = {
    "used": "Used",
    "retried": "Tried again later",
    "refused": "Answer refused",
    "failed": "Call failed",
    "superseded": "Done twice",
}


ENDINGS: Final = {
    "completed": ("Completed", "#2563a8"),
    "failed": ("Failed", "#d97706"),
    "cancelled": ("Cancelled", "#6b7280"),
    "forks_stopped": ("Fork stopped", "#c3cad4"),
}
"""How requests ended, with the colour of each ending."""


OF_LEVELS: Final = {"round": "", "action": ", an action", "model_call": ", a call"}


GREEN: Final = "#0f8a6d"


LEAST_SHARE: Final = 0.005  # a smaller share would be rounded to 0%


MODELS: Final = 5  # models with a colour of their own


_STYLE: Final = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
body { color: #1f2937; margin: 0; background: #f6f7f9; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 17px; margin: 0 0 2px; } p { margin: 0 0 10px; }
.sub, .note { color: #5b6472; } .note { font-size: 13px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 14px; margin: 22px 0; }
.tile, section { background: #fff; border: 1px solid #e3e6ea; border-radius: 8px; padding: 14px 18px; }
.tile b { display: block; font-size: 25px; line-height: 1.25; font-variant-numeric: tabular-nums; }
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 14px; }
section:last-child:nth-child(odd) { grid-column: 1 / -1; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 12px; fill: #39424e; }
svg .grid { stroke: #e3e6ea; stroke-width: 1; }
.legend { font-size: 13px; margin: 6px 0 0; } .legend span { margin-right: 16px; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 8px 4px 0; border-bottom: 1px solid #eceef1; } .n { text-align: right; }
@media print { body { background: #fff; } section, .tile { break-inside: avoid; } }
"""


def report(figures: Figures, moment: str) -> str:
    """Return the whole page; `moment` is the moment at which the figures were read."""
    sections = (_outcomes, _costs, _times, _stops, _stages, _spending, _actions, _transitions, _people)
    body = "".join(section(figures) for section in sections)
    period = f"{figures.first.isoformat()} to {figures.last.isoformat()}"
    return (
        f"{BEGINNING}{period}</title>"
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
        f'<h1>What PowerOn did</h1><p class="sub">{period}, days in UTC; read {escape(moment)}.</p>'
        f'<div class="tiles">{_tiles(figures)}</div><div class="grid2">{body}</div></main></body></html>\n'
    )


def _tiles(figures: Figures) -> str:
    ended = figures.sum("outcomes", "ended") - figures.sum("outcomes", "forks_stopped")
    completed = figures.sum("outcomes", "completed")
    cost, tasks = figures.sum("costs", "cost_usd"), figures.one("tasks")["completed"]
    tiles = (
        (f"{figures.sum('outcomes', 'opened'):,}", "requests"),
        (_share(completed, ended), "of those that ended completed"),
        (duration(figures.one("durations")["p50_ms"]), "median time of a request, without waiting for people"),
        (money(cost), "for models"),
        (money(cost / tasks) if tasks else "–", "for each completed task"),
        (f"{figures.one('dead')['dead_letters']:,}", "records that cannot be read"),
    )
    return "".join(f'<div class="tile"><b>{escape(value)}</b>{escape(label)}</div>' for value, label in tiles)


def _outcomes(figures: Figures) -> str:
    by_day = {row["day"]: row for row in figures.found["outcomes"]}
    endings = [ending for ending in ENDINGS if ending != "forks_stopped" or figures.sum("outcomes", ending)]
    series = {
        ENDINGS[ending][0]: [by_day[day][ending] if day in by_day else 0 for day in figures.days] for ending in endings
    }
    chart = columns(
        figures.days,
        series,
        said=lambda value: f"{value:,.0f}",
        title="Requests that ended, by day",
        colours=[ENDINGS[ending][1] for ending in endings],
        is_count=True,
    )
    return _section("How requests ended", "On the day on which they ended.", chart, figures.sum("outcomes", "ended"))


def _costs(figures: Figures) -> str:
    sums = dict[str, float]()
    for row in figures.found["costs"]:
        sums[row["model"]] = sums.get(row["model"], 0.0) + float(row["cost_usd"])
    models = sorted(sums, key=lambda model: (-sums[model], model))[:MODELS]
    series = {model: [0.0] * len(figures.days) for model in (*models, *(["others"] if len(sums) > MODELS else []))}
    for row in figures.found["costs"]:
        line = series[row["model"] if row["model"] in models else "others"]
        line[figures.days.index(row["day"])] += float(row["cost_usd"])
    chart = columns(figures.days, series, said=money, title="Cost of models, by day")
    free = "No model that was asked has a price: nothing was paid, or POWERON_MODEL_PRICE is to be set."
    return _section("What models cost", "In US dollars, by model.", chart, sum(sums.values()) > 0, free)


def _times(figures: Figures) -> str:
    rows = [row for row in figures.found["times"] if not row["by_people"]]
    total = sum(row["total_ms"] for row in rows)
    lines = [Bar(_stage(row), row["total_ms"], f"{_share(row['total_ms'], total)}, {_mean(row)} each") for row in rows]
    people = [
        f'<p class="note">Beside it, an answer of people was waited for {row["times"]:,} times, {_mean(row)} each.</p>'
        for row in figures.found["times"]
        if row["by_people"]
    ]
    chart = bars(lines, title="Time by stage") + "".join(people)
    return _section("Where the time went", "The share of all stages, and how long one took on average.", chart, total)


def _mean(row: Row) -> str:
    return duration(row["total_ms"] / row["times"])


def _stops(figures: Figures) -> str:
    rows = figures.found["stops"]
    lines = [
        Bar(_reason(row["code"], row["level"]), row["times"], f"{row['times']:,}", ENDINGS[row["ending"]][1])
        for row in rows
    ]
    there = {row["ending"] for row in rows}
    chart = bars(lines, title="Reasons by how often") + legend(ENDINGS[ending] for ending in ENDINGS if ending in there)
    return _section(
        "Why things ended",
        "The reasons that ended requests, and those for which actions and calls of models failed, most often first.",
        chart,
        lines,
    )


def _reason(code: str, level: str) -> str:
    return code.replace("_", " ").capitalize() + OF_LEVELS[level]


def _stages(figures: Figures) -> str:
    has_prices = figures.sum("stages", "cost_usd") > 0
    lines = [
        Bar(
            _stage(row),
            float(row["cost_usd"]) if has_prices else row["tokens"],
            (f"{money(float(row['cost_usd']))}, " if has_prices else "") + f"{count(row['tokens'])} tokens",
            GREEN,
        )
        for row in figures.found["stages"]
    ]
    note = "Cost and tokens by what models were asked for." if has_prices else "Tokens by what models were asked for."
    return _section("What models were asked for", note, bars(lines, title="Models by stage"), lines)


def _spending(figures: Figures) -> str:
    total, tokens = figures.sum("spending", "cost_usd"), figures.sum("spending", "tokens")
    rows = [
        (
            FATES[row["fate"]],
            f"{row['calls']:,}",
            count(row["tokens"]),
            money(float(row["cost_usd"])),
            _share(row["cost_usd"], total) if total else _share(row["tokens"], tokens),
        )
        for row in figures.found["spending"]
    ]
    table = _table(("", "Calls", "Tokens", "Cost", "Share"), rows)
    return _section("What became of the answers of models", "Whether each was of use in the end.", table, rows)


def _actions(figures: Figures) -> str:
    rows = [
        (row["action"], f"{row['runs']:,}", _share(row["succeeded"], row["runs"]), f"{row['tries'] - row['runs']:,}")
        for row in figures.found["actions"]
    ]
    rows = [(action, runs, share, again if again[0] != "-" else "0") for action, runs, share, again in rows]
    table = _table(("Action", "Runs", "Succeeded", "Further tries"), rows)
    return _section("What actions did", "The actions that ran most often.", table, rows)


def _transitions(figures: Figures) -> str:
    rows = [(row["from_action"], row["to_action"], f"{row['times']:,}") for row in figures.found["transitions"]]
    table = _table(("After", "came", "Times"), rows)
    return _section("What followed what", "The most frequent steps from one action to the next.", table, rows)


def _people(figures: Figures) -> str:
    approvals = figures.one("approvals")
    again = {row["kind"]: row["times"] for row in figures.found["retries"]}
    rows = [
        ("Approvals asked for", f"{approvals['asked']:,}"),
        ("granted", f"{approvals['granted']:,}"),
        ("denied", f"{approvals['denied']:,}"),
        ("not answered in time", f"{approvals['expired']:,}"),
        ("median time until an answer", duration(approvals["p50_ms"])),
        ("Tasks that were begun again", f"{again.get('task', 0):,}"),
        ("Actions that were begun again", f"{again.get('action', 0):,}"),
        ("Answers of models that were refused", f"{again.get('answer', 0):,}"),
        ("Further calls of models for one answer", f"{again.get('model_call', 0):,}"),
    ]
    return _section("People, and second tries", "", _table(("", "Count"), rows), rows)


def _section(
    title: str, note: str, content: str, there: object, empty: str = "There was nothing in these days."
) -> str:
    body = content if there else f"<p>{escape(empty)}</p>"
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{body}</section>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        right = [not cell[:1].isalpha() or head in ("Times", "Count") for cell, head in zip(cells, heads, strict=True)]
        numbers = right if tag == "td" else [head not in ("", "Action", "After", "came") for head in heads]
        return "".join(
            f'<{tag} class="n">{escape(cell)}</{tag}>' if number else f"<{tag}>{escape(cell)}</{tag}>"
            for cell, number in zip(cells, numbers, strict=True)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><tr>{line('th', heads)}</tr>{body}</table>"


def _stage(row: Row) -> str:
    stage: str = row["stage"]
    return STAGE_LABELS.get(stage, stage)


def money(value: float) -> str:
    """Format US dollars, with as many decimal places as are meaningful."""
    amount = float(value)
    if amount == 0 or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.{1 - math.floor(math.log10(amount))}f}"


def duration(ms: float | None) -> str:
    """Format a duration for users."""
    if ms is None:
        return "–"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if ms >= size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms:.0f} ms"


def count(value: float) -> str:
    """Abbreviate a large number."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{value:,}"


def _share(part: float, total: float) -> str:
    if not total:
        return "–"
    share = float(part) / float(total)
    return "<1%" if 0 < share < LEAST_SHARE else f"{share:.0%}"


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
