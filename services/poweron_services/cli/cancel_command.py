"""`poweron cancel`: cancel the open round of one workflow, and print the outcome, or those of many."""

import typer

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, NOTHING_YET
from poweron_services.cli.error_messages import check_id, check_reason, load_settings, run_work, sentences
from poweron_services.cli.event_lines import Narrator, tell_untaken
from poweron_services.cli.output import print_json, printable, stderr, stdout, tell
from poweron_services.cli.verb_commands import STDIN, Reason, Where, Workflows, Yes, act
from poweron_services.client.cancel import cancel as cancel_round
from poweron_services.client.client_errors import PendingRequest
from poweron_services.client.follow import Callbacks, Outcome
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, open_connections


def cancel(
    workflows: Workflows = None, where: Where = None, reason: Reason = "", yes: Yes = False, as_json: AsJson = False
) -> None:
    """Cancel the open rounds of workflows.

    Stops running work; finished work stays, and a follow-up is possible. A single workflow is followed to its end.
    Requires a process that serves: `poweron serve`, or the `poweron ask` that opened the workflow.

    Exit 0 cancelled, 1 ended otherwise or not cancelled, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    if where or workflows is None or len(workflows) != 1 or workflows == [STDIN]:
        act("cancel", workflows, where, reason, yes=yes, as_json=as_json)
    (workflow,) = workflows
    with sentences():
        check_id(workflow)
        check_reason(reason)
        sent: list[str] = []
        outcome = run_work(
            _cancel(load_settings(), workflow, reason, sent), lambda: _interruption(workflow, is_sent=bool(sent))
        )
        if as_json:
            print_json(_json(outcome))
        else:
            stderr.print()
            stdout.print(_sentence(outcome))
    raise typer.Exit(0 if outcome.status == "cancelled" else FAILED)


async def _cancel(settings: Settings, workflow: str, reason: str, sent: list[str]) -> Outcome:
    async with open_connections(settings, tell) as connections:
        return await cancel_round(
            connections,
            workflow,
            reason=reason,
            actor=settings.acting_through("cli"),
            identity=local_identity(),
            callbacks=Callbacks(Narrator(), sent.append, tell_untaken, pending=_tell_pending),
        )


def _tell_pending(request: PendingRequest) -> None:
    tell(
        f"It was requested {request.seconds:.0f} s ago and is not open yet: {request.reason}. "
        "The cancellation is sent, and ends it as soon as it opens."
    )


def _interruption(workflow: str, *, is_sent: bool) -> str:
    if not is_sent:
        return NOTHING_YET
    return f"Stopped waiting; the cancellation remains in the log. `poweron watch {workflow}` shows the outcome."


def _json(outcome: Outcome) -> dict[str, object]:
    return {
        "workflowId": outcome.workflow_id,
        "round": outcome.round,
        "status": outcome.status if outcome.refusal is None else "refused",
        "code": outcome.code,
        "message": outcome.message,
    }


def _sentence(outcome: Outcome) -> str:
    name = f"workflow {outcome.workflow_id}"
    if outcome.refusal is not None:
        return f"Nothing was cancelled in {name}. {printable(outcome.message)}"
    if outcome.status != "cancelled":
        return f"Round {outcome.round} of {name} ended before it could be cancelled: it is {outcome.status}."
    seconds = outcome.duration_ms / 1000
    return f"Round {outcome.round} of {name} is cancelled. It took {seconds:.1f} s. Its finished work stays."
