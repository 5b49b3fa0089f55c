"""Which requests are urgent: cancellations and approvals do not wait behind openings (docs/decisions/0008)."""

from collections.abc import Awaitable, Callable

from poweron_events.codec import InvalidRequest, ReceivedRequest, Undecodable, decode_request, is_uuid
from poweron_events.errors import Refused
from poweron_events.log import Record
from poweron_events.request import RequestApproval, RequestCancellation

NextCancellation = Callable[[], Awaitable[ReceivedRequest | None]]
"""Finds the first cancellation that came while an opening waits and has no answer yet; None if there is none."""

_APPROVAL = RequestApproval.TYPE.encode()
_CANCELLATION = RequestCancellation.TYPE.encode()


async def no_cancellation() -> ReceivedRequest | None:
    """Of a request that opens nothing."""
    return None


def waits_its_turn(record: Record) -> bool:
    return not is_approval(record)


def is_urgent(record: Record) -> bool:
    return _is_cancellation(record) or is_approval(record)


def is_approval(record: Record) -> bool:
    """Whether the record is an answer that can be judged; most are told to be none without being read."""
    if _APPROVAL not in (record.value or b"") and record.headers.get("ce_type") != _APPROVAL:
        return False
    try:
        return isinstance(decode_request(record.value, record.headers).request, RequestApproval)
    except (Undecodable, Refused):
        return False


def cancellation(record: Record) -> ReceivedRequest | None:
    """The cancellation that the record is, if it is one of an id that a workflow can have."""
    try:
        received = decode_request(record.value, record.headers)
    except (Undecodable, InvalidRequest):
        return None
    request = received.request
    if not isinstance(request, RequestCancellation) or not is_uuid(request.workflow_id):
        return None
    return received


def _is_cancellation(record: Record) -> bool:
    """Whether it may be one, told without reading it: most are not."""
    return _CANCELLATION in (record.value or b"") or record.headers.get("ce_type") == _CANCELLATION
