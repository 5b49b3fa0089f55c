"""The events of a workflow as lines that a user can follow."""

from rich.text import Text

from poweron_events.client import Heard
from poweron_events.round_events import BudgetRequested
from poweron_events.step_events import ApprovalRequested
from poweron_services.cli import advice
from poweron_services.cli.output import print_beside, stderr, tell
from poweron_services.client.client_errors import AskedFor
from poweron_services.client.event_words import told_lines
from poweron_services.client.follow import not_taken_yet, waits_for_quota

STYLES = {
    "failed": "bold red",
    "refused": "bold red",
    "approval": "bold yellow",
    "denied": "bold red",
    "not run": "bold yellow",
    "stopped": "bold yellow",
    "stuck": "bold red",
    "cancelled": "bold yellow",
    "paused": "bold yellow",
    "budget": "bold yellow",
    "superseded": "dim",
    "result": "green",
    "decision": "cyan",
    "completed": "bold green",
}
PLACE, WORD = 14, 12  # columns


class Narrator:
    """Prints events on stderr. A terminal shows the step once, any other output on every line."""

    def __init__(self) -> None:
        self._place = ""

    def __call__(self, record: Heard) -> None:
        for place, word, sentence in told_lines(record):
            self._tell(place, word, sentence)
        if record.verdict == "accepted" and isinstance(record.event, ApprovalRequested | BudgetRequested):
            tell_how_to_answer(record.workflow.id, budget=record.workflow.asks_for_budget)

    def _tell(self, place: str, word: str, sentence: str) -> None:
        label = "" if stderr.is_terminal and place == self._place else place
        self._place = place
        margin = Text(f"{label:<{PLACE}}", style="dim")
        margin.append(f"{word:<{WORD}}", style=STYLES.get(word, "bold"))
        print_beside(stderr, margin, sentence)


def commands(workflow_id: str) -> tuple[str, str]:
    """Return the commands that answer an approval."""
    return f'poweron approve {workflow_id} --reason "…"', f'poweron deny {workflow_id} --reason "…"'


def budget_commands(workflow_id: str) -> tuple[str, str]:
    """Return the commands that answer a question for a larger budget."""
    return f'poweron approve {workflow_id} --tokens N --reason "…"', f'poweron deny {workflow_id} --reason "…"'


def tell_how_to_answer(workflow_id: str, *, budget: bool = False) -> None:
    """Print each command on its own line, which no terminal wraps, so that it can be copied."""
    for command in (budget_commands if budget else commands)(workflow_id):
        stderr.print(Text(f"{'':<{PLACE}}{command}"), soft_wrap=True)


def tell_untaken(asked: AskedFor) -> None:
    """Report that no process has picked up what was sent; possibly no process is serving."""
    tell(f"{not_taken_yet(asked)} {advice.untaken(asked)}")


def tell_quota_reached(reason: str) -> None:
    """Report which quota the request waits for, and until when."""
    tell(f"{waits_for_quota(reason)} Ctrl-C stops waiting; the request remains in the log.")
