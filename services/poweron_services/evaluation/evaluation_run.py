"""Run a table of requests: one model after the other, each with its requests in parallel, on one set of servers.

Any process that serves on the same servers takes any workflow, so two models at once would answer for one another.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from poweron_events.client import Heard
from poweron_events.errors import PowerOnError
from poweron_events.request import Requester, RequestWorkflow
from poweron_services.client.ask import File, ask
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.evaluation.run_file import RunAnswer, TableRequest
from poweron_services.settings.config import Settings
from poweron_services.standalone import local_identity, while_serving


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """A candidate of an evaluation: settings under a name."""

    name: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class RunCallbacks:
    """The functions to call during a run."""

    progress: Callable[[str], None]
    heard: Callable[[Heard], None]
    answered: Callable[[RunAnswer], None]


def candidates(settings: Settings, models: Sequence[str]) -> list[EvaluatedModel]:
    """Return one candidate per model, overriding the settings' models; without models, the settings as they are.

    Raises:
        ValidationError: a name is not a valid model name, as for POWERON_MODEL.
    """
    if not models:
        return [EvaluatedModel(" + ".join(settings.named_models), settings)]
    return [EvaluatedModel(name, settings.with_model(name)) for name in dict.fromkeys(models)]


async def ask_all(
    connections: Connections,
    candidate: EvaluatedModel,
    requests: Sequence[tuple[TableRequest, Sequence[File]]],
    *,
    repeat: int,
    at_once: int,
    callbacks: RunCallbacks,
) -> None:
    """Let a model answer every request `repeat` times; each answer is reported as soon as it is in the rows.

    Raises:
        Unavailable: a server cannot be reached.
        Refused: the settings or the actions must be fixed first.
    """
    own_connections = replace(connections, settings=candidate.settings)
    places = asyncio.Semaphore(at_once)

    async def one(request: TableRequest, documents: Sequence[File], repetition: int) -> None:
        answer = RunAnswer(
            line=request.line, fingerprint=request.fingerprint, model=candidate.name, repetition=repetition
        )
        async with places:
            callbacks.answered(await _ask(own_connections, request, documents, answer, callbacks.heard))

    async def every() -> None:
        async with asyncio.TaskGroup() as group:
            for repetition in range(1, repeat + 1):
                for request, documents in requests:
                    group.create_task(one(request, documents, repetition))

    await while_serving(own_connections, every, callbacks.progress)


async def _ask(
    connections: Connections,
    request: TableRequest,
    documents: Sequence[File],
    answer: RunAnswer,
    on_record: Callable[[Heard], None],
) -> RunAnswer:
    """Send one request as `poweron ask` does and return its answer; an error does not affect other requests."""
    workflow_ids = list[str]()
    settings = connections.settings
    requester = Requester(name=settings.actor, language=settings.language)
    opening = RequestWorkflow(prompt=request.prompt, requester=requester, actor=settings.acting_through("cli"))
    callbacks = Callbacks(on_record, workflow_ids.append)
    try:
        await ask(connections, opening, documents, identity=local_identity(), callbacks=callbacks)
    except PowerOnError as error:
        answer = answer.model_copy(update={"trouble": str(error), "code": error.code})
    return answer.model_copy(update={"workflow_id": workflow_ids[0] if workflow_ids else None})
