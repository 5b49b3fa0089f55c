"""The arguments and options that several commands share. Imports nothing slow."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poweron_services.cli.choices import Measured, Mode
from poweron_services.cli.command_group import remember_json

AsJson = Annotated[
    bool, typer.Option("--json", is_eager=True, callback=remember_json, help="Print JSON instead of text.")
]
"""Eager, so that it is known when another argument turns out to be wrong."""
WorkflowId = Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's id, as `poweron ask` printed it.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="DIR", help="The folder to write documents to; no file is replaced.")
]
HandedOver = Annotated[
    list[Path] | None,
    typer.Option("--document", metavar="PATH", help="A document to hand over; repeatable, up to 100."),
]
FollowedUp = Annotated[
    str | None,
    typer.Option("--workflow", metavar="ID", help="Follow up on this workflow: its history and documents are at hand."),
]
ConnectionLabels = Annotated[
    list[str] | None,
    typer.Option("--connection", metavar="LABEL", help="A connection that actions may work on; repeatable."),
]
NoServe = Annotated[
    bool,
    typer.Option(
        "--no-serve",
        help="Only request and follow; a `poweron serve` elsewhere does the work. "
        "If none takes the request within a minute, the command ends with exit 1 and the request remains in the log.",
    ),
]
Parts = Annotated[
    list[Measured] | None,
    typer.Option(
        "--only",
        metavar="PART",
        help="Measure only this part, repeatable: ask, documents, latency, throughput, growth, history or rebuild.",
    ),
]
Peer = Annotated[
    str | None,
    typer.Option(
        "--peer",
        metavar="COMMAND",
        help="Measure in turn with this command, which runs the same workload and prints its figures as JSON.",
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, metavar="N", help="The same seed: the same faults and requests.")
]
Before = Annotated[
    int | None,
    typer.Option("--before", metavar="SEQ", min=0, max=2**31 - 1, help="Only entries before this seq."),
]
AlsoForeign = Annotated[
    bool, typer.Option("--yes", help="Also where the log knows none of the workflows that are stored.")
]


def _mode(name: str) -> Mode:
    """Return the mode of this name, ignoring case; typer would list the names in lower case."""
    for mode in Mode:
        if mode.casefold() == name.casefold():
            return mode
    raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, map(str, Mode)))}.")


InMode = Annotated[
    Mode,
    typer.Option(
        metavar="MODE",
        parser=_mode,
        help="React selects one action at a time. Actionplan (deprecated) plans all actions of a task at once.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, metavar="N", help="At most N entries.")]


def tokens(meaning: str) -> Any:
    """Create an option for a number of tokens."""
    return typer.Option(min=1, max=2**31 - 1, metavar="N", help=meaning)


def dollars(meaning: str) -> Any:
    """Create an option for an amount of money, in US dollars."""
    return typer.Option(min=0, max=10_000, metavar="USD", help=meaning)
