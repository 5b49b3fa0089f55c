"""`poweron approve`, `poweron deny` and `poweron approvals`: list pending approvals, and answer them."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated

import orjson
import typer
from pydantic import JsonValue
from rich.console import Console
from rich.text import Text

from poweron_projections import reader
from poweron_projections.entries import ApprovalEntry, DocumentEntry
from poweron_services.cli.arguments import AsJson, Limit, WorkflowId
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import check_id, check_reason, load_settings, run_work, sentences, stop
from poweron_services.cli.event_lines import commands, tell_untaken
from poweron_services.cli.output import MIN_COLUMNS, one_line, print_json, printable, stderr, stdout, tell, utc
from poweron_services.cli.query_commands import bring_rows_on
from poweron_services.client.approve import ApprovalOutcome, Decision, answer, answer_to, waiting_approval
from poweron_services.client.follow import Callbacks
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, open_connections


@sentences()
def approvals(limit: Limit = 50, as_json: AsJson = False) -> None:
    """Show pending approvals.

    Shows the action, its parameters in full, since when it has been waiting and when it expires; longest waiting first.
    """

    async def read() -> list[tuple[ApprovalEntry, list[DocumentEntry]]]:
        async with open_connections(load_settings(), tell) as connections:
            await bring_rows_on(connections)
            entries = await reader.approvals(connections.pool, limit=limit)
            return [
                (entry, [] if as_json else await reader.documents(connections.pool, entry.workflow_id))
                for entry in entries
            ]

    pending = run_work(read())
    for entry, documents in pending:
        if as_json:
            print_json(entry.model_dump(mode="json", by_alias=True))
            continue
        stdout.print(shown(entry, documents, _width(stdout)))
        for command in commands(entry.workflow_id):
            stdout.print(f"  {command}", soft_wrap=True)
    if not pending and not as_json:
        stdout.print("Nothing waits for an approval.")


def shown(entry: ApprovalEntry, documents: Sequence[DocumentEntry] = (), width: int | None = None) -> Text:
    """Render everything there is to decide on; the parameters in full, since the answer is bound to them.

    Args:
        entry: the pending approval.
        documents: the documents of the workflow, which resolve the document lists that the action reads.
        width: the width of the terminal; None to leave lines unwrapped.
    """
    parameters = orjson.dumps(entry.parameters, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
    heading = Text(f"Workflow {entry.workflow_id}: {one_line(entry.action)}\n", style="bold")
    lines = [
        _beside("  asked for:  ", entry.prompt, width),
        *([_beside("  asked by:   ", entry.actor.described, width)] if entry.actor else []),
        _beside("  objective:  ", entry.objective, width),
        *(_beside("  documents:  ", line, width) for line in _lists(entry.parameters, documents)),
        f"  waits since {utc(entry.asked)}, until {utc(entry.expires)} (UTC)",
        "  parameters: " + printable(parameters).replace("\n", "\n  "),
    ]
    return heading.append("\n".join(lines), style="not bold")


def _beside(margin: str, text: str, width: int | None) -> str:
    line = one_line(text, 400)
    if width is None:
        return margin + line
    return textwrap.fill(line, width, initial_indent=margin, subsequent_indent=" " * len(margin))


def _lists(parameters: JsonValue, documents: Sequence[DocumentEntry]) -> Iterator[str]:
    """Yield the documents of each document list; a reference to a single document already names it."""
    references = parameters.get("documentList") if isinstance(parameters, dict) else None
    for reference in references if isinstance(references, list) else ():
        kind, _, label = str(reference).partition(":")
        if kind == "docList":
            names = [document.document_name for document in documents if document.label == label]
            yield f"{label}: {', '.join(names) or 'none'}"


def _width(console: Console) -> int | None:
    return max(console.width, MIN_COLUMNS) if console.is_terminal else None


def approve(
    workflow: WorkflowId,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason; the log keeps it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Approve the pending action of a workflow.

    Shows the action first. The approval is for exactly these parameters.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 approved, 1 not approved, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    _decide(workflow, "approve", reason, as_json=as_json)


def deny(
    workflow: WorkflowId,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason; the workflow takes it into account.")],
    as_json: AsJson = False,
) -> None:
    """Deny the pending action of a workflow.

    Shows the action first. The workflow continues without it.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 denied, 1 not denied, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    _decide(workflow, "deny", reason, as_json=as_json)


def _decide(workflow: str, decision: Decision, reason: str, *, as_json: bool) -> None:
    """Show the pending approval, send the answer and print the outcome; ends with an exit code."""
    with sentences():
        check_id(workflow)
        check_reason(reason)
        if decision == "deny" and not reason.strip():
            stop("The reason is empty. Say why the action must not run.", USAGE)
        sent: list[str] = []
        outcome = run_work(
            _answer(load_settings(), workflow, decision, reason, sent), lambda: _interruption(workflow, sent=bool(sent))
        )
        if as_json:
            print_json(
                {"workflowId": workflow, "status": outcome.status, "code": outcome.code, "detail": outcome.detail}
            )
        else:
            stdout.print(_sentence(outcome))
    raise typer.Exit(FAILED if outcome.status == "refused" else 0)


async def _answer(
    settings: Settings, workflow: str, decision: Decision, reason: str, sent: list[str]
) -> ApprovalOutcome:
    async with open_connections(settings, tell) as connections:
        waiting = await waiting_approval(connections, workflow)
        stderr.print(shown(waiting, await reader.documents(connections.pool, workflow), _width(stderr)))
        return await answer(
            connections,
            answer_to(waiting, decision, reason=reason, approver=settings.acting_through("cli")),
            identity=local_identity(),
            callbacks=Callbacks(requested=sent.append, untaken=tell_untaken),
        )


def _sentence(outcome: ApprovalOutcome) -> str:
    id_ = outcome.workflow_id
    if outcome.status == "refused":
        return f"Nothing was decided in workflow {id_}. {printable(outcome.detail)}"
    return f"The action is {outcome.status}. Workflow {id_} continues; `poweron watch {id_}` shows how."


def _interruption(workflow: str, *, sent: bool) -> str:
    if not sent:
        return "Stopped before anything was decided."
    return f"Stopped waiting; the answer remains in the log. `poweron watch {workflow}` shows the outcome."
