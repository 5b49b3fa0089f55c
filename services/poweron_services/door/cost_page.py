"""The page of costs: what model calls used, by day, model, stage and actor, and which budgets are nearly used up."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import HTMLResponse

from poweron_events.fold.day_use import DAY_MS, day_start_ms
from poweron_projections.usage_totals import FATES, CallTotals, Fate, UsageTotal, added, usage_totals
from poweron_services.client.budget_levels import NEAR, budget_levels
from poweron_services.door.access import Reader
from poweron_services.door.door_state import Opened
from poweron_services.door.page_rendering import rendered
from poweron_services.door.query_route import QueryRoute

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

DAYS: Final = (7, 30, 90, 365)
MOST: Final = 20  # rows of a table
BUDGETS: Final = 20
FATE_WORDS: Final[dict[Fate, str]] = {
    "used": "Used",
    "retried": "Attempt repeated",
    "refused": "Answer refused",
    "superseded": "Superseded",
    "failed": "Call failed",
}
TICKS: Final = 5
WIDTH, HEIGHT, MARGIN = 720, 180, 4  # of the chart, in its own units


@dataclass(frozen=True, slots=True)
class DayBar:
    """A part of a day's bar."""

    fate: Fate
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """What was used on each day, as bars."""

    bars: Sequence[DayBar]
    days: Sequence[str]
    """A few days from the first to the last, as labels of the x axis."""
    greatest: int
    """The greatest total of a day: tokens, or nano-USD."""
    is_money: bool


@dataclass(frozen=True, slots=True)
class CostTable:
    """The totals by model, stage or actor."""

    id: str
    title: str
    heading: str
    rows: Sequence[UsageTotal]
    left_out: int
    unknown: str
    """What a total without a key is of."""


@router.get("/costs")
async def costs_page(
    *, request: Request, connections: Opened, _: Reader, days: Annotated[int, Query(ge=1, le=3_660)] = 30
) -> Response:
    """Show tokens and money of the last days."""
    now_ms = time.time_ns() // 1_000_000
    since_ms = day_start_ms(now_ms) - (days - 1) * DAY_MS
    pool = connections.pool
    by_day = await usage_totals(pool, "day", since_ms=since_ms)
    tables = [
        _table(
            "model",
            "By model",
            "Model",
            await usage_totals(pool, "model", since_ms=since_ms),
            "no model: the call failed",
        ),
        _table("stage", "By stage", "Stage", await usage_totals(pool, "stage", since_ms=since_ms), "unknown"),
        _table("actor", "By actor", "Actor", await usage_totals(pool, "actor", since_ms=since_ms), "not recorded"),
    ]
    total = added(by_day)
    fates = {fate: added(day.fates[fate] for day in by_day if fate in day.fates) for fate in FATES}
    every_day = _filled(by_day, since_ms, days)
    return rendered(
        request,
        "costs.html",
        days=days,
        choices=DAYS,
        total=total,
        fates=fates,
        wasted=_wasted(fates),
        fate_words=FATE_WORDS,
        by_day=list(reversed(by_day)),
        chart=chart(every_day, is_money=total.cost_nano_usd > 0),
        size=(WIDTH, HEIGHT),
        tables=tables,
        budgets=await budget_levels(connections, now_ms, limit=BUDGETS),
        near=round(NEAR * 100),
        here=f"/costs?days={days}",
    )


def _table(id_: str, title: str, heading: str, totals: Sequence[UsageTotal], unknown: str) -> CostTable:
    return CostTable(id_, title, heading, totals[:MOST], max(0, len(totals) - MOST), unknown)


def _wasted(fates: dict[Fate, CallTotals]) -> CallTotals:
    """Return what was used without effect."""
    return added(total for fate, total in fates.items() if fate != "used")


def _filled(totals: Sequence[UsageTotal], since_ms: int, days: int) -> list[UsageTotal]:
    """Return a total for each day, also for days without calls."""
    known = {total.key: total for total in totals}
    first = datetime.fromtimestamp(since_ms / 1_000, UTC).date()
    names = [(first + timedelta(days=number)).isoformat() for number in range(days)]
    return [known.get(name) or UsageTotal(key=name, fates={}) for name in names]


def chart(days: Sequence[UsageTotal], *, is_money: bool) -> Chart:
    """Return a bar for each day, in parts by what happened to the calls."""

    def amount(total: CallTotals) -> int:
        return total.cost_nano_usd if is_money else total.tokens

    greatest = max(map(amount, days), default=0)
    step = WIDTH / max(1, len(days))
    width = min(40.0, max(1.0, step * 0.72))
    bars = list[DayBar]()
    for number, day in enumerate(days):
        x, y = number * step + (step - width) / 2, float(HEIGHT)
        for fate, part in day.fates.items():
            height = amount(part) / greatest * (HEIGHT - MARGIN) if greatest else 0.0
            if height > 0:
                y -= height
                bars.append(DayBar(fate, round(x, 2), round(y, 2), round(width, 2), round(height, 2)))
    labels = [days[round(number * (len(days) - 1) / TICKS)].key for number in range(TICKS + 1)]
    return Chart(bars, list(dict.fromkeys(labels)), greatest, is_money)
