"""Which requests are urgent: cancellations and approvals do not wait behind openings (docs/decisions/0008)."""

from collections.abc import Awaitable, Callable

from poweron_events.codec import InvalidRequest, ReceivedRequest, Undecodable, decode_request, is_uuid
from poweron_events.errors import Refused
from poweron_events.log import Record
from poweron_events.request import RequestApproval, RequestCancellation

NextCancellation = Callable[[], Awaitable[ReceivedRequest | None]]
"""Finds the first unanswered cancellation that arrived while an opening waits; None if there is none."""

_APPROVAL = RequestApproval.TYPE.encode()
_CANCELLATION = RequestCancellation.TYPE.encode()


async def no_cancellation() -> ReceivedRequest | None:
    """Return None, for a request that opens nothing."""
    return None


def waits_its_turn(record: Record) -> bool:
    return not is_approval(record)


def is_urgent(record: Record) -> bool:
    return _is_cancellation(record) or is_approval(record)


def is_approval(record: Record) -> bool:
    """Return whether the record is an approval or denial that can be judged; most others are not even decoded."""
    if _APPROVAL not in (record.value or b"") and record.headers.get("ce_type") != _APPROVAL:
        return False
    try:
        return isinstance(decode_request(record.value, record.headers).request, RequestApproval)
    except (Undecodable, Refused):
        return False


def cancellation(record: Record) -> ReceivedRequest | None:
    """Return the cancellation in the record, or None if it is none or its workflow id is not valid."""
    try:
        received = decode_request(record.value, record.headers)
    except (Undecodable, InvalidRequest):
        return None
    request = received.request
    if not isinstance(request, RequestCancellation) or not is_uuid(request.workflow_id):
        return None
    return received


def _is_cancellation(record: Record) -> bool:
    """Return whether the record may be a cancellation, without decoding it: most are not."""
    return _CANCELLATION in (record.value or b"") or record.headers.get("ce_type") == _CANCELLATION
