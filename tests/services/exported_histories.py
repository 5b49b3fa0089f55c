"""Histories of workflows that are exported to others: the recorded ones of each release, and those that a test tells."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from builders import Told, completed, planned, requested, reviewed, step
from poweron_events.client import Heard
from poweron_events.codec import read
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.topics import PARTITIONS, partition_of

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("v*/*.jsonl"))
RECORDED = pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
NOBODY = "00000000-0000-0000-0000-000000000007"
PROMPT = "What is the grand total?"


def folded(values: list[bytes]) -> list[Heard]:
    """The history of these records, with a second between each two."""
    first = orjson.loads(values[0])["subject"]
    workflow, history = Workflow(first), list[Heard]()
    home = partition_of(first.encode(), PARTITIONS)
    for offset, value in enumerate(values):
        record = read(value, key=first.encode(), partition=home, offset=offset, time_ms=offset * 1_000)
        workflow, verdict = evolve(workflow, record)
        history.append(Heard(record, verdict, workflow))
    return history


def recorded(path: Path) -> list[Heard]:
    return folded([orjson.loads(line)["value"].encode() for line in path.read_bytes().splitlines()[:-1]])


def told(*events: Any) -> list[Heard]:
    return folded([message.value for message in Told().tell(*events).messages])


def one_step() -> list[Heard]:
    return told(requested(prompt=PROMPT), planned(), *step(1), reviewed(), completed())
