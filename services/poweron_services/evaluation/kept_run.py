"""A run of an evaluation as it is kept beside its table: which workflow answered which line. Small, and no answer."""

import os
from pathlib import Path

from pydantic import ValidationError

from poweron_events.errors import Refused
from poweron_events.event import Model, Number


class KeptAnswer(Model):
    """One request of the run."""

    line: Number
    fingerprint: str
    model: str
    repetition: Number
    workflow_id: str | None = None
    """None where it was never sent."""
    trouble: str | None = None
    """Why there is no answer, as a sentence; None where there is one."""
    code: str | None = None


class KeptRun(Model):
    """A run: what was asked of whom, and where the answers are."""

    run_id: str
    table: str
    began: str
    worker: str
    """How the instances of the process that asked begin: what others decided is not this run's."""
    models: tuple[str, ...]
    answers: tuple[KeptAnswer, ...] = ()


def place_of(table: Path, run_id: str) -> Path:
    """Where a run is kept: beside its table."""
    return table.with_name(f"{table.stem}.run-{run_id}.json")


def keep(table: Path, run: KeptRun) -> Path:
    """Write the run, whole or not at all."""
    place = place_of(table, run.run_id)
    beside = place.with_name(f".{place.name}.new")
    beside.write_text(run.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, place)  # noqa: PTH105 - atomic, as its name says in any language
    return place


def read_run(table: Path, named: str) -> KeptRun:
    """The run of this id, or in this file.

    Raises:
        Refused: there is none, it is something else, or it ended before its first answer.
    """
    place = Path(named) if os.sep in named or Path(named).is_file() else place_of(table, named)
    if not place.is_file():
        raise Refused(
            f"There is no run {named!r}. Name the file of a run, or the id that stands in its name: "
            f"{place_of(table, 'ID').name!r} beside the table."
        )
    try:
        run = KeptRun.model_validate_json(place.read_bytes())
    except (ValidationError, OSError) as error:
        raise Refused(f"{str(place)!r} is not the file of a run that `poweron evaluate` has written.") from error
    if not run.answers:
        raise Refused(
            f"Run {run.run_id} was stopped before its first answer, so there is nothing to judge: leave out --recorded "
            "to ask again."
        )
    return run
