"""The wiring: what is opened, in which order, and who gets what."""

import asyncio
import gc
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, get_args

from poweron_events.catalog import ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import Role
from poweron_events.fold.partial import Stub
from poweron_projections import projector, reader, snapshots
from poweron_projections.connection import Pool
from poweron_services.actions.action import Action
from poweron_services.actions.registry import actions
from poweron_services.config import Settings
from poweron_services.connections import Connections, connect
from poweron_services.models.call import Caller
from poweron_services.models.model import ChatModel
from poweron_services.roles.executor import Executor
from poweron_services.roles.fitting import fitting_text
from poweron_services.roles.intake import Intake
from poweron_services.roles.observer import Observer
from poweron_services.roles.parameterizer import Parameterizer
from poweron_services.roles.planner import Planner
from poweron_services.roles.refiner import Refiner
from poweron_services.roles.reviewer import Reviewer
from poweron_services.roles.role import Think, Worker
from poweron_services.roles.selector import Selector

__all__ = [
    "FOLDING",
    "ROLES",
    "Connections",
    "build_model",
    "connect",
    "group_of",
    "now_ms",
    "serve",
    "settle",
    "thinkers",
]

ROLES: Final[tuple[str, ...]] = (*get_args(Role), "projector")
"""What a process can be told to do."""

FOLDING: Final = frozenset(get_args(Role)) - {"intake"}
QUESTION_TIMEOUT = 10.0  # seconds
LOAD_TIMEOUT = 60.0  # seconds: every open workflow of the partitions is folded
COMPACT_ENTRIES = 100
COLLECT_AFTER = 10_000  # objects more than there were
COMPACT_HISTORY_BUDGET = 8_000  # bytes, as JSON


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

    async def closing(self, workflow_id: str) -> bool:
        async with _within(QUESTION_TIMEOUT):
            found = await reader.workflow(self.pool, workflow_id)
        return found is not None and found.phase in ("closing", "draining")

    async def compact_history(self, workflow_id: str) -> str:
        async with _within(QUESTION_TIMEOUT):
            entries = await reader.history(self.pool, workflow_id, limit=COMPACT_ENTRIES)
        lines = [f"[round {entry.round}] {entry.summary or entry.message}" for entry in entries]
        return fitting_text("\n".join(lines), COMPACT_HISTORY_BUDGET)


@asynccontextmanager
async def _within(seconds: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Postgres did not answer within {seconds:g} s") from error
    except Refused as error:
        raise Unavailable(str(error)) from error


def build_model(settings: Settings) -> ChatModel:
    """The model that the settings name."""
    if settings.model.startswith("scripted:"):
        from poweron_services.models.scripted import ScriptedModel  # noqa: PLC0415 - only where it is asked for

        return ScriptedModel.from_file(settings.model.removeprefix("scripted:"))
    from poweron_services.models.builtin import BuiltinModel  # noqa: PLC0415 - its ranking takes time to import

    return BuiltinModel()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def settle() -> None:
    """Spare the garbage collector what stays for good: for processes that do nothing but serve."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


async def serve(
    connections: Connections, roles: Collection[str], model: ChatModel, known: Mapping[str, Action] | None = None
) -> None:
    """Play the roles until cancelled, with the actions `known`, by default our own; what is away is waited for."""
    instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    async with asyncio.TaskGroup() as group:
        for running in _services(connections, frozenset(roles), model, instance, actions() if known is None else known):
            group.create_task(running)


def _services(
    connections: Connections, roles: frozenset[str], model: ChatModel, instance: str, known: Mapping[str, Action]
) -> list[Coroutine[Any, Any, None]]:
    services: list[Coroutine[Any, Any, None]] = []
    if "projector" in roles:
        services.append(projector.run(connections.log, connections.pool))
    if "intake" in roles:
        services.append(_intake(connections, instance).run())
    if roles & FOLDING:
        services.append(_worker(connections, roles & FOLDING, model, instance, known).run())
    return services


def _intake(connections: Connections, instance: str) -> Intake:
    return Intake(
        event_log=connections.log,
        answers=Rows(connections.pool),
        content=connections.content,
        instance=instance,
        now_ms=now_ms,
        default_language=connections.settings.language,
        max_open=connections.settings.max_open,
    )


def group_of(roles: frozenset[str]) -> str:
    """The consumer group: the set of roles, so that no partition is left without one of them (E-06)."""
    return "poweron.all" if roles == FOLDING else f"poweron.{'+'.join(sorted(roles))}"


def thinkers(caller: Caller, content: ContentStore, specs: Mapping[str, ActionSpec]) -> dict[Role, Think]:
    """What every role but the executor does when it is its turn."""
    return {
        "planner": Planner(caller, specs),
        "selector": Selector(caller, specs),
        "parameterizer": Parameterizer(caller, specs),
        "observer": Observer(content),
        "refiner": Refiner(caller),
        "reviewer": Reviewer(caller, content),
    }


def _worker(
    connections: Connections, roles: frozenset[str], model: ChatModel, instance: str, known: Mapping[str, Action]
) -> Worker:
    caller = Caller(model, connections.content)
    specs = {name: action.spec for name, action in known.items()}
    executor = Executor(
        actions=known,
        caller=caller,
        content=connections.content,
        worker=instance,
        observes="observer" in roles,
        concurrency=connections.settings.concurrency,
        now_ms=now_ms,
    )
    return Worker(
        event_log=connections.log,
        snapshots=Rows(connections.pool),
        thinkers={role: think for role, think in thinkers(caller, connections.content, specs).items() if role in roles},
        executor=executor if "executor" in roles else None,
        group=group_of(roles),
        instance=instance,
        concurrency=connections.settings.concurrency,
        now_ms=now_ms,
    )
