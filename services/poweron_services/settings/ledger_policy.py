"""The policy of the ledger: which witnesses it asks to cosign its checkpoints, and which of them are enough."""

from typing import Final

from poweron_events.errors import Refused
from poweron_projections.audit.tlog_policy import InvalidPolicy, TlogPolicy
from poweron_services.settings.config import Settings
from poweron_services.settings.setting_types import wrong_address

MAX_WITNESSES: Final = 32
"""A signed note has at most 64 signatures."""


def ledger_policy(settings: Settings) -> TlogPolicy | None:
    """Return the policy in the file that POWERON_LEDGER_POLICY names; None if it is unset.

    Raises:
        Refused: the file cannot be used.
    """
    path = settings.ledger_policy
    if path is None:
        return None
    try:
        policy = TlogPolicy.parse(path.read_bytes())
    except OSError as error:
        raise Refused(f"POWERON_LEDGER_POLICY: {path} cannot be read: {error.strerror}.") from error
    except InvalidPolicy as error:
        raise Refused(f"POWERON_LEDGER_POLICY: {path} cannot be used. {error}") from error
    if len(policy.witnesses) > MAX_WITNESSES:
        raise Refused(f"POWERON_LEDGER_POLICY: {path} names more than {MAX_WITNESSES} witnesses.")
    for name, witness in policy.witnesses.items():
        if witness.url is not None and (reason := wrong_address(witness.url)):
            raise Refused(f"POWERON_LEDGER_POLICY: the address of the witness {name!r} in {path} {reason}")
    return policy
