"""`poweron show`: show what a decision saw."""

from typing import Any

from rich.text import Text

from poweron_events.event import PREFIX
from poweron_services.cli.error_messages import check_id, sentences
from poweron_services.cli.output import one_line, print_beside, print_json, printable, stdout, tell
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.connect import Connections
from poweron_services.client.workflow_history import verified_records
from poweron_services.replay.decision_view import DecisionView, as_object, view


@sentences()
def show(workflow: str, at: int | None, *, as_json: bool) -> None:
    """Show a workflow after an event, and what the next decision saw."""
    check_id(workflow)

    async def look(connections: Connections) -> DecisionView:
        records = await verified_records(connections, workflow)
        return await view(workflow, records, connections.content, at=at)

    seen = with_rows(look)
    if as_json:
        print_json(as_object(seen))
    else:
        _print(as_object(seen))


def _print(shown: dict[str, Any]) -> None:
    place = ", ".join(f"{name} {shown[name]}" for name in ("round", "task", "attempt", "step") if shown[name])
    _line("event", f"{shown['seq']} {shown['type'].removeprefix(PREFIX)}")
    _line("phase", f"{shown['phase']}{f' ({place})' if place else ''}")
    for message in shown["history"]:
        said = message["summary"] or message["message"]
        _line("history", f"{message['seq']} {message['action'] or message['kind'].replace('_', ' ')}: {said}")
    for document in shown["documents"]:
        _line("document", f"{document['reference']} ({document['mimeType']}, {document['size']} bytes)")
    for budget in shown["budgets"]:
        _line(
            "budget", f"{budget['code'].replace('_', ' ')} of the {budget['of']}: {budget['used']} of {budget['limit']}"
        )
    _print_decision(shown)


def _print_decision(shown: dict[str, Any]) -> None:
    decision = shown["decision"]
    if decision is None:
        tell("No decision has followed this event.")
        return
    _line("decision", f"{decision['seq']} {decision['type'].removeprefix(PREFIX)}")
    if shown["model"] is None:
        _line("model", "none was asked: code has decided")
    else:
        _line("model", shown["model"])
        _line("template", shown["template"])
    for name in ("prompt", "answer"):
        if shown[name] is not None:
            stdout.print(Text(f"\n{name}:", style="bold"))
            stdout.print(Text(printable(shown[name])))
    if shown["missing"]:
        tell(shown["missing"], style="yellow")


def _line(name: str, said: str) -> None:
    print_beside(stdout, Text(f"{name:<10}", style="dim"), one_line(said, 400))
