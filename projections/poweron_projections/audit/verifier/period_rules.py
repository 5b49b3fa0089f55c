"""What a period of the ledger is, which workflows are of it, and which of them a sample has.

The entries of a period lie between two entries of heads: the last one before the first that was written at or after
its beginning, and the first one that is complete until its end: all records from before were entered. If the ledger was
behind, those of neighbouring periods overlap, and the time of a record decides to which of them it belongs. So periods
that follow each other leave nothing out and count nothing twice, even if the clock is set back.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from poweron_projections.audit.merkle_tree import GrowingTree, edge, leaf_hash
from poweron_projections.audit.verifier.strict_json import InvalidJson, encoded, parsed

BESIDE_WORK: Final = frozenset(
    f"poweron.{name}.v1"
    for name in (
        "request.refused",
        "policy.applied",
        "instance.started",
        "instance.ended",
        "workflow.exported",
    )
)
"""The types of events that do not make a workflow one of the period: they are no work, and nothing was done with it."""


class PeriodEntry(NamedTuple):
    """An entry of a period: its bytes in the ledger, and what they say."""

    line: bytes
    values: Mapping[str, Any]


def foreign_line(entry: bytes) -> bytes:
    """Return the line for an entry that no ledger wrote: its bytes may be anything, so they are in hexadecimal."""
    return encoded({"foreign": entry.hex()})


def entered(line: bytes) -> PeriodEntry:
    """Read the line of an entry; a foreign one counts as what its bytes say, so that nothing is hidden as foreign.

    Raises:
        InvalidJson: it is neither.
    """
    values = parsed(line)
    if set(values) != {"foreign"}:
        return PeriodEntry(line, values)
    entry = bytes.fromhex(values["foreign"])
    with suppress(InvalidJson, TypeError):
        inner = parsed(entry)
        if isinstance(inner, dict) and inner.get("kind") in ("event", "heads"):
            return PeriodEntry(entry, inner)
    return PeriodEntry(entry, {"kind": "foreign"})


class PeriodWorkflow(NamedTuple):
    """A workflow of a period: the numbers of its first and its last entry there, and the leaf of the last one."""

    workflow_id: str
    first: int
    last: int
    leaf: str


def entries_within(
    entries: Sequence[PeriodEntry], *, since_ms: int | None, until_ms: int | None, begin: int
) -> Iterator[PeriodEntry]:
    """Yield the entries of records that belong to the period, and not to the one before or after it.

    Args:
        entries: all entries between the bounds of the period.
        since_ms: the beginning of the period; None for that of the ledger.
        until_ms: its end; None for the last heads that were signed.
        begin: the number of entries before these.
    """
    heads = [(place, each.values) for place, each in enumerate(entries, begin) if _are_heads(each.values, place)]
    before_ends = begin - 1
    if since_ms is not None:
        before_ends = next((place for place, each in heads if complete_until(each) >= since_ms), before_ends)
    next_begins = begin + len(entries)
    if until_ms is not None:
        first = next((number for number, (_, each) in enumerate(heads) if each["time"] >= until_ms), len(heads))
        next_begins = heads[first - 1][0] if first else begin
    for place, each in enumerate(entries, begin):
        time = each.values.get("time")
        if each.values["kind"] != "event":
            continue
        if since_ms is not None and place <= before_ends and isinstance(time, int) and time < since_ms:
            continue
        if until_ms is not None and place >= next_begins and isinstance(time, int) and time >= until_ms:
            continue
        yield each


def _are_heads(entry: Mapping[str, Any], place: int) -> bool:
    """Return whether an entry has heads; those of a second ledger have the size that it knew."""
    return bool(entry["kind"] == "heads" and entry["size"] == place)


def listed_workflows(entries: Iterable[PeriodEntry]) -> list[PeriodWorkflow]:
    """Return the workflows of these entries of records, in the order of their ids."""
    found, counted = dict[str, PeriodWorkflow](), set[str]()
    for line, entry in entries:
        workflow_id, seq = entry["wf"], entry["seq"]
        before = found.get(workflow_id)
        if before is None or seq > before.last:  # a second ledger may have repeated an entry
            first = seq if before is None else before.first
            found[workflow_id] = PeriodWorkflow(workflow_id, first, seq, leaf_hash(line).hex())
        if entry["verdict"] == "accepted" and entry["type"] not in BESIDE_WORK:
            counted.add(workflow_id)
    return [found[workflow_id] for workflow_id in sorted(counted)]


def sample_of(workflow_ids: Iterable[str], *, root: bytes, seed: str, size: int) -> list[str]:
    """Return the workflows that a sample has, in the order of their ids.

    Each workflow gets the number SHA-256(root || seed || id), with newlines between; those with the smallest are in the
    sample. The root is that of the ledger at the end of the period: the operator cannot change it once the auditor has
    chosen the seed, and the auditor cannot foresee it.
    """

    def number(workflow_id: str) -> bytes:
        return hashlib.sha256(b"\n".join((root.hex().encode(), seed.encode(), workflow_id.encode()))).digest()

    return sorted(sorted(workflow_ids, key=number)[:size])


def list_lines(workflows: Iterable[PeriodWorkflow], sampled: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the list of a period's workflows as values for JSON."""
    chosen = frozenset(sampled)
    for each in workflows:
        yield {
            "first": each.first,
            "last": each.last,
            "sampled": each.workflow_id in chosen,
            "wf": each.workflow_id,
        }


def grown_tree(begin: int, hashes: Sequence[bytes], lines: Iterable[bytes]) -> GrowingTree:
    """Return the tree of the ledger with these entries, which follow on `begin` others, whose edge the hashes are.

    Raises:
        ValueError: these are not as many hashes as the edge has.
    """
    if len(hashes) != begin.bit_count():
        raise ValueError(f"the edge of {begin} entries has other hashes")
    known = dict(zip(edge(begin), hashes, strict=True))
    tree = GrowingTree(begin, lambda level, place: known[level, place])
    for line in lines:
        tree.append(leaf_hash(line))
    return tree


def complete_until(heads: Mapping[str, Any]) -> int:
    """Return the time, in ms since 1970, up to which all records of the log were entered before an entry of heads."""
    told: int = heads.get("asOf", heads["time"])
    return told


def wrong_bounds(
    entries: Sequence[Mapping[str, Any]], *, since_ms: int | None, until_ms: int | None, begin: int
) -> str:
    """Return what is wrong with the ends of a period; nothing if they are as defined.

    Args:
        entries: all entries of the period.
        since_ms: the beginning of the period; None for that of the ledger.
        until_ms: its end; None for the last heads that were signed.
        begin: the number of entries before those of the period.
    """
    heads = [entry for place, entry in enumerate(entries, begin) if _are_heads(entry, place)]
    if not heads or entries[-1] is not heads[-1]:
        return "it does not end with heads"
    if since_ms is None or begin == 0:
        later = heads
        if begin:
            return "it does not begin with the ledger"
    else:
        later = heads[1:]
        if entries[0] is not heads[0] or heads[0]["time"] >= since_ms:
            return "it does not begin with heads before its beginning"
    if since_ms is not None and (not later or later[0]["time"] < since_ms):
        return "it begins earlier than it must"
    if until_ms is not None and [complete_until(each) >= until_ms for each in later] != [False] * (len(later) - 1) + [
        True
    ]:
        return "it does not end with the first heads that are complete until its end"
    return ""
