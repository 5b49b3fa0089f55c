"""The ledger with the keys and the witnesses that the settings name, as services and commands run it."""

from importlib.metadata import version

from poweron_events.log import EventLog
from poweron_projections.audit import ledger_role
from poweron_services.client.connect import Connections
from poweron_services.client.witness_client import witnesses_of
from poweron_services.settings.ledger_keys import ledger_keys
from poweron_services.settings.ledger_policy import ledger_policy


async def keep_ledger(
    connections: Connections, event_log: EventLog | None = None, *, sign_after: float = ledger_role.SIGN_AFTER
) -> None:
    """Keep the ledger whenever this process holds its partition, until cancelled.

    Args:
        connections: of the process, with its settings.
        event_log: the log to use instead of that of the connections.
        sign_after: seconds from an entry to the next checkpoint.

    Raises:
        Refused: the key or the policy cannot be used.
    """
    settings = connections.settings
    keys = ledger_keys(settings)
    async with witnesses_of(ledger_policy(settings)) as witnesses:
        await ledger_role.run(
            event_log or connections.log,
            connections.pool,
            keys,
            version("poweron-services"),
            sign_after=sign_after,
            witnesses=witnesses,
        )
