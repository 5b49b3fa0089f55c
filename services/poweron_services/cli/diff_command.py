"""`poweron diff`: show where two workflows first differ, and what each cost."""

from collections.abc import Iterator, Sequence
from typing import Any

import typer
from rich.table import Table

from poweron_events.event import NANO
from poweron_projections.record_verdicts import judged_records
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import check_id, load_settings, run_work, sentences
from poweron_services.cli.event_lines import shown_value
from poweron_services.cli.output import counted, print_json, printable, stdout, tell
from poweron_services.client.connect import Connections
from poweron_services.client.workflow_history import verified_records
from poweron_services.client.workflow_snapshot import read_snapshot
from poweron_services.fork.original import AcceptedEvent, accepted
from poweron_services.fork.run_comparison import Comparison, Divergence, RunCost, compare
from poweron_services.standalone import open_connections

WIDE = 2_000  # characters of a value that are shown
NOT_GIVEN = "not given"


def run(a: str, b: str, *, as_json: bool) -> None:
    """Compare and print; exit 1 if the workflows differ."""
    with sentences():
        check_id(a)
        check_id(b)
        compared = run_work(_compared(a, b))
        if as_json:
            print_json(_json(a, b, compared))
        else:
            _print(a, b, compared)
    raise typer.Exit(0 if compared.same else FAILED)


async def _compared(a: str, b: str) -> Comparison:
    async with open_connections(load_settings(), tell) as connections:
        ours, theirs = await _events(connections, a), await _events(connections, b)
    return compare([each.event for each in ours], [each.event for each in theirs])


async def _events(connections: Connections, workflow: str) -> list[AcceptedEvent]:
    await read_snapshot(connections, workflow)
    await verified_records(connections, workflow)
    return accepted(await judged_records(connections.pool, workflow))


def _json(a: str, b: str, compared: Comparison) -> dict[str, Any]:
    parted = compared.divergence
    return {
        "same": compared.same,
        "divergence": None if parted is None else parted.model_dump(mode="json", by_alias=True),
        "a": _cost(a, compared.a),
        "b": _cost(b, compared.b),
    }


def _cost(workflow: str, cost: RunCost) -> dict[str, Any]:
    given = cost.model_dump(mode="json", by_alias=True, exclude={"cost_nano_usd"})
    return {"workflowId": workflow, **given, "costUsd": cost.cost_nano_usd / NANO}


def _print(a: str, b: str, compared: Comparison) -> None:
    if compared.divergence is None:
        stdout.print("Both did the same: actions, parameters, outcomes and decisions are equal at every place.")
    else:
        for line in divergence_lines(compared.divergence):
            stdout.print(line)
    stdout.print()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("", "steps", "calls", "taken over", "tokens", "cost", "models", "actions"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, workflow, cost in (("A", a, compared.a), ("B", b, compared.b)):
        stdout.print(f"{name}  {workflow}")
        table.add_row(name, *_cells(cost))
    stdout.print()
    stdout.print(table)


def _cells(cost: RunCost) -> list[str]:
    return [
        f"{cost.steps:,}",
        f"{cost.calls:,}",
        f"{cost.recorded_calls:,}",
        f"{cost.tokens:,}",
        f"${cost.cost_nano_usd / NANO:.4f}",
        f"{cost.model_ms / 1000:.1f} s",
        f"{cost.action_ms / 1000:.1f} s",
    ]


def divergence_lines(parted: Divergence) -> Iterator[str]:
    """Yield lines that say where two workflows first differ, and what each did there."""
    yield f"They part in {_where((parted.round, parted.task, parted.attempt, parted.step))}, by {_BY[parted.what]}."
    a, b = parted.a, parted.b
    if parted.what == "parameters":
        a, b = _differing(a, b), _differing(b, a)
    yield f"  A  {_cut(_told(parted.what, a))}"
    yield f"  B  {_cut(_told(parted.what, b))}"


_BY = {
    "action": "the action",
    "parameters": "the parameters of the action",
    "outcome": "the outcome",
    "decision": "the decision",
    "length": "how far they go",
}
_PLACES = ("round", "task", "attempt", "step")


def _where(place: Sequence[int]) -> str:
    """Format a place as `round 1, task 2, attempt 1, step 3`, leaving out zeros."""
    return ", ".join(f"{name} {number}" for name, number in zip(_PLACES, place, strict=True) if number)


def _differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ, including those that only the other workflow has."""
    told = [{name: given.get(name, NOT_GIVEN) for name in sorted({*one, *other})} for given in (one, other)]
    return {name: value for name, value in told[0].items() if value != told[1][name]}


def _told(what: str, value: Any) -> str:
    match value:
        case None:
            return "nothing more"
        case {"place": place}:
            kind, come_to = next((str(name), each) for name, each in value.items() if name != "place")
            said_by_itself = isinstance(come_to, dict) and kind != "parameters"
            return f"{_where(place)}: {'' if said_by_itself else f'{kind} '}{_told(kind, come_to)}"
        case dict() if what == "parameters":
            return "; ".join(f"{name}: {shown_value(each)}" for name, each in value.items()) or "none"
        case {"tasks": int() as count}:
            return counted(count, "task")
        case {"stage": stage, "code": code}:
            return f"failed in stage {stage}" + (f" ({code})" if code else "")
        case _:
            return str(value)


def _cut(text: str) -> str:
    shown = printable(text)
    left_out = len(shown) - WIDE
    return shown if left_out <= 0 else f"{shown[:WIDE]}… ({counted(left_out, 'more character')})"
