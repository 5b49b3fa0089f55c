"""The wiring: what is opened, in which order, and what each part receives."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast, get_args

import structlog

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import LogLost, PowerOnError, Refused
from poweron_events.event import Role
from poweron_events.fold.stage_specs import PromptStage
from poweron_events.log import EventLog
from poweron_events.retry import Backoff, Failure, retry
from poweron_events.topics import FOLDING, group_of
from poweron_projections import projector
from poweron_projections.fold_cache import fold_cache
from poweron_projections.log_guard import GuardedLog
from poweron_services import telemetry
from poweron_services.action_resources import OpenedActions, opened_actions
from poweron_services.actions.registry import OpenActions, actions
from poweron_services.client.connect import Connections
from poweron_services.client.ledger_process import keep_ledger
from poweron_services.fork.forks import Forks
from poweron_services.instance_record import recorded, started_event
from poweron_services.intake.request_intake import Intake
from poweron_services.models.call import Caller, FallbackModel, StagedModel
from poweron_services.models.chat_model import ChatModel
from poweron_services.models.embedding.embedder import Embedder, Remembering
from poweron_services.models.embedding.local_embedder import packaged_embedder
from poweron_services.postgres_ports import PostgresPorts
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.address_check import ConfiguredPlaces
from poweron_services.roles.executor import Executor
from poweron_services.roles.observer import Observer
from poweron_services.roles.parameterizer import Parameterizer
from poweron_services.roles.planner import Planner
from poweron_services.roles.progress_sender import ProgressSender
from poweron_services.roles.refiner import Refiner
from poweron_services.roles.reviewer import Reviewer
from poweron_services.roles.selector import Selector
from poweron_services.runtime.daily_use import DailyUse
from poweron_services.runtime.stages import StageFunction
from poweron_services.runtime.worker import Worker
from poweron_services.settings.config import Provider, ProviderSettings, Settings

log = structlog.get_logger()

__all__ = [
    "FOLDING",
    "ROLES",
    "build_model",
    "group_of",
    "keep_serving",
    "now_ms",
    "open_model",
    "process_name",
    "serve",
    "stage_functions",
]

ROLES: Final[tuple[str, ...]] = (*get_args(Role), "projector", "ledger")
"""The roles that a process can play."""
ROLES_OF_A_REQUEST: Final = tuple(role for role in ROLES if role != "ledger")
"""The roles that a single request needs; the ledger enters its records later."""

CHECK_PERIOD = 5.0  # seconds between checks that the log still has the events that the rows were made from


@asynccontextmanager
async def open_model(settings: Settings) -> AsyncGenerator[ChatModel, None]:
    """Open the configured model, or one per stage, and close its connections at the end."""
    async with AsyncExitStack() as stack:
        yield build_model(settings, stack)


def build_model(settings: Settings, stack: AsyncExitStack) -> ChatModel:
    """Build the configured model, or one per stage; anything that must be closed is pushed onto the stack.

    Raises:
        Refused: a setting that the model needs is missing; the message names it.
    """
    built = {name: _build(name, settings, stack) for name in settings.named_models}
    fallbacks = {names: _first_of({name: built[name] for name in names}) for names in settings.models.values()}
    if len(fallbacks) == 1:
        return next(iter(fallbacks.values()))
    return StagedModel({stage: fallbacks[settings.models[stage]] for stage in get_args(PromptStage)})


@dataclass(frozen=True, slots=True)
class NameableModels:
    """The models that a request may name: those of the settings, `builtin`, and those of providers whose key is set.

    A script is none of them: it is a file of this machine, and each opening would begin it again.
    """

    settings: Settings

    async def check(self, name: str) -> None:
        """Raise Refused if a request may not name the model."""
        async with self.opened(name):
            pass

    def alone(self, name: str) -> Settings:
        """Return the settings with this model for every stage; raise Refused if a request may not name it."""
        try:
            alone = self.settings.with_model(name)
            (only,) = alone.named_models
        except ValueError as error:  # it is no model, or several
            raise Refused(_not_configured(name), code="model_misconfigured") from error
        if only.startswith("scripted:"):
            raise Refused(_not_configured(name), code="model_misconfigured")
        return alone

    def unpriced(self, name: str) -> tuple[str, ...]:
        """Return the model if it has no price, unless a money budget is allowed without it; raises as `check`."""
        return unpriced_models(self.alone(name))

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncGenerator[ChatModel, None]:
        """Open the model, and close its connections at the end; raise Refused if a request may not name it."""
        async with AsyncExitStack() as stack:
            yield await asyncio.to_thread(self._build, name, stack)  # a provider's client takes a second to import

    def _build(self, name: str, stack: AsyncExitStack) -> ChatModel:
        alone = self.alone(name)
        try:
            return build_model(alone, stack)
        except Refused as error:
            raise Refused(f"{_not_configured(name)} {error}", code="model_misconfigured") from error


def _not_configured(name: str) -> str:
    return f"The model {name[:300]!r} is not configured."


def _first_of(models: Mapping[str, ChatModel]) -> ChatModel:
    return FallbackModel(models) if len(models) > 1 else next(iter(models.values()))


def _build(name: str, settings: Settings, stack: AsyncExitStack) -> ChatModel:
    kind, _, rest = name.partition(":")
    if kind == "builtin":
        from poweron_services.models.builtin import BuiltinModel  # noqa: PLC0415 - its ranking takes time to import

        return BuiltinModel(_embedder(settings))
    if kind == "scripted":
        from poweron_services.models.scripted import ScriptedModel  # noqa: PLC0415 - only where it is asked for

        return ScriptedModel.from_file(rest)
    from poweron_services.models.providers import ProviderModel  # noqa: PLC0415 - takes more than a second to import

    model = ProviderModel(cast("Provider", kind), rest, settings, ProviderSettings())
    stack.push_async_callback(model.aclose)
    return model


def _embedder(settings: Settings) -> Embedder | None:
    """Return the embedder of the built-in model; None if the settings or this machine let it compare only words."""
    kind, _, rest = settings.embeddings.partition(":")
    if kind == "none":
        return None
    if kind == "packaged":
        return packaged_embedder()
    from poweron_services.models.providers.embedding_endpoint import EmbeddingEndpoint  # noqa: PLC0415 - as above

    return Remembering(EmbeddingEndpoint(cast("Provider", kind), rest))


def unpriced_models(settings: Settings) -> tuple[str, ...]:
    """Return the models in use that have no price, unless a money budget is allowed without it."""
    if not settings.provided_models:
        return ()
    from poweron_services.models import prices  # noqa: PLC0415 - the list of prices takes time to import

    return prices.unpriced_models(settings, ProviderSettings())


def process_name() -> str:
    """Return the prefix of this process's instance names, which appear in everything that they write."""
    return f"{socket.gethostname()}-{os.getpid()}"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def serve(
    connections: Connections,
    roles: Collection[str],
    model: ChatModel,
    open_actions: OpenActions = actions,
    *,
    started: Callable[[], None] = lambda: None,
    meter: telemetry.Meter | None = None,
    opens: bool = True,
) -> None:
    """Play the roles until cancelled, with these actions, which are closed at the end; servers may be unavailable.

    `started` is called once the actions are open, which may take as long as a tool server's first start; `meter`
    counts and measures the work. Unless it `opens` rounds, intake answers only requests that need not wait for one.

    Raises:
        LogLost: events that the rows were made from are missing; everything held in memory is discarded.
        Refused: the settings or the actions must be fixed first; the message says what.
    """
    instance = f"{process_name()}-{secrets.token_hex(4)}"
    resource = {"service.instance.id": instance, "poweron.roles": ",".join(sorted(roles))}
    async with (
        telemetry.exporting(connections.settings.otel_endpoint, resource=resource) as spans,
        opened_actions(open_actions, connections, roles) as work,
    ):
        started()
        process = _Process(connections, instance, spans, meter)
        async with recorded(connections.log, started_event(instance, roles, connections.settings, work), now_ms):
            await _until_lost(connections.log, _services(process, frozenset(roles), model, work, opens=opens))


async def keep_serving(
    connections: Connections,
    roles: Collection[str],
    model: ChatModel,
    *,
    started: Callable[[], None] = lambda: None,
    meter: telemetry.Meter | None = None,
) -> None:
    """Play the roles until cancelled; if events are missing, stop and start again once the log is complete.

    Raises:
        Refused: the settings or the actions must be fixed first; the message says what.
    """
    while True:
        approve = connections.settings.approve_patterns
        log.info("service_started", roles=",".join(sorted(roles)), approve=",".join(sorted(approve)))
        with suppress(LogLost):
            await serve(connections, roles, model, started=started, meter=meter)
        pauses = Backoff(CHECK_PERIOD, CHECK_PERIOD)
        await retry(partial(_begin_again, connections.log), failed=_still_lost, on=PowerOnError, backoff=pauses)


async def _begin_again(guarded: GuardedLog) -> None:
    guarded.begin_again()
    await guarded.check()


def _still_lost(failure: Failure) -> None:
    """Log the failure at the 1st try, the 2nd, the 4th and so on."""
    if failure.tries.bit_count() == 1 and isinstance(failure.error, LogLost):
        log.error("log_lost", error=str(failure.error))
    elif failure.tries.bit_count() == 1:
        log.warning("server_unavailable", error=str(failure.error), tries=failure.tries)


async def _until_lost(guarded: GuardedLog, services: Iterable[Coroutine[Any, Any, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for running in services:
                group.create_task(running)
            raise await _loss(guarded)
    except BaseExceptionGroup as errors:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # overrides any error raised while stopping
            raise asyncio.CancelledError from errors
        if errors.split(LogLost)[1] is not None:
            raise
        raise _first(errors) from errors


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group, at any depth of nested groups."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _loss(guarded: GuardedLog) -> LogLost:
    """Check repeatedly that the log has the events that the rows were made from; return the error once it does not."""
    while True:
        try:
            await guarded.check()
        except LogLost as error:
            return error
        except PowerOnError:
            pass  # the roles report a server that does not answer
        await asyncio.sleep(CHECK_PERIOD)


@dataclass(frozen=True, slots=True)
class _Process:
    """The parts that all roles of a process share."""

    connections: Connections
    instance: str
    spans: telemetry.Sink | None
    meter: telemetry.Meter | None = None

    @property
    def log(self) -> EventLog:
        """The log; with metrics, it notes its polls."""
        log = self.connections.log
        return log if self.meter is None else telemetry.WatchedLog(log, self.meter)


def _services(
    process: _Process, roles: frozenset[str], model: ChatModel, work: OpenedActions, *, opens: bool
) -> list[Coroutine[Any, Any, None]]:
    services: list[Coroutine[Any, Any, None]] = []
    connections = process.connections
    if "projector" in roles:
        projected = None if process.meter is None else process.meter.events_projected
        services.append(projector.run(process.log, connections.pool, projected))
    if {"projector", "ledger"} <= roles:
        fold_cache.share()
    if "ledger" in roles:
        services.append(keep_ledger(connections, process.log))
    if "intake" in roles:
        services.append(_intake(process, work).run(opens=opens))
    if roles & FOLDING:
        sender = ProgressSender(connections.progress)
        services += [_worker(process, roles & FOLDING, model, work, sender).run(), sender.run()]
    return services


def _intake(process: _Process, work: OpenedActions) -> Intake:
    connections = process.connections
    return Intake(
        event_log=process.log,
        queries=PostgresPorts(connections.pool),
        content=connections.content,
        instance=process.instance,
        now_ms=now_ms,
        actions=work.names,
        default_language=connections.settings.language,
        max_open=connections.settings.max_open,
        approve=connections.settings.approve_patterns,
        unpriced=unpriced_models(connections.settings),
        named_models=NameableModels(connections.settings),
        lists=work.lists,
        connections=work.connections.labels(),
        specs={**CATALOG, **work.specs},
        spans=process.spans,
    )


def stage_functions(
    caller: Caller,
    content: ContentStore,
    specs: Mapping[str, ActionSpec],
    configured_places: ConfiguredPlaces | None = None,
) -> dict[Role, StageFunction]:
    """Return the function of each role except the executor, called when it is the role's turn."""
    return {
        "planner": Planner(caller, content, specs),
        "selector": Selector(caller, content, specs),
        "parameterizer": Parameterizer(caller, specs, content, configured_places or {}),
        "observer": Observer(content, specs),
        "refiner": Refiner(caller),
        "reviewer": Reviewer(caller, content),
    }


def _worker(
    process: _Process, roles: frozenset[str], model: ChatModel, work: OpenedActions, progress: ProgressSender
) -> Worker:
    connections = process.connections
    ports = PostgresPorts(connections.pool)
    daily_use = DailyUse(ports, now_ms)
    settings = connections.settings
    caller = Caller(model, connections.content, unpriced_models(settings), daily_use, NameableModels(settings))
    forks = Forks(ports, connections.content, work.specs)
    execution = Execution(
        actions=work.actions,
        caller=caller,
        content=connections.content,
        observes="observer" in roles,
        now_ms=now_ms,
        approval=work.approval,
        web=work.web,
        lists=work.lists,
        configured_places=work.configured_places,
        progress=progress.step,
        secrets=work.secrets,
    )
    concurrency = settings.concurrency
    executor = Executor(execution, worker=process.instance, concurrency=concurrency, forks=forks)
    functions = forks.first(stage_functions(caller, connections.content, work.specs, work.configured_places))
    return Worker(
        event_log=process.log,
        snapshots=ports,
        stage_functions={role: function for role, function in functions.items() if role in roles},
        executor=executor if "executor" in roles else None,
        group=group_of(roles),
        instance=process.instance,
        concurrency=concurrency,
        now_ms=now_ms,
        spans=process.spans,
        meter=process.meter,
    )
