"""How the ledger is, and whether that is good enough, for people who watch over it.

When everything was verified last is a file in the data directory: it belongs to the person who verified, not to the
rows, which an operator of the ledger could change.
"""

import json
from contextlib import suppress
from typing import Final, NamedTuple

from poweron_events.codec import dumps
from poweron_projections.audit.ledger import LedgerAlarm
from poweron_projections.audit.ledger_status import (
    LedgerStatus,
    StatusLimits,
    beyond,
    ledger_alarm,
    ledger_status,
    witness_alarm,
)
from poweron_projections.audit.verifier.answer_rules import milliseconds_of
from poweron_projections.reader import time
from poweron_services.client.connect import Connections
from poweron_services.client.witness_client import witnesses_of
from poweron_services.settings.config import Settings
from poweron_services.settings.ledger_keys import known_ledger_keys
from poweron_services.settings.ledger_policy import ledger_policy

VERIFIED_FILE: Final = "ledger.verified"


class AuditStatus(NamedTuple):
    """The values, the alarm if there is one, and which values are beyond their limits."""

    status: LedgerStatus
    alarm: LedgerAlarm | None
    beyond: list[str]


async def audit_status(connections: Connections, now_ms: int) -> AuditStatus:
    """Return how the ledger is.

    Raises:
        Refused: the key of the ledger is here, or its policy, but cannot be used.
        Unavailable: Kafka or Postgres cannot be reached.
    """
    settings, log = connections.settings, connections.log.unguarded  # a log that lost events shows that here
    policy, keys = ledger_policy(settings), known_ledger_keys(settings)
    status = await ledger_status(log, connections.pool, now_ms, last_verified(settings), policy)
    alarm = await ledger_alarm(log, connections.pool, [key.public for key in keys])
    if alarm is None:
        async with witnesses_of(policy) as witnesses:
            alarm = await witness_alarm(log, connections.pool, witnesses, keys, now_ms)
    limits = StatusLimits(
        lag_ms=milliseconds_of(settings.audit_max_lag),
        checkpoint_age_seconds=milliseconds_of(settings.audit_max_checkpoint_age) // 1000,
        witness_age_seconds=milliseconds_of(settings.audit_max_witness_age) // 1000,
    )
    return AuditStatus(status, alarm, beyond(status, limits))


def last_verified(settings: Settings) -> str | None:
    """Return when everything was verified last on this machine, None if it never was."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((settings.home / VERIFIED_FILE).read_bytes())["time"])
    return None


def note_verified(settings: Settings, *, size: int, now_ms: int) -> None:
    """Remember that the ledger of this size was verified."""
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / VERIFIED_FILE).write_bytes(dumps({"size": size, "time": time(now_ms)}))
