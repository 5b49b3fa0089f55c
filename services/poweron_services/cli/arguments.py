"""The arguments and options that several commands share. Imports nothing slow."""

from pathlib import Path
from typing import Annotated

import typer

from poweron_services.cli.context import AS_JSON


def _remember_json(as_json: bool) -> bool:
    """Remember the value of `--json`, which decides how later errors are reported, and return it."""
    AS_JSON.set(as_json)
    return as_json


AsJson = Annotated[
    bool, typer.Option("--json", is_eager=True, callback=_remember_json, help="Print JSON instead of text.")
]
"""Eager, so that it is known when another argument turns out to be wrong."""
WorkflowId = Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's id, as `poweron ask` printed it.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="DIR", help="The folder to write documents to; no file is replaced.")
]
NoServe = Annotated[
    bool,
    typer.Option(
        "--no-serve",
        help="Only request and follow; a `poweron serve` elsewhere does the work. "
        "If none takes the request within a minute, the command ends with exit 1 and the request remains in the log.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, metavar="N", help="At most N entries.")]
