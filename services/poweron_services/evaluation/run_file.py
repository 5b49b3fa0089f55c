"""A run of an evaluation, stored next to its table: which workflow answered which line, without the answers."""

import os
from pathlib import Path

from pydantic import ValidationError

from poweron_events.errors import Refused
from poweron_events.event import Model, Number


class KeptAnswer(Model):
    """One request of a run."""

    line: Number
    fingerprint: str
    model: str
    repetition: Number
    workflow_id: str | None = None
    """None if the request was never sent."""
    trouble: str | None = None
    """Why there is no answer, as a sentence; None if there is one."""
    code: str | None = None


class KeptRun(Model):
    """A run: the models, the requests and the workflows that answered them."""

    run_id: str
    table: str
    began: str
    worker: str
    """The prefix of the asking process's instances; decisions of other processes are not part of this run."""
    models: tuple[str, ...]
    answers: tuple[KeptAnswer, ...] = ()


def place_of(table: Path, run_id: str) -> Path:
    """Return the path of a run's file, next to its table."""
    return table.with_name(f"{table.stem}.run-{run_id}.json")


def keep(table: Path, run: KeptRun) -> Path:
    """Write the run's file atomically and return its path."""
    place = place_of(table, run.run_id)
    beside = place.with_name(f".{place.name}.new")
    beside.write_text(run.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, place)  # noqa: PTH105 - atomic, as its name says in any language
    return place


def read_run(table: Path, name: str) -> KeptRun:
    """Read the run with this id, or from this file.

    Raises:
        Refused: there is no such run, the file is something else, or the run ended before its first answer.
    """
    place = Path(name) if os.sep in name or Path(name).is_file() else place_of(table, name)
    if not place.is_file():
        raise Refused(
            f"There is no run {name!r}. Name the file of a run, or the id in its name: "
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
