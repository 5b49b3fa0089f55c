"""Hostile records, hundreds of texts in every place: accepted or refused with a reason, quickly, and nothing else."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import orjson
import pytest
from hostile_json import ALL, Text, cut, doubled, is_canonical, placed
from processor_time import within

from builders import TIME, At
from poweron_events.codec import InvalidRequest, ReceivedRequest, Undecodable, decode, decode_request, encode
from poweron_events.dead_letter import DeadLetter, read_dead_letter
from poweron_events.envelope import Cause, Envelope, envelop
from poweron_events.log import Record

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
PATIENCE = 2.0  # seconds of this process' time for one record, on a slow machine; usual are 0.01, at most 0.3
MAX_SAID = 2_500  # characters

EVENT: dict[str, Any] = orjson.loads(
    encode(
        envelop(
            At().selected(),
            workflow_id=WORKFLOW,
            source="/somebody",
            time=TIME,
            cause=Cause(WORKFLOW, "00" * 32, 1),
        )
    )
)
EVENT_PLACES = (
    ("a",),
    ("zz",),
    ("data",),
    ("data", "actionObjective"),
    ("data", "step"),
    ("data", "aaa"),
    ("subject",),
    ("catalogue",),
    ("causationoffset",),
    ("specversion",),
    ("type",),
)

OPENING: dict[str, Any] = {
    "specversion": "1.0",
    "id": "1",
    "source": "/somebody",
    "type": "poweron.request.workflow.v1",
    "data": {"prompt": "Write it.", "maxSteps": 3, "documents": [], "allowedMethods": {}},
}
OPENING_PLACES = (
    ("a",),
    ("data",),
    ("data", "prompt"),
    ("data", "maxSteps"),
    ("data", "documents"),
    ("data", "allowedMethods"),
    ("data", "aaa"),
    ("id",),
    ("specversion",),
    ("type",),
    ("data_base64",),
)
HEADERS = {
    "ce_specversion": b"1.0",
    "ce_id": b"1",
    "ce_source": b"/somebody",
    "ce_type": b"poweron.request.workflow.v1",
}


Read = TypeVar("Read")


def read_event(value: bytes | None) -> Envelope | None:
    return _read_or_refused(lambda: decode(value, key=WORKFLOW.encode()))


def read_request(value: bytes | None, headers: dict[str, bytes]) -> ReceivedRequest | None:
    return _read_or_refused(lambda: decode_request(value, headers))


def _read_or_refused(read: Callable[[], Read]) -> Read | None:
    """What was read, or None where it was refused as the laws say; never slowly."""
    read_, said = None, "read"
    with within(PATIENCE):
        try:
            read_ = read()
        except (Undecodable, InvalidRequest) as error:
            said = str(error)
    assert 0 < len(said) < MAX_SAID
    return read_


@pytest.mark.req("E-14")
def test_there_are_hundreds_of_them() -> None:
    assert len(ALL) > 700
    assert {text.standing for text in ALL.values()} == {"y", "n", "i"}


@pytest.mark.req("E-14")
def test_none_of_them_is_a_record_of_ours() -> None:
    for name, text in ALL.items():
        assert read_event(text.raw) is None, name
        assert read_request(text.raw, {}) is None, name
        assert read_request(text.raw, HEADERS) is None, name


@pytest.mark.req("E-12")
@pytest.mark.req("E-14")
@pytest.mark.parametrize("path", EVENT_PLACES, ids=".".join)
def test_an_event_with_one_of_them_inside_is_accepted_only_if_there_is_one_way_to_read_it(
    path: tuple[str, ...],
) -> None:
    accepted = 0
    for name, text, value in placed(EVENT, (path,)):
        envelope = read_event(value)
        if envelope is None:
            continue
        accepted += 1
        assert text.standing != "n", name
        assert _floats(text) or is_canonical(text.raw), name
        assert json.loads(value) == orjson.loads(value), name
    assert accepted < len(ALL) / 4


def _floats(text: Text) -> bool:
    return text.raw.strip(b"[]{}").startswith((b"-", b"0", b"1", b"2")) and any(each in text.raw for each in b".eE")


@pytest.mark.req("E-13")
def test_where_a_newer_release_may_have_written_anything_canonical_json_is_accepted() -> None:
    for path in (("a",), ("zz",), ("data", "aaa")):
        for name, text, value in placed(EVENT, (path,)):
            if is_canonical(text.raw) and text.standing == "y":
                envelope = read_event(value)
                assert envelope is not None, name
                assert envelope.event == At().selected(), name


@pytest.mark.req("E-14")
@pytest.mark.parametrize("path", OPENING_PLACES, ids=".".join)
def test_a_request_with_one_of_them_inside_is_read_or_refused(path: tuple[str, ...]) -> None:
    for name, text, value in placed(OPENING, (path,)):
        received = read_request(value, {})
        if received is not None:
            assert text.standing != "n", name
            assert received.identity.source == "/somebody", name


@pytest.mark.req("E-14")
def test_a_request_whose_data_is_one_of_them_in_base64_is_refused() -> None:
    for name, text in ALL.items():
        whole = {**OPENING, "data_base64": base64.b64encode(text.raw).decode()}
        assert read_request(json.dumps(whole).encode(), {}) is None, name


@pytest.mark.req("E-14")
@pytest.mark.parametrize("header", [*HEADERS, "ce_other", "content-type", "traceparent"])
def test_a_binary_request_with_one_of_them_as_header_is_read_or_refused(header: str) -> None:
    for name, text in ALL.items():
        received = read_request(b'{"prompt":"Write it."}', {**HEADERS, header: text.raw})
        if header in ("content-type", "traceparent"):
            assert received is not None, name


@pytest.mark.req("E-12")
def test_an_attribute_that_stands_twice_makes_an_event_undecodable() -> None:
    names = [name for name, value in doubled(EVENT) if read_event(value) is not None]
    assert names == []


@pytest.mark.req("E-14")
def test_an_attribute_that_stands_twice_in_a_request_has_its_last_value() -> None:
    for name, value in doubled(OPENING):
        received = read_request(value, {})
        assert (received is None) == name.endswith("after"), name


@pytest.mark.req("E-14")
def test_what_was_cut_off_is_refused() -> None:
    for whole, read in ((EVENT, read_event), (OPENING, lambda value: read_request(value, {}))):
        record = orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)
        assert read(record) is not None
        assert [name for name, value in cut(record, step=1) if read(value) is not None] == []


@pytest.mark.req("E-14")
def test_a_flipped_bit_is_read_or_refused() -> None:
    record = orjson.dumps(EVENT, option=orjson.OPT_SORT_KEYS)
    for value in _flipped(record):
        read_event(value)
        read_request(value, {})


def _flipped(record: bytes) -> Iterator[bytes]:
    for place, byte in enumerate(record):
        for bit in range(8):
            yield record[:place] + bytes([byte ^ 1 << bit]) + record[place + 1 :]


@pytest.mark.req("E-14")
def test_each_of_them_can_be_buried_and_is_found_again() -> None:
    for name, text in ALL.items():
        letter = DeadLetter.of(Record("poweron.events", 3, 7, 1_000, None, text.raw, {}), "No record of ours.")
        found = read_dead_letter(letter.message().value)
        assert (found.raw or b"", found.size) == (text.raw[:700_000], len(text.raw)), name
