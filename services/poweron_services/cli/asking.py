"""`poweron ask`: the whole way from a sentence to an answer."""

import asyncio
import re
from pathlib import Path
from typing import Any

import typer
from rich.rule import Rule
from rich.text import Text

from poweron_events.request import MAX_PROMPT, Requester, RequestWorkflow
from poweron_services.asking import File, Outcome, Told, ask, opened
from poweron_services.cli import files
from poweron_services.cli.ending import CANCELLED, FAILED, USAGE, sentences, settled, stop
from poweron_services.cli.narrating import STYLES, Narrator, size
from poweron_services.cli.printing import print_json, printable, stderr, stdout, tell
from poweron_services.config import Settings

EXIT_CODES = {"completed": 0, "failed": FAILED, "cancelled": CANCELLED}
OUTPUT = Path("poweron-output")
LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
Shown = list[dict[str, Any]]


class _Asked:
    """The workflow that was asked for, once it stands."""

    def __init__(self) -> None:
        self.workflow_id: str | None = None

    def __call__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        tell(f"Workflow {workflow_id}", style="bold")

    def interrupted(self, *, serving: bool) -> str:
        if self.workflow_id is None:
            return "Stopped before anything was asked for."
        goes_on = "`poweron serve` goes on with it" if serving else "Whoever serves goes on with it"
        return (
            f"Stopped, but workflow {self.workflow_id} stands. {goes_on}, `poweron watch {self.workflow_id}` shows it."
        )


def run(
    prompt: str,
    paths: list[Path],
    *,
    max_steps: int,
    language: str | None,
    output: Path | None,
    serving: bool,
    as_json: bool,
) -> None:
    """Ask, follow, print; ends with the exit code of the outcome."""
    asked = _Asked()
    with sentences():
        _check(prompt, language, output)
        settings = settled()
        request = RequestWorkflow(
            prompt=prompt,
            max_steps=max_steps,
            user_language=language,
            requester=Requester(language=settings.language),
        )
        handed_over = files.read(paths)
        try:
            outcome, documents = asyncio.run(_ask(settings, request, handed_over, output, serving=serving, asked=asked))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(asked.interrupted(serving=serving)) from None
        if as_json:
            print_json(_json(outcome, documents))
        else:
            _print(outcome, documents)
    raise typer.Exit(EXIT_CODES[outcome.status])


def _check(prompt: str, language: str | None, output: Path | None) -> None:
    """End the command with a sentence where what was typed cannot be right."""
    if not prompt.strip():
        stop("The prompt is empty. Say in a sentence what you ask for.", USAGE)
    if len(prompt) > MAX_PROMPT:
        stop(
            f"The prompt has {len(prompt):,} characters, {MAX_PROMPT:,} are possible. "
            "Hand a longer text over as a file, with --document.",
            USAGE,
        )
    if language is not None and not LANGUAGE.fullmatch(language):
        stop(f"{language!r} is not the tag of a language. Examples are en, de and pt-BR.", USAGE)
    if output is not None:
        files.check_writable(output)


async def _ask(
    settings: Settings,
    request: RequestWorkflow,
    handed_over: list[File],
    output: Path | None,
    *,
    serving: bool,
    asked: _Asked,
) -> tuple[Outcome, Shown]:
    async with opened(settings, tell) as connections:
        outcome = await ask(connections, request, handed_over, serving=serving, told=Told(Narrator(), asked, tell))
        folder = output or OUTPUT / outcome.workflow_id
        return outcome, await files.write(connections, outcome.workflow_id, outcome.documents, folder)


def _json(outcome: Outcome, documents: Shown) -> dict[str, Any]:
    return {
        "workflowId": outcome.workflow_id,
        "status": outcome.status,
        "message": outcome.message,
        "documents": documents,
        "steps": outcome.totals.steps,
        "tokens": outcome.totals.input_tokens + outcome.totals.output_tokens,
        "durationMs": outcome.duration_ms,
    }


def _print(outcome: Outcome, documents: Shown) -> None:
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
    steps = f"{outcome.totals.steps} step{'' if outcome.totals.steps == 1 else 's'}"
    stdout.print(
        f"Workflow {outcome.workflow_id} {outcome.status} after {steps} in {outcome.duration_ms / 1000:.1f} s."
    )
