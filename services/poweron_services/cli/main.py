"""The command line: data on stdout, progress on stderr, whole sentences when something is wrong."""

from typing import Annotated, Optional

import typer

from poweron_services.cli import analysis_commands
from poweron_services.cli.arguments import (
    AsJson,
    Before,
    ConnectionLabels,
    FollowedUp,
    HandedOver,
    InMode,
    Limit,
    NoServe,
    Output,
    Parts,
    Peer,
    Seed,
    WorkflowId,
    dollars,
    tokens,
)
from poweron_services.cli.audit_commands import add_audit_commands
from poweron_services.cli.bi_group import bi
from poweron_services.cli.check_groups import models, search
from poweron_services.cli.choices import Mode, PlayedRole
from poweron_services.cli.command_group import CommandGroup
from poweron_services.cli.documents_group import documents
from poweron_services.cli.fork_commands import register_fork_commands
from poweron_services.cli.mcp_group import mcp

app = typer.Typer(
    cls=CommandGroup,
    name="poweron",
    help="Run work that a language model steers, as a log of events that anyone can audit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"poweron {version('poweron-services')}")
        raise typer.Exit


@app.callback()
def _poweron(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Options that apply to all commands."""


app.add_typer(models, name="models")
app.add_typer(search, name="search")
app.add_typer(mcp, name="mcp")
app.add_typer(documents, name="documents")
app.add_typer(bi, name="bi")


@app.command()
def ask(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What you ask for, in a sentence.")],
    document: HandedOver = None,
    workflow: FollowedUp = None,
    connection: ConnectionLabels = None,
    max_steps: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="At most N steps per task.")] = 5,
    language: Annotated[
        Optional[str], typer.Option(metavar="xx", help="The language of the answer: en, de, pt-BR, …")
    ] = None,
    mode: InMode = Mode.React,
    max_tokens: Annotated[Optional[int], tokens("At most N tokens of models for this request.")] = None,
    max_cost: Annotated[Optional[float], dollars("At most this much money for models for this request.")] = None,
    max_workflow_tokens: Annotated[Optional[int], tokens("At most N for the workflow, follow-ups too.")] = None,
    max_workflow_cost: Annotated[Optional[float], dollars("At most this much for it, follow-ups too.")] = None,
    output: Output = None,
    no_serve: NoServe = False,
    as_json: AsJson = False,
) -> None:
    """Ask for work, follow it, and print the answer.

    The answer goes to stdout, progress to stderr. Resulting documents are written to --output,
    by default poweron-output/WORKFLOW. Ctrl-C stops following; the workflow remains and is never lost.
    A follow-up can start once the previous round has ended.

    Exit 0 completed, 1 failed, 2 wrong usage, 3 cancelled, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    from poweron_services.cli import ask_command

    ask_command.run(
        prompt,
        document or [],
        connection or [],
        max_steps=max_steps,
        language=language,
        mode=mode.value,
        budgets=ask_command.budgets(
            max_tokens=max_tokens,
            max_cost=max_cost,
            max_workflow_tokens=max_workflow_tokens,
            max_workflow_cost=max_workflow_cost,
        ),
        workflow=workflow,
        output=output,
        serving=not no_serve,
        as_json=as_json,
    )


@app.command()
def cancel(
    workflow: WorkflowId,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason, which the history shows.")] = "",
    as_json: AsJson = False,
) -> None:
    """Cancel the open round of a workflow.

    Running work is stopped; finished work stays, and a follow-up is possible.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 cancelled, 1 ended otherwise or not cancelled, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    from poweron_services.cli import cancel_command

    cancel_command.run(workflow, reason, as_json=as_json)


@app.command()
def approve(
    workflow: WorkflowId,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason, which the log records.")] = "",
    as_json: AsJson = False,
) -> None:
    """Approve the pending action of a workflow.

    Shows the action first. The approval is for exactly these parameters.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 approved, 1 not approved, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    from poweron_services.cli import approval_commands

    approval_commands.decide(workflow, "approve", reason, as_json=as_json)


@app.command()
def deny(
    workflow: WorkflowId,
    reason: Annotated[str, typer.Option(metavar="WHY", help="Why; the workflow goes on with it in mind.")],
    as_json: AsJson = False,
) -> None:
    """Deny the pending action of a workflow.

    Shows the action first. The workflow continues without it.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 denied, 1 not denied, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    from poweron_services.cli import approval_commands

    approval_commands.decide(workflow, "deny", reason, as_json=as_json)


@app.command()
def approvals(limit: Limit = 50, as_json: AsJson = False) -> None:
    """Show pending approvals.

    Shows the action, its parameters in full, since when it has been waiting and when it expires; longest waiting first.
    """
    from poweron_services.cli import approval_commands

    approval_commands.approvals(limit, as_json=as_json)


@app.command()
def workflows(limit: Limit = 20, as_json: AsJson = False) -> None:
    """List workflows, newest first."""
    from poweron_services.cli import query_commands

    query_commands.workflows(limit, as_json=as_json)


@app.command()
def history(
    workflow: WorkflowId,
    limit: Limit = 50,
    before: Before = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare its rows with the log first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a workflow's history, newest first.

    Reads the rows in Postgres as they are; with --verify, compares them with the log first.
    """
    from poweron_services.cli import query_commands

    query_commands.history(workflow, limit, before, verifying=verify, as_json=as_json)


@app.command()
def events(workflow: WorkflowId, as_json: AsJson = False) -> None:
    """Show every event of a workflow, oldest first.

    Each has its verdict: accepted, or superseded if another event came first.
    """
    from poweron_services.cli import query_commands

    query_commands.events(workflow, as_json=as_json)


@app.command()
def watch(workflow: WorkflowId, as_json: AsJson = False) -> None:
    """Follow a workflow until its round has ended.

    Shows every event so far, then each new one as it happens.
    """
    from poweron_services.cli import query_commands

    query_commands.watch(workflow, as_json=as_json)


@app.command()
def sources(workflow: WorkflowId, as_json: AsJson = False) -> None:
    """Show what a workflow's answers cite, and check the quotes.

    Shows each web page with its address, its title, when it was fetched and the SHA-256 of its bytes, each document
    with its place, the statements that cite it, and whether their quotes appear there: found, not found, not quoted,
    or missing if the source is no longer stored.
    """
    from poweron_services.cli import sources_command

    sources_command.sources(workflow, as_json=as_json)


add_audit_commands(app)
register_fork_commands(app)


@app.command()
def deadletters(limit: Limit = 50, as_json: AsJson = False) -> None:
    """Show records that cannot be read, and why.

    Newest first. With --json, each includes its bytes as base64.
    """
    from poweron_services.cli import query_commands

    query_commands.dead_letters(limit, as_json=as_json)


@app.command()
def serve(
    role: Annotated[list[PlayedRole] | None, typer.Option(metavar="ROLE", help="Only this role; repeatable.")] = None,
) -> None:
    """Do the work: play the roles until stopped.

    Plays all roles unless --role names some. Any number of these processes share the work.
    """
    from poweron_services.cli import service_commands

    service_commands.serve([each.value for each in role or []])


@app.command()
def rebuild(as_json: AsJson = False) -> None:
    """Rebuild the rows in Postgres from the log.

    The new rows are built beside the old ones, compared with them, and swapped in at once.
    """
    from poweron_services.cli import service_commands

    service_commands.rebuild(as_json=as_json)


@app.command()
def verify(
    content: Annotated[bool, typer.Option("--content", help="Read every content, and check its digest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare rows and content store with the log.

    Lists every cell and row in Postgres that differs, and every missing or damaged content that events refer to.
    Exit 0 if there is none, else 1.
    """
    from poweron_services.cli import service_commands

    service_commands.verify(reading=content, as_json=as_json)


@app.command()
def recover(
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recover after events were lost from the log.

    If the topic poweron.events was deleted, or holds less than the rows, nothing is appended. This command lists the
    lost workflows, asks, and rebuilds the rows from what the log holds. A restored topic does not need it.

    With --json, or without a terminal to ask on, it changes nothing without --yes.
    Exit 0 recovered or nothing to recover, 1 nothing was changed.
    """
    from poweron_services.cli import recover_command

    recover_command.recover(yes=yes, as_json=as_json)


@app.command()
def up(as_json: AsJson = False) -> None:
    """Start Kafka and Postgres on this machine.

    They keep running until `poweron down`.
    """
    from poweron_services.cli import server_commands

    server_commands.up(as_json=as_json)


@app.command()
def down(as_json: AsJson = False) -> None:
    """Stop the Kafka and Postgres of this machine."""
    from poweron_services.cli import server_commands

    server_commands.down(as_json=as_json)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show where Kafka and Postgres answer, and how to log in.

    Also checks the log and the content store. Exit 1 if a server or the content store does not answer, or if events
    or contents are missing.
    """
    from poweron_services.cli import server_commands

    server_commands.status(as_json=as_json)


@app.command()
def bench(
    only: Parts = None,
    fsync: Annotated[bool, typer.Option("--fsync", help="Let Kafka force every record to the disk.")] = False,
    processes: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="How many processes play all the roles.", show_default=True)
    ] = 1,
    peer: Peer = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast PowerOn is on this machine.

    Prints our figures beside yardsticks of the same run: a bare ring of Kafka topics, the same ring written
    to Postgres, a bare COPY. The model and the action answer at once. It takes a few minutes and uses its own
    servers, whose data is removed afterwards; nothing else should be running meanwhile.

    Exit 1 if the run is void because the yardsticks show that the machine was busy.
    """
    from poweron_services.cli import bench_command

    bench_command.bench(only or [], fsync=fsync, processes=processes, peer=peer, as_json=as_json)


@app.command()
def chaos(
    minutes: Annotated[float, typer.Option(min=0.05, max=1_440, metavar="N", help="How long faults strike.")] = 1.0,
    seed: Seed = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data directory, also after a clean run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Inject faults, and check that nothing is lost.

    Starts its own servers and role processes, asks for work, and kills, freezes and empties them at random.
    Then everything must settle: every request answered, every workflow ended once, no effect twice, rows matching
    the log.
    Your own servers and data are not touched.

    Exit 0 clean, 1 not clean, 130 stopped by Ctrl-C or SIGTERM.
    """
    from poweron_services.cli import chaos_command

    chaos_command.run(minutes, seed, keep=keep, as_json=as_json)


analysis_commands.register(app)


def main() -> None:
    """Read the arguments and run the command."""
    app()
