"""What is wrong with the contents of all workflows, in a sentence, for the verification of everything."""

from collections.abc import Mapping, Sequence
from typing import Final

from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_projections.connection import Pool
from poweron_services.client.content_check import KEY, ContentFault, Fault, OnProgress, check_content

_WRONG: Final[Mapping[Fault, str]] = {
    "missing": "is missing, and no event says that it was erased",
    "damaged": "is another one than its event says",
    "unreadable": "cannot be read",
}


async def wrong_contents(pool: Pool, content: ContentStore, on_progress: OnProgress = lambda _, __: None) -> str:
    """Read all contents; name the first that is not as events say, and how many others there are."""
    try:
        faults = (await check_content(pool, content, reading=True, on_progress=on_progress)).faults
    except Unavailable as error:
        return f"not all contents could be read: {error}"
    return _first_of(faults) if faults else ""


def _first_of(faults: Sequence[ContentFault]) -> str:
    what = f"the content {faults[0].name}" if faults[0].name != KEY else "its key"
    others = f" ({len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return f"workflow {faults[0].workflow_id}: {what} {_WRONG[faults[0].fault]}{others}"
