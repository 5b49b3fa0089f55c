"""Bytes and envelopes: one way to write each, and no bytes that anything but `Undecodable` comes of."""

import json
import uuid
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import json_objects, json_values, models

from builders import At, Told, planned, requested, typical
from poweron_events import codec
from poweron_events.codec import KnownRecord, Undecodable, decode, dumps, encode, read, read_record
from poweron_events.envelope import Cause, Envelope, envelop
from poweron_events.errors import Refused
from poweron_events.event import CATALOGUE, MAX_DEPTH, Event
from poweron_events.log import Record
from poweron_events.step_events import ActionSelected, ParametersSet
from poweron_events.stream import WORKFLOW_EVENTS

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
HOME = 11  # the partition of its key
EVENTS = pytest.mark.parametrize("event_class", WORKFLOW_EVENTS.values(), ids=lambda each: each.__name__)

causes = st.builds(
    Cause,
    st.uuids().map(str),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.one_of(st.none(), st.integers(0, 2**62)),
)


def enveloped(event: Event, cause: Cause | None = None) -> Envelope:
    return envelop(event, workflow_id=WORKFLOW, source="/poweron/test/1", time="2026-11-21T00:00:00.000Z", cause=cause)  # type: ignore[arg-type]


def record(**changes: Any) -> bytes:
    """A record of an ActionSelected with its attributes changed; None takes one away."""
    attributes = orjson.loads(encode(enveloped(At().selected()))) | changes
    return dumps({name: value for name, value in attributes.items() if value is not None})


def data(**changes: Any) -> bytes:
    """A record of an ActionSelected with its data changed; None takes a field away."""
    inner = orjson.loads(record())["data"] | changes
    return record(data={name: value for name, value in inner.items() if value is not None})


# --- the way there and back ------------------------------------------------------------------------


@pytest.mark.req("E-12")
@EVENTS
@settings(max_examples=20)
@given(generated=st.data())
def test_what_is_written_reads_back_and_writes_the_same_bytes(
    event_class: type[Event], generated: st.DataObject
) -> None:
    event = generated.draw(models(event_class))
    value = encode(enveloped(event, generated.draw(st.one_of(st.none(), causes))))

    envelope = decode(value, key=WORKFLOW.encode())

    assert envelope.event == event
    assert encode(envelope) == value


@EVENTS
@settings(max_examples=20)
@given(generated=st.data())
def test_what_its_writer_reads_back_is_what_anyone_reads(event_class: type[Event], generated: st.DataObject) -> None:
    written = enveloped(generated.draw(models(event_class)), generated.draw(st.one_of(st.none(), causes)))
    back = Record("poweron.events", HOME, 41, 1_000, WORKFLOW.encode(), encode(written), {})

    assert read_record(back, KnownRecord(written, codec.sha256(encode(written)))) == read_record(back)


@pytest.mark.req("E-12")
def test_a_record_looks_exactly_like_this() -> None:
    event = At().started()
    cause = Cause("01900000-0000-5000-8000-000000000001", "ab" * 32, 41)
    assert encode(enveloped(event, cause)) == (
        b'{"catalogue":4,"causationhash":"abababababababababababababababababababababababababababababababab",'
        b'"causationid":"01900000-0000-5000-8000-000000000001","causationoffset":"41",'
        b'"correlationid":"7d444840-9dc0-11d1-b245-5ffdce74fad2",'
        b'"data":{"action":"document.extract","attempt":1,"claim":"claim","deadlineMs":60000,"effectClass":"pure",'
        b'"round":1,"step":1,"task":1,"try":1,"worker":"w1"},"datacontenttype":"application/json",'
        b'"id":"80969098-7b33-55df-a2e3-1226b74ef35c","source":"/poweron/test/1","specversion":"1.0",'
        b'"subject":"7d444840-9dc0-11d1-b245-5ffdce74fad2","time":"2026-11-21T00:00:00.000Z",'
        b'"type":"poweron.action.started.v1"}'
    )


@pytest.mark.req("E-13")
def test_tokens_that_nobody_counted_are_not_written_so_that_older_events_keep_their_bytes() -> None:
    before = planned()
    written = encode(enveloped(before))
    assert b"cachedInputTokens" not in written
    assert b"reasoningTokens" not in written
    call = before.model_call.model_copy(update={"cached_input_tokens": 60, "reasoning_tokens": 15})
    counted = before.model_copy(update={"model_call": call})
    written = encode(enveloped(counted))
    assert (b'"cachedInputTokens":60' in written, b'"reasoningTokens":15' in written) == (True, True)
    assert decode(written).event == counted


@pytest.mark.req("E-12")
def test_a_traceparent_travels_along() -> None:
    value = record(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    envelope = decode(value)
    assert envelope.traceparent == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert encode(envelope) == value


def test_a_record_is_read_with_its_place_and_the_hash_of_its_bytes() -> None:
    value = record()
    recorded = read_record(Record("poweron.events", HOME, 41, 1_000, WORKFLOW.encode(), value, {}))
    assert (recorded.partition, recorded.offset, recorded.time_ms) == (HOME, 41, 1_000)
    assert recorded.cause == Cause(recorded.envelope.id, recorded.sha256, 41)


# --- open readers, closed writers ------------------------------------------------------------------


@pytest.mark.req("E-13")
def test_a_reader_ignores_fields_that_only_a_newer_release_knows() -> None:
    nested = orjson.loads(record())["data"]["modelCall"] | {"temperature": 1}
    envelope = decode(data(mood="hopeful", modelCall=nested))
    assert envelope.event == At().selected()


@pytest.mark.req("E-13")
def test_a_reader_ignores_attributes_that_only_a_newer_release_knows() -> None:
    assert decode(record(partitionkey="x")).event == At().selected()


@pytest.mark.req("E-13")
@EVENTS
@settings(max_examples=3)
@given(generated=st.data())
def test_a_writer_cannot_add_a_field(event_class: type[Event], generated: st.DataObject) -> None:
    event = generated.draw(models(event_class))
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        event_class(**(dict(event) | {"mood": "hopeful"}))


@pytest.mark.req("E-13")
def test_an_event_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        At().selected().reason = "another"


@pytest.mark.req("E-13")
@pytest.mark.parametrize("wire_type", ["poweron.action.selected.v2", "poweron.action.dreamed.v1", "com.example.other"])
def test_an_unknown_type_or_version_is_readable_but_is_no_event_of_ours(wire_type: str) -> None:
    envelope = decode(record(type=wire_type, catalogue=CATALOGUE + 1))
    assert (envelope.type, envelope.event, envelope.catalogue) == (wire_type, None, CATALOGUE + 1)


@pytest.mark.req("E-10")
def test_an_event_stays_below_its_limit() -> None:
    with pytest.raises(Refused, match="an event may take 64000"):
        encode(enveloped(ParametersSet(**At().place, given={"text": "x" * 64_000}, parameters={})))


@pytest.mark.req("E-12")
def test_values_are_nested_no_deeper_than_every_reader_can_follow() -> None:
    assert ParametersSet(**At().place, given=_nested(MAX_DEPTH), parameters={})
    with pytest.raises(ValueError, match="may be nested 32 deep"):
        ParametersSet(**At().place, given=_nested(MAX_DEPTH + 1), parameters={})


def _nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", range(250, 256))
def test_a_record_is_read_at_any_depth_at_which_it_can_be_written(depth: int) -> None:
    attributes = orjson.loads(record(type="com.example.other")) | {"data": _nested(depth)}
    value = json.dumps(attributes, sort_keys=True, separators=(",", ":")).encode()
    assert _readable(value) == _writable(attributes) == (depth < 254)


def _readable(value: bytes) -> bool:
    try:
        return decode(value).event is None
    except Undecodable:
        return False


def _writable(attributes: dict[str, Any]) -> bool:
    try:
        return bool(dumps(attributes))
    except TypeError:
        return False


# --- hostile bytes ---------------------------------------------------------------------------------

HOSTILE = {
    "a tombstone": (None, "tombstone"),
    "nothing": (b"", "not JSON"),
    "no JSON": (b"{", "not JSON"),
    "invalid UTF-8": (record().replace(b"Read", b"\xff\xfe\xfd\xfc"), "not JSON"),
    "half a surrogate": (record().replace(b"Read", b"\\ud800"), "not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf" + record(), "not JSON"),
    "a list": (b"[]", "must be a JSON object, not list"),
    "a text": (b'"poweron"', "must be a JSON object, not str"),
    "null": (b"null", "must be a JSON object, not NoneType"),
    "deep": (b"[" * 100_000, "not JSON"),
    "deep, but closed": (b'{"a":' * 600 + b"1" + b"}" * 600, "could have written"),
    "deep data": (record(data=None).replace(b'{"cat', b'{"a":' + b"[" * 300 + b"]" * 300 + b',"cat'), "could have written"),
    "spaces": (b" " + record(), "canonical form"),
    "other order": (json.dumps(json.loads(record()), separators=(",", ":"))[:-1].encode() + b',"a":1}', "canonical form"),
    "a key twice": (record().replace(b'{"catalogue":4', b'{"catalogue":3,"catalogue":1'), "canonical form"),
    "a huge number": (record().replace(b'"catalogue":4', b'"catalogue":' + b"9" * 400), "not JSON"),
    "a number that does not survive": (record().replace(b'"catalogue":4', b'"catalogue":' + b"9" * 30), "canonical form"),
    "another specversion": (record(specversion="0.3"), "specversion must be '1.0', not '0.3'"),
    "no id": (record(id=None), "'id' must be a text that is not empty"),
    "an id that is no UUID": (record(id="x"), "'id' must be a lower-case UUID"),
    "an id in capitals": (record(id="7D444840-9DC0-11D1-B245-5FFDCE74FAD2"), "'id' must be a lower-case UUID"),
    "no subject": (record(subject=None), "'subject' must be a text"),
    "a subject that is no UUID": (record(subject="w"), "'subject' must be a lower-case UUID"),
    "an empty source": (record(source=""), "'source' must be a text"),
    "no type": (record(type=None), "'type' must be a text"),
    "a type that is no text": (record(type=5), "'type' must be a text"),
    "no time": (record(time=None), "'time' must be a text"),
    "no catalogue": (record(catalogue=None), "'catalogue' must be a whole number"),
    "a broken catalogue": (record(catalogue=1.5), "'catalogue' must be a whole number"),
    "a true catalogue": (record(catalogue=True), "'catalogue' must be a whole number"),
    "no data": (record(data=None), "'data' must be a JSON object"),
    "data that is no object": (record(data=[1]), "'data' must be a JSON object"),
    "half a cause": (record(causationid=WORKFLOW), "'causationhash' must be a text"),
    "a cause without a name": (record(causationid=5, causationhash="x"), "'causationid' must be a text"),
    "a broken offset": (record(causationid=WORKFLOW, causationhash="x", causationoffset="-1"), "'causationoffset'"),
    "a huge offset": (record(causationid=WORKFLOW, causationhash="x", causationoffset="9" * 30), "'causationoffset'"),
    "an empty traceparent": (record(traceparent=""), "'traceparent' must be a text"),
    "a missing field": (data(action=None), "action is missing"),
    "a number as text": (data(step="1"), "step must be a whole number"),
    "a number with a point": (data(step=1.0), "step must be a whole number"),
    "step 0": (data(step=0), "step must be at least 1"),
    "a step that no database holds": (data(step=2**31), "step must be at most 2147483647"),
    "a step that is no integer any more": (data(step=1e20), "step"),
    "an action that is no name": (data(action="rm -rf /"), "action: String should match pattern"),
    "a Python name": (data(actionObjective=None, action_objective="x"), "actionObjective is missing"),
    "a megabyte of the wrong": (data(action="x" * 1_000_000), "action"),
    "thousands of fields": (record(data={str(number): None for number in range(5_000)}), "is missing"),
}  # fmt: skip


@pytest.mark.req("X-06")
def test_a_text_that_cannot_be_an_id_takes_no_memory() -> None:
    remembered = codec._is_uuid.cache_info().currsize
    assert not codec.is_uuid("7" * 1_000_000)
    assert codec._is_uuid.cache_info().currsize == remembered


@pytest.mark.req("E-14")
@pytest.mark.req("X-06")
@pytest.mark.parametrize(("value", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_records_are_undecodable_and_say_why(value: bytes | None, reason: str) -> None:
    with pytest.raises(Undecodable, match=reason) as raised:
        decode(value)
    assert len(str(raised.value)) < 2_500


@pytest.mark.req("E-02")
@pytest.mark.parametrize("partition", [number for number in range(12) if number != HOME])
def test_a_record_in_another_partition_than_its_keys_is_undecodable(partition: int) -> None:
    assert read(record(), key=WORKFLOW.encode(), partition=HOME, offset=0, time_ms=0).partition == HOME
    with pytest.raises(Undecodable, match=f"is in partition {partition}; .* belong in partition {HOME}"):
        read(record(), key=WORKFLOW.encode(), partition=partition, offset=0, time_ms=0)


@pytest.mark.req("E-02")
def test_a_record_under_another_key_is_undecodable() -> None:
    other = str(uuid.UUID(int=0)).encode()
    with pytest.raises(Undecodable, match="is not its workflow id"):
        read(record(), key=other, partition=0, offset=0, time_ms=0)
    with pytest.raises(Undecodable, match="the record has no key"):
        read(record(), key=None, partition=0, offset=0, time_ms=0)
    with pytest.raises(Undecodable, match="is not its workflow id"):
        read(record(), key=b"\xff" * 1_000_000, partition=0, offset=0, time_ms=0)
    with pytest.raises(Undecodable, match="is not its workflow id"):
        read(
            record(),
            key=other,
            partition=0,
            offset=0,
            time_ms=0,
            known=KnownRecord(decode(record()), codec.sha256(record())),
        )


@pytest.mark.req("X-06")
def test_a_large_record_that_is_right_is_read() -> None:
    envelope = decode(data(learnings=["x" * 1_000] * 900))
    assert isinstance(envelope.event, ActionSelected)


def decodes_or_says_why(value: bytes) -> None:
    try:
        envelope = decode(value)
    except Undecodable:
        return
    assert dumps(orjson.loads(value)) == value
    assert envelope.event is None or decode(encode(envelope)).event == envelope.event


@pytest.mark.req("E-14")
@given(st.one_of(st.binary(max_size=200), json_values.map(dumps), json_objects.map(dumps)))
def test_no_bytes_raise_anything_else(value: bytes) -> None:
    decodes_or_says_why(value)


VALUES = typical().values


@pytest.mark.req("E-14")
@settings(max_examples=200)
@given(st.sampled_from(VALUES), st.integers(0, 2_000), st.binary(max_size=4), st.integers(0, 5))
def test_no_damaged_record_raises_anything_else(value: bytes, place: int, instead: bytes, length: int) -> None:
    place %= len(value)
    decodes_or_says_why(value[:place] + instead + value[place + length :])


@pytest.mark.req("E-14")
@settings(max_examples=200)
@given(st.sampled_from(VALUES), st.data())
def test_no_foreign_value_in_any_field_raises_anything_else(value: bytes, generated: st.DataObject) -> None:
    attributes = orjson.loads(value)
    place = attributes if generated.draw(st.booleans()) else attributes["data"]
    while True:
        name = generated.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[name], dict) or not place[name] or generated.draw(st.booleans()):
            break
        place = place[name]
    place[name] = generated.draw(json_values)
    decodes_or_says_why(dumps(attributes))


@pytest.mark.req("E-12")
def test_the_audit_vectors_bodies_are_canonical() -> None:
    """The bodies of the ledger's golden vectors, of an older form of the data: they re-write to themselves."""
    for body in AUDIT_BODIES:
        assert dumps(orjson.loads(body)) == body


AUDIT_BODIES = (
    '{"correlationid":"7d444840-9dc0-11d1-b245-5ffdce74fad2","data":{"maxSteps":3,"prompt":"Résumé of the é page"},"datacontenttype":"application/json","id":"01900000-0000-5000-8000-000000000001","source":"/poweron/selector","specversion":"1.0","subject":"7d444840-9dc0-11d1-b245-5ffdce74fad2","time":"2026-11-21T00:00:01.000Z","type":"poweron.workflow.requested.v1"}'.encode(),
    b'{"causationhash":"ee53f58ebb398a79ec3b67b880a1efc39d9b2eea37f02626bab828456deee861","causationid":"01900000-0000-5000-8000-000000000001","correlationid":"7d444840-9dc0-11d1-b245-5ffdce74fad2","data":{"action":"web.search","step":1},"datacontenttype":"application/json","id":"01900000-0000-5000-8000-000000000002","source":"/poweron/selector","specversion":"1.0","subject":"7d444840-9dc0-11d1-b245-5ffdce74fad2","time":"2026-11-21T00:00:02.000Z","type":"poweron.action.selected.v1"}',
    b'{"causationhash":"3680ccea822efd2867bb49ec35fc973df9c5e5dd7be5710bfc86e6f0997d23b7","causationid":"01900000-0000-5000-8000-000000000002","correlationid":"7d444840-9dc0-11d1-b245-5ffdce74fad2","data":{"documents":[{"content":"81e22dcd1938905c992fd674c7fe5c0966c0586201675b9b1eaa4d114df5b94a","mimeType":"text/plain","size":33}],"step":1,"success":true},"datacontenttype":"application/json","id":"01900000-0000-5000-8000-000000000003","source":"/poweron/selector","specversion":"1.0","subject":"7d444840-9dc0-11d1-b245-5ffdce74fad2","time":"2026-11-21T00:00:03.000Z","type":"poweron.observation.recorded.v1"}',
)


def test_an_unread_envelope_is_not_written_again() -> None:
    told = Told().tell(requested(), planned())
    assert [decode(value).event for value in told.values] == [requested(), planned()]
