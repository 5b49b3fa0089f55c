"""The record of a process in the log: what it may do when it begins to play its roles, and its end.

Permissions as of a date are answered from these records (docs/decisions/0089-a-process-records-what-it-may-do.md).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Final

import structlog

from poweron_events import topics
from poweron_events.codec import MAX_EVENT, dumps, encode
from poweron_events.envelope import envelop, rfc3339_of, source
from poweron_events.errors import PowerOnError
from poweron_events.instance_events import (
    MAX_SETTING,
    InstanceEnded,
    InstanceStarted,
    OfferedAction,
    TokenPrice,
    instance_id,
)
from poweron_events.log import EventLog, Message
from poweron_events.redaction import redacted
from poweron_events.retry import Failure, retry
from poweron_events.task_cancellation import cancel_task, retrieve_error
from poweron_services.action_resources import WITHOUT_ACTIONS, OpenedActions
from poweron_services.decider.approval import marks
from poweron_services.log_redaction import configured_secrets
from poweron_services.settings.config import ProviderSettings, Settings
from poweron_services.settings.secret_redaction import SecretRedaction
from poweron_services.settings.secret_settings import set_values

log = structlog.get_logger()

START_WITHIN: Final = 1.0  # seconds that the roles wait for the record of the start
END_WITHIN: Final = 0.5  # seconds for the record of the end, so that the process ends in time
TRIES_TO_PROJECT: Final = 10  # attempts to record the start of a process that only projects, in about 20 s
MOST: Final = MAX_EVENT - 2_000  # bytes of the payload; the rest is for the envelope


def started_event(instance: str, roles: Collection[str], settings: Settings, work: OpenedActions) -> InstanceStarted:
    """Return what a process with these settings and actions may do."""
    secrets = configured_secrets(settings)
    started = InstanceStarted(
        instance=instance,
        release=version("poweron-services"),
        roles=tuple(sorted(roles)),
        settings={name: _shown(value, secrets) for name, value in sorted(set_values(settings).items())},
        models=settings.models,
        prices=_prices(settings),
        actions=tuple(_offered(work)),
        allowed={**work.lists.allowed},
        denied=work.lists.denied,
        approve=tuple(sorted(settings.approve_patterns)),
    )
    return fitting(started)


def _shown(value: str, secrets: SecretRedaction) -> str:
    """Return the value of a setting without secrets, and of addresses only scheme, host and path."""
    return secrets.redacted(redacted(value))[:MAX_SETTING]


def _prices(settings: Settings) -> tuple[TokenPrice, ...]:
    if not settings.provided_models:
        return ()
    from poweron_services.models.prices import token_prices  # noqa: PLC0415 - the list of prices takes time to import

    return token_prices(settings, ProviderSettings())


def _offered(work: OpenedActions) -> list[OfferedAction]:
    return [
        OfferedAction(
            action=name,
            effect_class=spec.effect_class,
            tool_sha256=spec.digest or None,
            approve=marks(work.approval.patterns, name),
        )
        for name, spec in sorted(work.specs.items())
    ]


def fitting(started: InstanceStarted, most: int = MOST) -> InstanceStarted:
    """Return the event with as many actions as fit into `most` bytes, without settings if it is still too large."""
    too_much = _size(started) - most
    if too_much <= 0:
        return started
    kept = list(started.actions)
    while kept and too_much > 0:
        too_much -= _size(kept.pop()) + 1
    left_out = len(started.actions) - len(kept)
    changes: dict[str, object] = {"actions": tuple(kept), "actions_left_out": left_out}
    if too_much > 0:
        changes |= {"settings": {}, "settings_left_out": len(started.settings)}
    return started.model_copy(update=changes)


def _size(part: InstanceStarted | OfferedAction) -> int:
    return len(dumps(part.model_dump(mode="json", by_alias=True)))


@asynccontextmanager
async def recorded(
    event_log: EventLog, started: InstanceStarted, now_ms: Callable[[], int]
) -> AsyncGenerator[None, None]:
    """Record the start of a process before the block, and its end after it.

    While the log is unavailable, the block begins without the record, which follows once the log is back; an end that
    the log does not take at once is not recorded.
    """
    record = _Record(event_log, started.instance, now_ms)
    starting = asyncio.create_task(retry(lambda: record.append(started), failed=partial(_not_recorded, started)))
    retrieve_error(starting)
    try:
        await asyncio.wait({starting}, timeout=START_WITHIN)
        if starting.done() and (error := starting.exception()) is not None:
            log.warning("instance_not_recorded", error=str(error))
        yield
    finally:
        if starting.done() and not starting.cancelled() and starting.exception() is None:
            with suppress(TimeoutError, PowerOnError):
                async with asyncio.timeout(END_WITHIN):
                    await record.append(InstanceEnded(instance=started.instance))
        else:
            await cancel_task(starting, END_WITHIN)


def _not_recorded(started: InstanceStarted, failure: Failure) -> None:
    """Log the first failure; give up if the process may have no right to append events."""
    if {*started.roles} <= WITHOUT_ACTIONS and failure.tries >= TRIES_TO_PROJECT:
        log.warning("instance_not_recorded", error=str(failure.error))
        raise failure.error
    if failure.tries == 1:
        log.info("instance_not_recorded", error=str(failure.error))


class _Record:
    """Appends the events of a process under its key in the log."""

    def __init__(self, event_log: EventLog, instance: str, now_ms: Callable[[], int]) -> None:
        self._log = event_log
        self._key = instance_id(instance)
        self._source = source("process", instance)
        self._now_ms = now_ms

    async def append(self, event: InstanceStarted | InstanceEnded) -> None:
        time = rfc3339_of(self._now_ms())
        value = encode(envelop(event, workflow_id=self._key, source=self._source, time=time))
        await self._log.append(topics.EVENTS.name, [Message(self._key.encode(), value)])
