"""The wiring: what is opened, in which order, and who gets what."""

import asyncio
import gc
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from poweron_events.catalog import CATALOG, ActionSpec, meaningless
from poweron_events.content import ContentStore
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import Role
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import ChatMessage, Opening
from poweron_events.request import Spent
from poweron_projections import projector, reader, snapshots
from poweron_projections.connection import Pool
from poweron_services import telemetry
from poweron_services.actions.action import Action, Resources
from poweron_services.actions.registry import OpenActions, actions
from poweron_services.client.connect import Connections, connect
from poweron_services.config import Provider, ProviderSettings, Settings
from poweron_services.connectors.document_reader import extract
from poweron_services.connectors.report_renderer import markdown_to_html
from poweron_services.decider.approval import Approval
from poweron_services.intake.intake import Intake
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import ChatModel
from poweron_services.models.prompts import Stage
from poweron_services.models.staged import StagedModel
from poweron_services.roles.executor import Executor
from poweron_services.roles.observer import Observer
from poweron_services.roles.parameterizer import Parameterizer
from poweron_services.roles.planner import Planner
from poweron_services.roles.refiner import Refiner
from poweron_services.roles.reviewer import Reviewer
from poweron_services.roles.selector import Selector
from poweron_services.runtime.worker import Think, Worker

__all__ = [
    "FOLDING",
    "ROLES",
    "Connections",
    "build_model",
    "connect",
    "group_of",
    "now_ms",
    "open_model",
    "serve",
    "settle",
    "thinkers",
]

ROLES: Final[tuple[str, ...]] = (*get_args(Role), "projector")
"""What a process can be told to do."""

FOLDING: Final = frozenset(get_args(Role)) - {"intake"}
QUESTION_TIMEOUT = 10.0  # seconds
LOAD_TIMEOUT = 60.0  # seconds: every open workflow of the partitions is folded
PAGE = 500  # messages read at a time
COLLECT_AFTER = 10_000  # objects more than there were


@dataclass(frozen=True, slots=True)
class Rows:
    """What the roles ask of Postgres.

    Nobody waits for ever for a connection that has fallen silent; and a Postgres that refuses, for example
    because rights are missing, is one that is away: it says nothing against the work for which it was asked.
    """

    pool: Pool

    async def load(self, partitions: Iterable[int]) -> Mapping[int, snapshots.Snapshot]:
        async with _within(LOAD_TIMEOUT):
            return await snapshots.load(self.pool, list(partitions))

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        async with _within(QUESTION_TIMEOUT):
            return await snapshots.look_up(self.pool, partition, workflow_ids)

    async def positions(self) -> Mapping[int, int]:
        async with _within(QUESTION_TIMEOUT):
            return await snapshots.positions(self.pool)

    async def count_open(self, most: int) -> int:
        async with _within(QUESTION_TIMEOUT):
            return await snapshots.count_open(self.pool, most)

    async def answered(self, source: str, request_id: str) -> bool:
        async with _within(QUESTION_TIMEOUT):
            return await snapshots.answer(self.pool, source, request_id) is not None

    async def approval(self, workflow_id: str, place: tuple[int, int, int, int]) -> snapshots.Approval | None:
        async with _within(QUESTION_TIMEOUT):
            return await snapshots.approval(self.pool, workflow_id, place)

    async def closing(self, workflow_id: str) -> bool:
        async with _within(QUESTION_TIMEOUT):
            found = await reader.workflow(self.pool, workflow_id)
        return found is not None and found.phase in ("closing", "draining")

    async def messages(self, workflow_id: str, before_seq: int | None) -> Sequence[ChatMessage]:
        async with _within(QUESTION_TIMEOUT):
            return await reader.messages(self.pool, workflow_id, limit=PAGE, before_seq=before_seq)

    async def spent(self, workflow_id: str, rounds: int) -> Spent:
        async with _within(QUESTION_TIMEOUT):
            ended, spent = await reader.spent(self.pool, workflow_id)
        if ended != rounds:
            raise Unavailable(f"Postgres was rebuilt and does not hold all {rounds} rounds of {workflow_id} yet")
        return spent

    async def opening(self, workflow_id: str, round_number: int) -> Opening:
        async with _within(QUESTION_TIMEOUT):
            opening = await reader.opening(self.pool, workflow_id)
        if opening is None or opening.round != round_number:
            raise Unavailable(f"Postgres was rebuilt and does not hold round {round_number} of {workflow_id} yet")
        return opening


@asynccontextmanager
async def _within(seconds: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Postgres did not answer within {seconds:g} s") from error
    except Refused as error:
        raise Unavailable(str(error)) from error


@asynccontextmanager
async def open_model(settings: Settings) -> AsyncGenerator[ChatModel, None]:
    """The model that the settings name, or one for every stage; its connections are closed in the end."""
    async with AsyncExitStack() as opened:
        yield build_model(settings, opened)


def build_model(settings: Settings, opened: AsyncExitStack | None = None) -> ChatModel:
    """The model that the settings name, or one for every stage; what has to be closed is put on the stack.

    Raises:
        Refused: a setting is missing that the model needs; the sentence names it.
    """
    built = {name: _built(name, settings, opened) for name in dict.fromkeys(settings.models.values())}
    if len(built) == 1:
        return next(iter(built.values()))
    return StagedModel({stage: built[settings.models[stage]] for stage in get_args(Stage)})


def _built(name: str, settings: Settings, opened: AsyncExitStack | None) -> ChatModel:
    kind, _, rest = name.partition(":")
    if kind == "builtin":
        from poweron_services.models.builtin import BuiltinModel  # noqa: PLC0415 - its ranking takes time to import

        return BuiltinModel()
    if kind == "scripted":
        from poweron_services.models.scripted import ScriptedModel  # noqa: PLC0415 - only where it is asked for

        return ScriptedModel.from_file(rest)
    from poweron_services.models.providers import ProviderModel  # noqa: PLC0415 - takes more than a second to import

    model = ProviderModel(cast("Provider", kind), rest, settings, ProviderSettings())
    if opened is not None:
        opened.push_async_callback(model.aclose)
    return model


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def settle() -> None:
    """Spare the garbage collector what stays for good: for processes that do nothing but serve."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


async def serve(
    connections: Connections, roles: Collection[str], model: ChatModel, open_actions: OpenActions = actions
) -> None:
    """Play the roles until cancelled, with these actions, which are closed in the end; what is away is waited for.

    Raises:
        Refused: the settings or the actions must be mended first; the message says what.
    """
    instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    resource = {"service.instance.id": instance, "poweron.roles": ",".join(sorted(roles))}
    async with (
        telemetry.exporting(connections.settings.otel_endpoint, resource=resource) as spans,
        _opened(open_actions, connections.settings, roles) as known,
        asyncio.TaskGroup() as group,
    ):
        process = _Process(connections, instance, spans)
        for running in _services(process, frozenset(roles), model, known):
            group.create_task(running)


@asynccontextmanager
async def _opened(
    open_actions: OpenActions, settings: Settings, roles: Collection[str]
) -> AsyncGenerator[Mapping[str, Action], None]:
    """The actions, with what they need handed in; a process that only projects has none."""
    if {*roles} <= {"projector"}:
        yield {}
        return
    async with open_actions(Resources(read_document=extract, render_report=markdown_to_html)) as known:
        for wrong in filter(None, (meaningless(each, _names(known)) for each in settings.approve_patterns)):
            raise Refused(f"POWERON_APPROVE: {wrong}.")
        yield known


def _names(known: Iterable[str]) -> frozenset[str]:
    """The actions that a pattern can mean: those that there are, and those of ours that do not run here."""
    return frozenset({*CATALOG, *known})


@dataclass(frozen=True, slots=True)
class _Process:
    """What every role of a process has."""

    connections: Connections
    instance: str
    spans: telemetry.Sink | None


def _services(
    process: _Process, roles: frozenset[str], model: ChatModel, known: Mapping[str, Action]
) -> list[Coroutine[Any, Any, None]]:
    services: list[Coroutine[Any, Any, None]] = []
    connections = process.connections
    if "projector" in roles:
        services.append(projector.run(connections.log, connections.pool))
    if "intake" in roles:
        services.append(_intake(process, known).run())
    if roles & FOLDING:
        services.append(_worker(process, roles & FOLDING, model, known).run())
    return services


def _intake(process: _Process, known: Iterable[str]) -> Intake:
    connections = process.connections
    return Intake(
        event_log=connections.log,
        answers=Rows(connections.pool),
        content=connections.content,
        instance=process.instance,
        now_ms=now_ms,
        actions=_names(known),
        default_language=connections.settings.language,
        max_open=connections.settings.max_open,
        approve=connections.settings.approve_patterns,
        spans=process.spans,
    )


def group_of(roles: frozenset[str]) -> str:
    """The consumer group: the set of roles, so that no partition is left without one of them (E-06)."""
    return "poweron.all" if roles == FOLDING else f"poweron.{'+'.join(sorted(roles))}"


def thinkers(caller: Caller, content: ContentStore, specs: Mapping[str, ActionSpec]) -> dict[Role, Think]:
    """What every role but the executor does when it is its turn."""
    return {
        "planner": Planner(caller, content, specs),
        "selector": Selector(caller, content, specs),
        "parameterizer": Parameterizer(caller, specs),
        "observer": Observer(content, specs),
        "refiner": Refiner(caller),
        "reviewer": Reviewer(caller, content),
    }


def _worker(process: _Process, roles: frozenset[str], model: ChatModel, known: Mapping[str, Action]) -> Worker:
    connections = process.connections
    caller = Caller(model, connections.content)
    specs = {name: action.spec for name, action in known.items()}
    executor = Executor(
        actions=known,
        caller=caller,
        content=connections.content,
        worker=process.instance,
        observes="observer" in roles,
        concurrency=connections.settings.concurrency,
        now_ms=now_ms,
        approval=Approval(connections.settings.approve_patterns, connections.settings.approval_expires_ms),
    )
    return Worker(
        event_log=connections.log,
        snapshots=Rows(connections.pool),
        thinkers={role: think for role, think in thinkers(caller, connections.content, specs).items() if role in roles},
        executor=executor if "executor" in roles else None,
        group=group_of(roles),
        instance=process.instance,
        concurrency=connections.settings.concurrency,
        now_ms=now_ms,
        spans=process.spans,
    )
