"""`poweron ask`: send a request, follow it and print the answer."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.rule import Rule
from rich.text import Text

from poweron_events.client import Heard
from poweron_events.codes import CODES, BudgetCode
from poweron_events.event import NANO
from poweron_events.fold.costs import model_calls
from poweron_events.request import MAX_PROMPT, Budgets, Requester, RequestWorkflow
from poweron_services import telemetry
from poweron_services.cli import files
from poweron_services.cli.advice import advice_for, advice_for_search
from poweron_services.cli.arguments import AsJson, NoServe, Output
from poweron_services.cli.context import CANCELLED, FAILED, NOTHING_YET, USAGE
from poweron_services.cli.error_messages import check_id, load_settings, run_work, sentences, stop
from poweron_services.cli.event_lines import STYLES, Narrator, tell_quota_reached, tell_untaken
from poweron_services.cli.output import and_joined, counted, one_line, print_json, printable, stderr, stdout, tell
from poweron_services.cli.progress_bar import ProgressWatch, watching_progress
from poweron_services.client.ask import File, follow_up
from poweron_services.client.event_words import size
from poweron_services.client.follow import Callbacks, Outcome
from poweron_services.settings.config import Settings, wrong_language
from poweron_services.standalone import (
    check_content,
    check_files,
    local_identity,
    open_connections,
    run_request,
)

EXIT_CODES = {"completed": 0, "failed": FAILED, "cancelled": CANCELLED}
MAX_CONNECTIONS, MAX_LABEL = 100, 100  # connections of a request; characters of a label
OUTPUT = Path("poweron-output")
SEARCH_TROUBLE = frozenset(code for code in CODES if code.startswith("search_"))
Shown = list[dict[str, Any]]


Documents = Annotated[
    list[Path] | None,
    typer.Option("--document", metavar="PATH", help="A document to attach; repeatable, up to 100."),
]
FollowedUp = Annotated[
    str | None,
    typer.Option(
        "--workflow", metavar="ID", help="Follow up on this workflow: its history and documents are available."
    ),
]
ConnectionLabels = Annotated[
    list[str] | None,
    typer.Option("--connection", metavar="LABEL", help="A connection that actions may use; repeatable."),
]


class Mode(StrEnum):
    """How a task's actions are chosen: one at a time, or all at once (deprecated)."""

    React = "React"
    Actionplan = "Actionplan"


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


class OnBudget(StrEnum):
    """What happens if a budget has no room for the next call."""

    ask = "ask"
    stop = "stop"


def _tokens(meaning: str) -> Any:
    """Create an option for a number of tokens."""
    return typer.Option(min=1, max=2**31 - 1, metavar="N", help=meaning)


def _dollars(meaning: str) -> Any:
    """Create an option for an amount of money, in US dollars."""
    return typer.Option(min=0, max=10_000, metavar="USD", help=meaning)


class AskProgress:
    """The requested workflow once it is in the log, the models that worked on it, and how its round ended."""

    def __init__(self) -> None:
        self.workflow_id: str | None = None
        self.models: list[str] = []
        """As `PROVIDER/MODEL`, without duplicates; the serving process may use other models than are set here."""
        self.watch: ProgressWatch | None = None
        """Shows the progress of its steps, if a user is watching."""
        self._search_trouble: str | None = None
        self._ending: str | None = None
        self._narrator = Narrator()

    def requested(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        tell(f"Workflow {workflow_id}", style="bold")
        if self.watch is not None:
            self.watch.begin(workflow_id)

    def heard(self, record: Heard) -> None:
        if self.watch is not None:
            self.watch.bar.heard(record)
        self._narrator(record)
        if record.event is not None and record.verdict == "accepted":
            names = (f"{call.provider}/{call.model}" for call in model_calls(record.event))
            self.models = list(dict.fromkeys([*self.models, *names]))
            code = getattr(record.event, "code", None)
            self._search_trouble = code if code in SEARCH_TROUBLE else self._search_trouble
        round_ = record.workflow.round
        self._ending = round_.ending if round_ is not None and not record.workflow.is_open else None

    def waits(self, workflow_id: str, stage: str, trouble: str, seconds: float | None) -> None:
        """Report that a stage is waiting in this process; stages of other workflows are ignored."""
        if workflow_id == self.workflow_id:
            again = "It tries again" + ("." if seconds is None else f" in {seconds:g} s.")
            tell(f"The stage {stage!r} waits: {trouble.removesuffix('.')}. {again}", style="yellow")

    def search_advice(self, settings: Settings, *, alone: bool) -> str | None:
        """Return advice if the web could not be searched, or if only the web could have held an answer.

        Args:
            settings: the settings of this process.
            alone: whether the built-in model of this process had no source other than the web.
        """
        if self._search_trouble is not None:
            return advice_for_search(self._search_trouble, (settings.search or "").partition(":")[0])
        is_builtin = settings.named_models == ["builtin"]
        return advice_for("search_unavailable") if alone and is_builtin and settings.search is None else None

    def interrupted(self, *, serving: bool) -> str:
        if self.workflow_id is None:
            return NOTHING_YET
        if self._ending is not None:
            return (
                f"Stopped; workflow {self.workflow_id} is {self._ending} already. "
                f"`poweron history {self.workflow_id}` shows the outcome."
            )
        goes_on = "`poweron serve` continues it" if serving else "The serving process continues it"
        cancels = "cancels it while that runs" if serving else "cancels it"
        return (
            f"Stopped, but workflow {self.workflow_id} remains in the log. {goes_on}, "
            f"`poweron watch {self.workflow_id}` shows it. "
            f"`poweron cancel {self.workflow_id}` {cancels}."
        )


def ask(
    *,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What you ask for, in a sentence.")],
    document: Documents = None,
    workflow: FollowedUp = None,
    connection: ConnectionLabels = None,
    max_steps: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="At most N steps per task.")] = 5,
    language: Annotated[
        str | None, typer.Option(metavar="xx", help="The language of the answer: en, de, pt-BR, …")
    ] = None,
    mode: InMode = Mode.React,
    max_tokens: Annotated[int | None, _tokens("At most N tokens of models for this request.")] = None,
    max_cost: Annotated[float | None, _dollars("At most this much money for models for this request.")] = None,
    max_workflow_tokens: Annotated[
        int | None, _tokens("At most N tokens for the workflow, including follow-ups.")
    ] = None,
    max_workflow_cost: Annotated[
        float | None, _dollars("At most this much money for the workflow, including follow-ups.")
    ] = None,
    on_budget: Annotated[
        OnBudget,
        typer.Option(metavar="ask|stop", help="If a budget has no room for the next call: ask a person, or end."),
    ] = OnBudget.stop,
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
    progress = AskProgress()
    with sentences():
        _check(prompt, language, workflow, output)
        _check_connections(connection or [])
        settings = load_settings(telemetry.StageWaitReporter(progress.waits))
        request = RequestWorkflow(
            prompt=prompt,
            max_steps=max_steps,
            workflow_mode=mode.value,
            connections=tuple(dict.fromkeys(connection or [])),
            budgets=_budgets(max_tokens, max_cost, max_workflow_tokens, max_workflow_cost),
            on_budget=on_budget.value,
            user_language=language,
            requester=Requester(name=settings.actor, language=settings.language),
            actor=settings.acting_through("cli"),
        )
        attachments = files.read(document or [])
        code = _run(
            settings, request, workflow, attachments, output, serving=not no_serve, progress=progress, as_json=as_json
        )
    raise typer.Exit(code)


def _run(
    settings: Settings,
    request: RequestWorkflow,
    workflow: str | None,
    attachments: list[File],
    output: Path | None,
    *,
    serving: bool,
    progress: AskProgress,
    as_json: bool,
) -> int:
    """Send the request, print the outcome, and return the exit code."""
    if request.workflow_mode == "Actionplan":
        tell("Mode Actionplan is deprecated; mode React, the default, learns from each action for the next.")
    outcome, documents = run_work(
        _ask(settings, request, workflow, attachments, output, serving=serving, progress=progress),
        partial(progress.interrupted, serving=serving),
    )
    if as_json:
        print_json(outcome_json(outcome, documents, progress.models))
    else:
        alone = serving and not attachments and workflow is None and settings.mcp is None
        print_outcome(outcome, documents, progress.models, progress.search_advice(settings, alone=alone))
    return exit_code(outcome, documents)


def exit_code(outcome: Outcome, documents: Shown) -> int:
    """Return the exit code of the round, or `FAILED` if a document of a completed round could not be written."""
    all_written = all(document["path"] is not None for document in documents)
    return EXIT_CODES[outcome.status] if all_written or outcome.status != "completed" else FAILED


def _budgets(
    max_tokens: int | None, max_cost: float | None, max_workflow_tokens: int | None, max_workflow_cost: float | None
) -> Budgets:
    """Build the budgets of the request and of the workflow with all its requests; costs are in US dollars."""
    return Budgets(
        round_tokens=max_tokens,
        round_cost_nano_usd=_nano_usd(max_cost),
        workflow_tokens=max_workflow_tokens,
        workflow_cost_nano_usd=_nano_usd(max_workflow_cost),
    )


def _nano_usd(dollars: float | None) -> int | None:
    return None if dollars is None else round(dollars * NANO)


def _check(prompt: str, language: str | None, workflow: str | None, output: Path | None) -> None:
    """End the command with a sentence if an argument is invalid."""
    if not prompt.strip():
        stop("The prompt is empty. Say in a sentence what you ask for.", USAGE)
    if len(prompt) > MAX_PROMPT:
        stop(
            f"The prompt has {len(prompt):,} characters; at most {MAX_PROMPT:,} are allowed. "
            "Attach a longer text as a file, with --document.",
            USAGE,
        )
    if language is not None and (wrong := wrong_language(language)) is not None:
        stop(f"{wrong}.", USAGE)
    if workflow is not None:
        check_id(workflow)
    if output is not None:
        files.check_writable(output)


def _check_connections(labels: list[str]) -> None:
    """Check number and length of the labels; the serving process checks that they are configured."""
    if len(labels) > MAX_CONNECTIONS or any(len(label) > MAX_LABEL for label in labels):
        stop(
            f"A request may name at most {MAX_CONNECTIONS} connections, by labels of up to {MAX_LABEL} characters.",
            USAGE,
        )


async def _ask(
    settings: Settings,
    request: RequestWorkflow,
    workflow: str | None,
    attachments: list[File],
    output: Path | None,
    *,
    serving: bool,
    progress: AskProgress,
) -> tuple[Outcome, Shown]:
    await check_content(settings)
    if serving:
        check_files(settings)
    async with open_connections(settings, tell) as connections:
        asking = request if workflow is None else await follow_up(connections, request, workflow)
        async with watching_progress(connections.progress) as progress.watch:
            outcome = await run_request(
                connections,
                asking,
                attachments,
                identity=local_identity(),
                serving=serving,
                callbacks=Callbacks(progress.heard, progress.requested, tell_untaken, quota_reached=tell_quota_reached),
                progress=tell,
            )
        folder = output or OUTPUT / outcome.workflow_id
        return outcome, await files.write(connections, outcome.workflow_id, outcome.documents, folder)


def outcome_json(outcome: Outcome, documents: Shown, models: Sequence[str]) -> dict[str, Any]:
    """Return the outcome of a request as `--json` prints it."""
    return {**outcome.as_object(), "documents": documents, "models": list(models)}


def print_outcome(outcome: Outcome, documents: Shown, models: Sequence[str], search_advice: str | None) -> None:
    """Print the outcome of a request for a user."""
    message = printable(outcome.message)
    stderr.print()
    if stdout.is_terminal:
        from rich.markdown import Markdown  # noqa: PLC0415 - slow to import, and not needed before the end

        style = STYLES[outcome.status]
        stdout.print(Rule(Text(f" {outcome.status} ", style=style), style=style, align="left"))
        stdout.print(Markdown(message, hyperlinks=False))
        stdout.print(Rule(style=style))
    else:
        stdout.print(message)
    for document in documents:
        if document["path"] is not None:
            stdout.print(f"Written: {printable(document['path'])} ({size(document['size'])})")
    if outcome.refusal is not None:
        stdout.print(advice_for(outcome.code))
    elif outcome.status == "failed":
        is_budget = outcome.code in get_args(BudgetCode)  # a search engine would not help
        text = advice_for(outcome.code) if is_budget else search_advice or advice_for(outcome.code)
        stdout.print(f"`poweron history {outcome.workflow_id}` shows every step. {text}")
    elif search_advice is not None:
        stdout.print(search_advice)
    stdout.print(summary(outcome, models))


def summary(outcome: Outcome, models: Sequence[str]) -> str:
    """Summarise the outcome: the status, the steps, the time, and the models involved."""
    if outcome.refusal is not None:
        return f"Nothing was started for workflow {outcome.workflow_id}."
    steps = counted(outcome.totals.steps, "step")
    names = [one_line(model.partition("/")[2]) for model in models]
    with_ = f", with {and_joined(names)}" if names else ""
    seconds = outcome.duration_ms / 1000
    return f"Workflow {outcome.workflow_id} {outcome.status} after {steps} in {seconds:.1f} s{with_}."
