"""The claim about all contents (V10), beside the other claims about everything."""

from collections.abc import Mapping, Sequence
from typing import Final

from poweron_events.content import ContentStore
from poweron_projections.audit.full_verification import FullVerification
from poweron_projections.audit.ledger_verification import LedgerClaim
from poweron_projections.connection import Pool
from poweron_services.client.content_check import KEY, ContentFault, Fault, OnProgress, check_content

_WRONG: Final[Mapping[Fault, str]] = {
    "missing": "is missing, and no event says that it was erased",
    "damaged": "is another one than its event says",
    "unreadable": "cannot be read",
}


async def with_contents(
    verification: FullVerification, pool: Pool, content: ContentStore, on_progress: OnProgress = lambda _, __: None
) -> FullVerification:
    """Return the same with V10: read all contents, and compare them with their names.

    Nothing is read if the rows, which say what was accepted, are not those that follow from the log.

    Raises:
        Unavailable: Postgres or the store cannot be reached.
    """
    if verification.status("V13") != "ok":
        return verification.with_claim(LedgerClaim("V10", "not_checked", "V13 does not hold"))
    checked = await check_content(pool, content, reading=True, on_progress=on_progress)
    wrong = _first_of(checked.faults)
    return verification.with_claim(LedgerClaim("V10", "fail" if wrong else "ok", wrong))


def _first_of(faults: Sequence[ContentFault]) -> str:
    """Name the first content that is not as events say, and how many others there are; nothing if there is none."""
    if not faults:
        return ""
    what = f"the content {faults[0].name}" if faults[0].name != KEY else "its key"
    others = f" ({len(faults) - 1:,} more: `poweron verify --content` lists all)" if len(faults) > 1 else ""
    return f"workflow {faults[0].workflow_id}: {what} {_WRONG[faults[0].fault]}{others}"
