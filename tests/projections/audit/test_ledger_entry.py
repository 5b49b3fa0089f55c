"""The entries of the ledger, byte for byte as in the golden vectors."""

from hashlib import sha256

import orjson
import pytest
from audit_vectors import VECTORS
from hypothesis import given
from hypothesis import strategies as st

from poweron_events.log import Record
from poweron_projections.audit.ledger_entry import (
    MAX_TYPE,
    Head,
    NamedRecord,
    event_entry,
    head_line,
    heads_entry,
    heads_root,
    reject_entry,
)
from poweron_projections.audit.merkle_tree import EMPTY_ROOT

ENTRIES = [orjson.loads(line["entry"]) for line in VECTORS["log"]]
HEADS = [Head(line["wf"], line["seq"], line["head"]) for line in map(orjson.loads, VECTORS["heads"]["lines"])]


def record(value: bytes | None, entry: dict[str, object] = ENTRIES[0]) -> Record:
    place = {"topic": entry["topic"], "partition": entry["part"], "offset": entry["off"], "time_ms": entry["time"]}
    return Record(key=b"", value=value, headers={}, **place)  # type: ignore[arg-type] # of the vectors


@pytest.mark.parametrize("number", [number for number, entry in enumerate(ENTRIES) if entry["kind"] == "event"])
def test_a_record_has_the_entry_of_the_golden_vectors(number: int) -> None:
    entry, line = ENTRIES[number], VECTORS["log"][number]["entry"].encode()
    bodies = {sha256(body["bytes"].encode()).hexdigest(): body["bytes"].encode() for body in VECTORS["bodies"]}
    value = bodies.get(entry["body"], b"{}")
    named = NamedRecord(entry["wf"], entry["event"], entry["type"])
    made = event_entry(record(value, entry), named, verdict=entry["verdict"], seq=entry["seq"], previous=entry["prev"])
    assert made == line


def test_the_heads_are_those_of_the_golden_vectors() -> None:
    assert [head_line(head).decode() for head in HEADS] == VECTORS["heads"]["lines"]
    assert heads_root(reversed(HEADS)).hex() == VECTORS["heads"]["root"]
    made = heads_entry(HEADS, open_count=2, size=4, time_ms=ENTRIES[-1]["time"])
    assert made == VECTORS["log"][-1]["entry"].encode()
    assert heads_root([]) == EMPTY_ROOT


@given(st.one_of(st.none(), st.binary(max_size=40)), st.text(max_size=300))
def test_an_entry_quotes_nothing_of_its_record(value: bytes | None, type_: str) -> None:
    rejected = orjson.loads(reject_entry(record(value), "undecodable"))
    assert (rejected["kind"], rejected["reason"], rejected["len"]) == ("reject", "undecodable", len(value or b""))
    assert rejected["body"] == sha256(value or b"").hexdigest()
    named = NamedRecord("w", "e", type_)
    entry = orjson.loads(event_entry(record(value), named, verdict="unknown", seq=3, previous="ab"))
    assert sorted(entry) == sorted(ENTRIES[0])
    assert (entry["type"], entry["prev"], entry["seq"]) == (type_[:MAX_TYPE], "ab", 3)
