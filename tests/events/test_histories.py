"""Every history that a release has recorded is read, judged and told by this one as it was then."""

import importlib.util
import re
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import orjson
import pytest
from recorded import recorded

from poweron_events.codec import decode, dumps, encode, read, sha256
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.topics import PARTITIONS, partition_of

HISTORIES = Path(__file__).parents[1] / "histories"
RELEASED = {  # a release comes in when it is made: until then its histories are recorded anew
    "v0.1.0": "98e79e45d5b2b7896a38cfe35768eb6450dbade000276a80d177674cdd671b70",
    "v0.2.0": "8749d73b56eba890a9a5363474c8be332eda08d91c2e3f8f43951de2559ba41a",
}
THIS = f"v{version('poweron-events')}"
RECORDED = pytest.mark.parametrize(
    "path", sorted(HISTORIES.glob("*/*.jsonl")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def values(path: Path) -> list[bytes]:
    return [orjson.loads(line)["value"].encode() for line in path.read_bytes().splitlines()[:-1]]


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", HISTORIES / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("E-13")
@RECORDED
def test_a_recorded_history_is_judged_and_told_as_it_was(path: Path, recorder: ModuleType) -> None:
    *told, expected = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    workflow = Workflow(decode(told[0]["value"].encode()).workflow_id)
    key = workflow.id.encode()
    home = partition_of(key, PARTITIONS)
    verdicts = []
    for offset, line in enumerate(told):
        record = read(line["value"].encode(), key=key, partition=home, offset=offset, time_ms=offset * 1_000)
        workflow, verdict = evolve(workflow, record)
        verdicts.append(verdict)
    assert verdicts == [line["verdict"] for line in told]
    assert recorder.standing(workflow) == expected


@pytest.mark.req("E-12")
@RECORDED
def test_a_recorded_history_re_writes_to_itself(path: Path) -> None:
    for value in values(path):
        assert dumps(orjson.loads(value)) == value
        if path.parent.name == THIS:
            assert encode(decode(value)) == value


@pytest.mark.req("E-13")
def test_this_release_has_its_histories() -> None:
    assert len(list((HISTORIES / THIS).glob("*.jsonl"))) >= 10


@pytest.mark.req("E-13")
@pytest.mark.parametrize(("release", "expected"), RELEASED.items(), ids=RELEASED)
def test_the_histories_of_a_release_are_what_was_released(release: str, expected: str) -> None:
    """The hash of every byte: who must change this line has changed history."""
    files = sorted((HISTORIES / release).glob("*.jsonl"))
    assert sha256(b"".join(path.read_bytes() for path in files)) == expected


@pytest.mark.req("E-13")
def test_the_histories_of_this_release_hold_what_its_roles_write_in_both_modes() -> None:
    """A failed action and a second attempt, refused answers, a further round, an approval granted and one denied."""
    runs = {path: [decode(value) for value in values(path)] for path in (HISTORIES / THIS).glob("run_*.jsonl")}
    assert len(runs) >= 6
    told = {type(envelope.event).__name__ for envelopes in runs.values() for envelope in envelopes}
    assert {"SelectionRejected", "ParametersRejected", "ApprovalGranted", "ApprovalDenied", "RoundRequested"} <= told
    assert {"ActionsPlanned", "RefinementDecided", "RoundCompleted", "RoundFailed"} <= told
    ours = re.compile(r"/poweron/(planner|selector|parameterizer|executor|observer|refiner|reviewer)/p0")
    by_us = [envelope for envelopes in runs.values() for envelope in envelopes if ours.fullmatch(envelope.source)]
    assert len(by_us) > 100


@pytest.mark.req("E-13")
def test_a_run_is_recorded_with_the_same_bytes_each_time() -> None:
    assert recorded("retry_after_a_failure").values == recorded("retry_after_a_failure").values


@pytest.mark.req("E-13")
def test_the_recorder_never_writes_a_history_again(recorder: ModuleType, tmp_path: Path) -> None:
    recorder.record(tmp_path / "v9")
    with pytest.raises(FileExistsError):
        recorder.record(tmp_path / "v9")
