"""A bundle of a period proves which workflows the period has, and that a sample of them was drawn by lot."""

import ast
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import resources
from itertools import pairwise
from typing import Any

import orjson
import pytest
from forger import Files, with_manifest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import KEYS, NOW_MS, enter_all, write
from tables import wipe

from builders import Told, planned, refused, requested, two_policies, typical
from poweron_events.codec import dumps
from poweron_events.log.memory import MemoryLog
from poweron_projections import audit
from poweron_projections.audit.bundle import NotSigned, bundle_of
from poweron_projections.audit.ledger_clock import LedgerClock
from poweron_projections.audit.notes import SignedNote
from poweron_projections.audit.period_proof import Period, entered_period, period_files
from poweron_projections.audit.verifier.bundle_claims import AskedPeriod, Trust
from poweron_projections.audit.verifier.period_claims import CollectionVerification
from poweron_projections.audit.verifier.period_rules import (
    PeriodEntry,
    entries_within,
    foreign_line,
    sample_of,
    wrong_bounds,
)
from poweron_projections.audit.verify_script import MODULES
from poweron_projections.connection import Pool, snapshot

VKEY = KEYS[0].public
HOUR = 3_600_000
SEED = "dice: 4 2 6"
PERIOD = Period(since_ms=NOW_MS - 3 * HOUR, until_ms=NOW_MS - HOUR, sample=3, seed=SEED)
ASKED = AskedPeriod(*PERIOD)
OF_THE_PERIOD = sorted([*(typical(str(number)).id for number in range(7)), Told("open").id])


@pytest.fixture
async def ledger(log: MemoryLog, pool: Pool) -> None:
    """A ledger that was signed four times; the second and the third time are in the period."""
    begun = Told("open").tell(requested("open"))
    write(log, typical("before"), begun, Told("never opened").tell(refused()), time_ms=NOW_MS - 5 * HOUR)
    await enter_all(log, pool, now_ms=NOW_MS - 4 * HOUR)
    work = [typical(str(number)) for number in range(4)]
    write(log, *work, two_policies(), Told("refused").tell(refused()), time_ms=NOW_MS - 3 * HOUR)
    await enter_all(log, pool, now_ms=NOW_MS - 2 * HOUR)
    told = len(begun.values)
    begun.tell(planned())
    for value in begun.values[told:]:
        log.write("poweron.events", begun.id.encode(), value, time_ms=NOW_MS - 2 * HOUR)
    write(log, *(typical(str(number)) for number in range(4, 7)), time_ms=NOW_MS - 2 * HOUR)
    await enter_all(log, pool, now_ms=NOW_MS - HOUR)
    write(log, typical("after"), time_ms=NOW_MS - HOUR)
    await enter_all(log, pool)


async def collected(pool: Pool, period: Period) -> Files:
    """The bundle of a period, as the command writes it."""
    async with snapshot(pool) as connection:
        entered = await entered_period(connection, period)
        files = await period_files(connection, entered)
    for workflow_id in entered.chosen:
        bundle = await bundle_of(pool, None, workflow_id, [str(VKEY)], with_script=False)
        files |= {f"workflows/{workflow_id}/{name}": data for name, data in bundle.items()}
    return with_manifest(files)


def failed(files: Mapping[str, bytes], **trust: Any) -> set[str]:
    """The claims that do not hold, of the period or of any workflow."""
    verification = CollectionVerification(files, Trust(VKEY, **{"allow_withheld": True, "period": ASKED, **trust}))
    verification.run()
    claims = [*verification.claims, *(claim for each in verification.workflows.values() for claim in each.claims)]
    found = {claim.id for claim in claims if claim.status == "fail"}
    assert verification.is_ok == (not found)
    return found


async def test_a_bundle_of_a_period_lists_its_workflows_and_has_those_of_the_sample(ledger: None, pool: Pool) -> None:
    files = await collected(pool, PERIOD)
    listed = [orjson.loads(line) for line in files["period/workflows.jsonl"].splitlines()]
    assert [each["wf"] for each in listed] == OF_THE_PERIOD
    assert {each["wf"]: each["first"] for each in listed}[Told("open").id] == 1
    sampled = [each["wf"] for each in listed if each["sampled"]]
    assert len(sampled) == 3
    assert {name.split("/")[1] for name in files if name.startswith("workflows/")} == {*sampled}
    assert failed(files) == set()
    assert failed(files, period=None) == set()
    for change, claim in (
        ({"seed": "another"}, "V16"),
        ({"sample": 4}, "V16"),
        ({"since_ms": NOW_MS - 4 * HOUR}, "V15"),
        ({"until_ms": NOW_MS}, "V15"),
    ):
        assert failed(files, period=ASKED._replace(**change)) == {claim}
    without = {name: data for name, data in files.items() if not name.startswith("period/")}
    assert failed(with_manifest(without)) == {"V15"}
    assert failed(await collected(pool, PERIOD._replace(seed="one that spares a workflow"))) == {"V16"}
    for since_ms, until_ms in ((None, NOW_MS + 1), (NOW_MS + 1, None)):
        with pytest.raises(NotSigned):
            await collected(pool, Period(since_ms, until_ms))


async def test_periods_that_follow_each_other_leave_no_workflow_out(ledger: None, pool: Pool) -> None:
    cuts = [None, *(NOW_MS - hours * HOUR for hours in (4, 3, 2, 1)), None]
    found = Counter[str]()
    for since_ms, until_ms in pairwise(cuts):
        files = await collected(pool, Period(since_ms, until_ms))
        assert failed(files, period=None) == set()
        found.update(orjson.loads(line)["wf"] for line in files["period/workflows.jsonl"].splitlines())
    assert {*found} == {typical("before").id, *OF_THE_PERIOD, typical("after").id}


TIMES = st.integers(0, 9)


@given(st.lists(st.tuples(st.booleans(), TIMES, TIMES), max_size=25), st.lists(TIMES, unique=True, max_size=3))
def test_each_record_belongs_to_exactly_one_of_the_periods_that_follow_each_other(
    parts: list[tuple[bool, int, int]], cuts: list[int]
) -> None:
    """Heads are signed at any time, even by a clock that is set back, and may be behind; records have any time."""
    ledger, as_of = [PeriodEntry(b"", {"kind": "epoch"})], 0
    for are_heads, time, behind in [*parts, (True, 20, 0)]:
        as_of = max(as_of, time - behind) if are_heads else as_of
        values = {"size": len(ledger), "asOf": as_of} if are_heads else {}
        ledger.append(PeriodEntry(b"", {"kind": "heads" if are_heads else "event", "time": time, **values}))
    belong = Counter[int]()
    for since_ms, until_ms in pairwise([None, *sorted(cuts), None]):
        places = [
            (begin, end)
            for begin in range(len(ledger))
            for end in range(begin + 1, len(ledger) + 1)
            if not wrong_bounds(
                [each.values for each in ledger[begin:end]], since_ms=since_ms, until_ms=until_ms, begin=begin
            )
        ]
        begin, end = max(places, key=lambda bounds: (-bounds[0], bounds[1]))  # as `period_bounds` finds them
        within = entries_within(ledger[begin:end], since_ms=since_ms, until_ms=until_ms, begin=begin)
        belong.update(map(id, within))
    assert belong == {id(each): 1 for each in ledger if each.values["kind"] == "event"}


def _without(name: str, what: bytes) -> Callable[[Files], Files]:
    """Leave out the lines of a file that have this in them."""

    def forge(files: Files) -> Files:
        kept = [line for line in files[name].splitlines(keepends=True) if what not in line]
        assert len(kept) < files[name].count(b"\n")
        return {**files, name: b"".join(kept)}

    return forge


def _period(**fields: Any) -> Callable[[Files], Files]:
    return lambda files: {
        **files,
        "period/period.json": dumps({**orjson.loads(files["period/period.json"]), **fields}),
    }


def _first_workflow_left_out(files: Files) -> Files:
    first = min(name for name in files if name.startswith("workflows/")).split("/")[1]
    return {name: data for name, data in files.items() if first not in name}


def _others_sampled(files: Files) -> Files:
    lines = [orjson.loads(line) for line in files["period/workflows.jsonl"].splitlines()]
    return {
        **files,
        "period/workflows.jsonl": b"".join(dumps({**line, "sampled": not line["sampled"]}) + b"\n" for line in lines),
    }


LEFT_OUT = OF_THE_PERIOD[0].encode()
FORGERIES = {
    "a workflow is not listed": _without("period/workflows.jsonl", LEFT_OUT),
    "its entries are gone": _without("period/entries.jsonl", LEFT_OUT),
    "both": lambda files: _without("period/workflows.jsonl", LEFT_OUT)(
        _without("period/entries.jsonl", LEFT_OUT)(files)
    ),
    "the period ends earlier": _period(until=NOW_MS - 5 * HOUR // 2),
    "the period ends later": _period(until=NOW_MS),
    "the period begins later": _period(since=NOW_MS - 3 * HOUR // 2),
    "the period begins earlier": _period(since=NOW_MS - 5 * HOUR),
    "the entries begin later": _period(begin=3),
    "the sample is larger": _period(sample=4),
    "another seed": _period(seed="another"),
    "others are sampled": _others_sampled,
    "a sampled workflow is missing": _first_workflow_left_out,
}


async def test_each_forgery_of_a_period_is_caught(ledger: None, pool: Pool) -> None:
    files = await collected(pool, PERIOD)
    for name, forge in FORGERIES.items():
        assert failed(with_manifest(forge(files))) & {"V15", "V16"}, name


async def test_a_workflow_of_another_ledger_is_not_that_of_the_period(ledger: None, log: MemoryLog, pool: Pool) -> None:
    files = await collected(pool, PERIOD)
    sampled = next(number for number in map(str, range(7)) if f"workflows/{typical(number).id}/events.jsonl" in files)
    await wipe(pool)
    other = MemoryLog()
    write(other, typical(sampled, steps=1))
    await enter_all(other, pool)
    bundle = await bundle_of(pool, None, typical(sampled).id, [str(VKEY)], with_script=False)
    folder = f"workflows/{typical(sampled).id}"
    others = {name: data for name, data in files.items() if not name.startswith(folder)}
    forged = {**others, **{f"{folder}/{name}": data for name, data in bundle.items()}}
    assert failed(with_manifest(forged)) == {"V15"}


async def test_a_workflow_deleted_from_everything_is_found_by_an_older_checkpoint(ledger: None, pool: Pool) -> None:
    kept = SignedNote.parse((await collected(pool, PERIOD))["period/checkpoint"].decode())
    await wipe(pool)
    other = MemoryLog()
    write(other, typical("before"), time_ms=NOW_MS - 5 * HOUR)
    await enter_all(other, pool, now_ms=NOW_MS - 4 * HOUR)
    write(other, *(typical(str(number)) for number in range(1, 7)), time_ms=NOW_MS - 2 * HOUR)
    for now_ms in (NOW_MS - HOUR, NOW_MS):
        await enter_all(other, pool, now_ms=now_ms)
    files = await collected(pool, PERIOD)
    assert failed(files) == set()
    assert failed(files, checkpoints=[kept]) == {"V9"}


def test_a_sample_depends_on_the_root_and_on_the_seed_and_is_as_large_as_asked() -> None:
    draws = {
        tuple(sample_of(OF_THE_PERIOD, root=root, seed=seed, size=3))
        for root in (bytes(32), bytes(31) + b"1")
        for seed in ("a", "b", "c", "d")
    }
    assert len(draws) > 4
    assert sample_of(OF_THE_PERIOD, root=bytes(32), seed="", size=100) == OF_THE_PERIOD


def test_no_two_modules_of_the_script_define_the_same_name() -> None:
    defined = Counter[str]()
    for module in MODULES:
        source = resources.files(audit).joinpath(f"{module}.py").read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            defined.update(
                {name for each in targets if (name := getattr(each, "name", None) or getattr(each, "id", None))}
            )
    assert {name for name, count in defined.items() if count > 1} == set()
    assert defined["leaf_hash"] == 1


async def test_a_period_does_not_end_before_the_ledger_has_entered_all_of_it(log: MemoryLog, pool: Pool) -> None:
    write(log, typical("entered"), time_ms=NOW_MS - 4 * HOUR)
    ledger = await enter_all(log, pool, sign=False)
    write(log, typical("waits"), time_ms=NOW_MS - 3 * HOUR)
    write(log, typical("of the next"), time_ms=NOW_MS - 2 * HOUR)
    await ledger.sign(NOW_MS - HOUR)
    await enter_all(log, pool)
    for since_ms, until_ms, names in (
        (1, NOW_MS - 5 * HOUR, []),
        (NOW_MS - 5 * HOUR, NOW_MS - 2 * HOUR, ["entered", "waits"]),
        (NOW_MS - 2 * HOUR, NOW_MS, ["of the next"]),
    ):
        files = await collected(pool, Period(since_ms, until_ms))
        listed = {orjson.loads(line)["wf"] for line in files["period/workflows.jsonl"].splitlines()}
        assert listed == {typical(name).id for name in names}
        assert failed(files, period=None) == set()


def test_a_ledger_is_complete_as_of_when_it_had_passed_the_ends_of_the_log() -> None:
    clock = LedgerClock(5)
    assert clock.as_of_ms({0: 3}, {0: 4, 1: 2}, 10) == 5
    assert clock.as_of_ms({0: 4, 1: 1}, {0: 9, 1: 2}, 20) == 5
    assert clock.as_of_ms({0: 4, 1: 2}, {0: 9, 1: 2}, 30) == 10
    assert clock.as_of_ms({0: 9, 1: 2}, {0: 9, 1: 2}, 40) == 40
    assert clock.as_of_ms({0: 9, 1: 2}, {0: 9, 1: 2}, 15) == 40


async def test_what_no_ledger_wrote_is_in_the_period_and_hides_nothing(
    ledger: None, log: MemoryLog, pool: Pool
) -> None:
    for junk in (b"\xff\n{", b'{"kind":"heads","open":0,"root":"","size":1,"time":1,"v":1}'):
        log.write("poweron.ledger", b"ledger", junk)
    write(log, typical("later"), time_ms=NOW_MS)
    await enter_all(log, pool, now_ms=NOW_MS + HOUR)
    files = await collected(pool, Period(since_ms=NOW_MS - HOUR, until_ms=NOW_MS + HOUR))
    assert failed(files, period=None) == set()
    entries = files["period/entries.jsonl"].splitlines()
    place = next(number for number, line in enumerate(entries) if typical("later").id.encode() in line)
    entries[place] = foreign_line(entries[place])
    hidden = _without("period/workflows.jsonl", typical("later").id.encode())(files)
    assert failed(with_manifest({**files, "period/entries.jsonl": b"\n".join([*entries, b""])}), period=None) == set()
    forged = {**hidden, "period/entries.jsonl": b"\n".join([*entries, b""])}
    assert failed(with_manifest(forged), period=None) == {"V15"}
