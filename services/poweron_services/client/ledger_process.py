"""The ledger with the keys and the witnesses that the settings name, as services and commands run it."""

from importlib.metadata import version

from poweron_events.log import EventLog
from poweron_projections.audit import ledger_role
from poweron_services.client.connect import Connections
from poweron_services.client.witness_client import witnesses_of
from poweron_services.settings.ledger_keys import ledger_keys, retired_ledger_keys
from poweron_services.settings.ledger_policy import ledger_policy


async def keep_ledger(connections: Connections, event_log: EventLog) -> None:
    """Keep the ledger whenever this process holds its partition, until cancelled.

    Args:
        connections: of the process, with its settings.
        event_log: its log, which may note its polls.

    Raises:
        Refused: the key or the policy cannot be used.
    """
    settings = connections.settings
    keys, retired, release = ledger_keys(settings), retired_ledger_keys(settings), version("poweron-services")
    async with witnesses_of(ledger_policy(settings)) as witnesses:
        await ledger_role.run(event_log, connections.pool, keys, release, retired=retired, witnesses=witnesses)
