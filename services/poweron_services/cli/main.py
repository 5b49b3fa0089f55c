"""The command line: data on stdout, progress on stderr, whole sentences when something is wrong.

`COMMANDS` names the module of every command; it is imported when the command is run, so that `poweron --help` is fast.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from poweron_services.cli.command_group import CommandGroup


class _Command(NamedTuple):
    """Where a command is defined: the module has a function, or a group of commands, of the command's name."""

    module: str
    meaning: str
    """The first sentence of its help, which `poweron --help` lists."""


COMMANDS: Final = {
    "ask": _Command("ask_command", "Ask for work, follow it, and print the answer."),
    "cancel": _Command("cancel_command", "Cancel the open rounds of workflows."),
    "pause": _Command("verb_commands", "Pause workflows: what runs is finished, and nothing new begins."),
    "resume": _Command("verb_commands", "Resume paused workflows."),
    "restart": _Command("verb_commands", "Start new workflows with the same requests."),
    "approve": _Command("approval_commands", "Approve the pending action, or grant a larger budget."),
    "deny": _Command("approval_commands", "Deny the pending action, or a larger budget."),
    "approvals": _Command("approval_commands", "Show pending approvals."),
    "erase": _Command("erase_command", "Erase content of workflows from the content store."),
    "retain": _Command("retain_command", "Keep the content of workflows until a date, or on legal hold."),
    "policy": _Command("policy_commands", "Show, check and apply the policy: what is allowed, and by whom."),
    "permissions": _Command("permissions_command", "Show what was allowed when, and which processes could do it."),
    "workflows": _Command("query_commands", "List workflows, newest first."),
    "history": _Command("query_commands", "Show a workflow's history, newest first."),
    "events": _Command("query_commands", "Show every event of a workflow, oldest first."),
    "watch": _Command("query_commands", "Follow a workflow until its round has ended."),
    "sources": _Command("query_commands", "Show what a workflow's answers cite, and check the quotes."),
    "show": _Command("audit_commands", "Show what a decision saw."),
    "replay": _Command("audit_commands", "Replay every decision of a workflow, and compare."),
    "fork": _Command("fork_commands", "Start a new workflow from an event of another one."),
    "diff": _Command("fork_commands", "Show where two workflows first differ, and what each cost."),
    "deadletters": _Command("query_commands", "Show records that cannot be read, and why."),
    "serve": _Command("service_commands", "Do the work: play the roles until stopped."),
    "door": _Command("door_command", "Serve web pages and an HTTP API."),
    "keys": _Command("keys_commands", "Add, list and revoke keys of the door over HTTP."),
    "rebuild": _Command("service_commands", "Rebuild the rows in Postgres from the log."),
    "verify": _Command("service_commands", "Compare rows and content store with the log."),
    "recover": _Command("service_commands", "Recover after events were lost from the log."),
    "up": _Command("server_commands", "Start Kafka and Postgres on this machine."),
    "down": _Command("server_commands", "Stop the Kafka and Postgres of this machine."),
    "status": _Command("server_commands", "Show where Kafka and Postgres answer, and how to log in."),
    "bench": _Command("bench_command", "Measure how fast PowerOn is on this machine."),
    "chaos": _Command("chaos_command", "Inject faults, and check that nothing is lost."),
    "evaluate": _Command("evaluate_command", "Run a table of requests, and score the answers."),
    "export": _Command("export_command", "Export workflows to other tools, or as a bundle for auditors."),
    "audit": _Command("ledger_commands", "Verify audit bundles and files, and show the keys of the ledger."),
    "witness": _Command("witness_commands", "Cosign checkpoints of ledgers, as a witness of them."),
    "models": _Command("check_commands", "Check the language models."),
    "search": _Command("check_commands", "Check the search engine."),
    "mcp": _Command("mcp_commands", "Check and approve servers of tools that speak MCP, or be one."),
    "documents": _Command("documents_commands", "List a workflow's documents, or remove unused content."),
    "bi": _Command("bi_commands", "Export figures for analysts, or write a report page."),
}


@cache
def _load(name: str) -> Any:
    """Import a command, and return it as typer runs it."""
    command = getattr(import_module(f"poweron_services.cli.{COMMANDS[name].module}"), name)
    if isinstance(command, typer.Typer):
        group: Any = typer.main.get_group(command)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name)(command)
    return typer.main.get_command(alone)


class _Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _LazyGroup(CommandGroup):
    """Lists the commands without importing them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer hands it over
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.meaning) for name, command in COMMANDS.items()])


app = typer.Typer(
    cls=_LazyGroup,
    name="poweron",
    help="Run work that a language model steers, as a log of events that anyone can audit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - takes long to import

        from poweron_services.cli.output import interpreter_advice  # noqa: PLC0415 - as above

        typer.echo(f"poweron {version('poweron-services')}")
        if advice := interpreter_advice():
            typer.echo(advice, err=True)
        raise typer.Exit


@app.callback()
def _poweron(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Options that apply to all commands."""


def main() -> None:
    """Read the arguments and run the command."""
    app()
