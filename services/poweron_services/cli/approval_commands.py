"""`poweron approve`, `poweron deny` and `poweron approvals`: list pending approvals, and answer them."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

import orjson
import typer
from pydantic import JsonValue
from rich.console import Console
from rich.text import Text

from poweron_events.errors import Refused
from poweron_events.event import MAX_NANO_USD, MAX_TOKENS, NANO
from poweron_events.policy import ANYONE
from poweron_events.request import RequestApproval, RequestBudget
from poweron_projections import workflow_excerpts
from poweron_projections.entries import ApprovalEntry, BudgetEntry, DocumentEntry
from poweron_services.cli.arguments import AsJson, Limit, WorkflowId
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import check_id, check_reason, load_settings, run_work, sentences, stop
from poweron_services.cli.event_lines import budget_commands, commands, tell_untaken
from poweron_services.cli.output import MIN_COLUMNS, counted, one_line, print_json, printable, stderr, stdout, tell, utc
from poweron_services.cli.query_commands import bring_rows_on
from poweron_services.client.approve import (
    MOST_WAITING,
    ApprovalOutcome,
    Decision,
    OpenQuestions,
    answer,
    answer_to,
    answer_to_budget,
    changed_parameters,
    open_budget_question,
    waiting_approval,
    waiting_for_people,
)
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.policy_words import who_answers
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, open_connections


@sentences()
def approvals(
    mine: Annotated[bool, typer.Option("--mine", help="Only what you may answer, and have not yet.")] = False,
    overdue: Annotated[
        bool, typer.Option("--overdue", help="Only what was escalated because it waited too long.")
    ] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show pending approvals.

    Shows the action, its parameters in full, who may answer, since when it has been waiting and when it expires;
    longest waiting first. Then the rounds that ask for a larger budget, with what they have used.
    """

    async def read() -> tuple[list[tuple[ApprovalEntry, list[DocumentEntry]]], OpenQuestions]:
        async with open_connections(load_settings(), tell) as connections:
            await bring_rows_on(connections)
            answerer = connections.settings.acting_through("cli") if mine else None
            waiting = await waiting_for_people(connections.pool, answerer=answerer, escalated=overdue)
            approvals = [
                (entry, [] if as_json else await workflow_excerpts.documents(connections.pool, entry.workflow_id))
                for entry in waiting.approvals[:limit]
            ]
            return approvals, waiting

    pending, waiting = run_work(read())
    questions = waiting.questions[:limit]
    for entry, documents in pending:
        if as_json:
            print_json(entry.model_dump(mode="json", by_alias=True))
            continue
        stdout.print(shown(entry, documents, _width(stdout)))
        for command in commands(entry.workflow_id):
            stdout.print(f"  {command}", soft_wrap=True)
    for question in questions:
        if as_json:
            print_json(question.model_dump(mode="json", by_alias=True))
            continue
        stdout.print(shown_question(question, _width(stdout)))
        for command in budget_commands(question.workflow_id):
            stdout.print(f"  {command}", soft_wrap=True)
    if not pending and not questions and not as_json:
        nothing = "Nothing was escalated." if overdue else "Nothing waits for an approval."
        stdout.print("Nothing waits for you." if mine else nothing)
    if waiting.is_cut:
        tell(
            f"More than {MOST_WAITING:,} wait. PowerOn shows those that wait longest; answer some of them, "
            "and repeat the command."
        )


def shown_question(entry: BudgetEntry, width: int | None = None) -> Text:
    """Render what there is to decide on: which budget has no room, and what the round has used."""
    used = f"{counted(entry.steps, 'step')}, {counted(entry.input_tokens + entry.output_tokens, 'token')}"
    money = f", ${entry.cost_nano_usd / NANO:g}" if entry.cost_nano_usd else ""
    lines = [
        _beside("  asked for:  ", entry.prompt, width),
        *([_beside("  asked by:   ", entry.actor.described, width)] if entry.actor else []),
        _beside("  budget:     ", entry.reason, width),
        *_answerers(entry, width),
        f"  used so far: {used}{money}",
        f"  waits until {utc(entry.expires)} (UTC)",
    ]
    return Text(f"Workflow {entry.workflow_id}: a larger budget\n", style="bold").append("\n".join(lines), "not bold")


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
        *_answerers(entry, width),
        f"  waits since {utc(entry.asked)}, until {utc(entry.expires)} (UTC)",
        "  parameters: " + printable(parameters).replace("\n", "\n  "),
    ]
    return heading.append("\n".join(lines), style="not bold")


def _answerers(entry: ApprovalEntry | BudgetEntry, width: int | None) -> Iterator[str]:
    """Yield who may answer, unless anyone may; and when further groups may, too."""
    if entry.terms.model_copy(update={"requester": None}) != ANYONE:
        yield _beside("  answers:    ", who_answers(entry.terms), width)
    if isinstance(entry, ApprovalEntry) and entry.escalates:
        groups = " and ".join(entry.terms.escalation)
        yield f"  from {utc(entry.escalates)} (UTC) on {groups} may answer, too"


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
    *,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason; the log keeps it.")] = "",
    tokens: Annotated[
        int, typer.Option(min=0, max=MAX_TOKENS, metavar="N", help="Grant N more tokens to a round that asks for them.")
    ] = 0,
    cost: Annotated[
        float, typer.Option(min=0, max=MAX_NANO_USD / NANO, metavar="USD", help="Grant that much more money.")
    ] = 0,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Propose another value of a parameter; others have to approve it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Approve the pending action, or grant a larger budget.

    Shows what waits first. The approval of an action is for exactly these parameters; what is granted counts for the
    task, the round and the workflow. A policy may let only some people approve, and may need several of them.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 your answer counts, although more people may have to approve; 1 it was refused, 2 wrong usage, 130 stopped by
    Ctrl-C, 143 by SIGTERM.
    """
    granted = Granted(tokens, round(cost * NANO))
    _decide(workflow, _Decided("approve", reason, granted, tuple(changes or ())), as_json=as_json)


def deny(
    workflow: WorkflowId,
    reason: Annotated[str, typer.Option(metavar="WHY", help="The reason; the workflow takes it into account.")],
    as_json: AsJson = False,
) -> None:
    """Deny the pending action, or a larger budget.

    Shows what waits first. The workflow continues without the action; a round without a larger budget ends.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 denied, 1 not denied, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    _decide(workflow, _Decided("deny", reason, NOTHING), as_json=as_json)


class Granted(NamedTuple):
    """What a person grants beyond a budget."""

    tokens: int = 0
    cost_nano_usd: int = 0


NOTHING: Final = Granted()


class _Decided(NamedTuple):
    """What a person decides."""

    decision: Decision
    reason: str
    granted: Granted
    changes: tuple[str, ...] = ()


def _decide(workflow: str, decided: _Decided, *, as_json: bool) -> None:
    """Show the pending approval, send the answer and print the outcome; ends with an exit code."""
    with sentences():
        check_id(workflow)
        check_reason(decided.reason)
        if decided.decision == "deny" and not decided.reason.strip():
            stop("The reason is empty. Say why the action must not run.", USAGE)
        sent: list[str] = []
        outcome = run_work(
            _answer(load_settings(), workflow, decided, sent),
            lambda: _interruption(workflow, sent=bool(sent)),
        )
        if as_json:
            print_json(outcome.as_object())
        else:
            stdout.print(_sentence(outcome))
    raise typer.Exit(FAILED if outcome.status == "refused" else 0)


async def _answer(settings: Settings, workflow: str, decided: _Decided, sent: list[str]) -> ApprovalOutcome:
    async with open_connections(settings, tell) as connections:
        request = await _request(connections, workflow, decided)
        callbacks = Callbacks(requested=sent.append, untaken=tell_untaken)
        return await answer(connections, request, identity=local_identity(), callbacks=callbacks)


async def _request(connections: Connections, workflow: str, decided: _Decided) -> RequestApproval | RequestBudget:
    """Show what waits, and return the answer to it."""
    decision, reason, granted, changes = decided
    approver = connections.settings.acting_through("cli")
    question = await open_budget_question(connections, workflow)
    if question is not None:
        stderr.print(shown_question(question, _width(stderr)))
        if decision == "approve" and not any(granted):
            stop("Say how much more it may use: `--tokens N`, `--cost USD` or both.", USAGE)
        if changes:
            stop("It asks for a larger budget, not for an action. Leave out --set.", USAGE)
        return answer_to_budget(question, decision, reason=reason, approver=approver, **granted._asdict())
    waiting = await waiting_approval(connections, workflow)
    stderr.print(shown(waiting, await workflow_excerpts.documents(connections.pool, workflow), _width(stderr)))
    if any(granted):
        stop("It does not ask for a larger budget, but for this action. Leave out --tokens and --cost.", USAGE)
    try:
        changed = changed_parameters(waiting.parameters, changes) if changes else None
    except Refused as error:
        stop(f"{error} Write for example --set to=sales@example.com.", USAGE)
    return answer_to(waiting, decision, reason=reason, approver=approver, changed_parameters=changed)


def _sentence(outcome: ApprovalOutcome) -> str:
    id_ = outcome.workflow_id
    if outcome.status == "refused":
        return f"Nothing was decided in workflow {id_}. {printable(outcome.detail)}"
    if outcome.status == "counted":
        return f"Your approval counts; {outcome.missing} more must approve. Workflow {id_} waits for that."
    if outcome.status == "proposed":
        others = "another person" if outcome.missing == 1 else f"{outcome.missing} others"
        return f"The parameters are changed; now {others} must approve them. Workflow {id_} waits for that."
    return f"The {outcome.about} is {outcome.status}. Workflow {id_} continues; `poweron watch {id_}` shows how."


def _interruption(workflow: str, *, sent: bool) -> str:
    if not sent:
        return "Stopped before anything was decided."
    return f"Stopped waiting; the answer remains in the log. `poweron watch {workflow}` shows the outcome."
