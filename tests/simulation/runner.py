"""Runs worlds, many at a time, in processes of their own whose hashes do not depend on chance either."""

import gc
import logging
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.pool import Pool
from typing import Any
from unittest.mock import patch

import structlog
from simulation.authority import DAY_MS
from simulation.planted import BUGS
from simulation.processes import MOST_SKEW_MS
from simulation.world import Outcome, World

from poweron_events import retry
from poweron_events.fold import day_use
from poweron_projections import projector
from poweron_services.decider import quotas, rules
from poweron_services.roles import claims
from poweron_services.runtime import partitions, worker

HURRY: Mapping[Any, Mapping[str, float]] = {
    partitions: {"TIDY_PERIOD": 0.3},
    retry: {"LONGEST_PAUSE": 0.4},
    projector: {"IDLE": 0.3},
    claims: {"GRACE_MS": 600},
    rules: {"QUESTION_EXPIRES_MS": 900},
    day_use: {"DAY_MS": DAY_MS, "CLOCK_DIFFERENCE_MS": MOST_SKEW_MS + 100},
    quotas: {"DAY_MS": DAY_MS},
    worker: {"DRAIN_TIMEOUT": 0.3},
}
"""Waits that are shortened, so that in the little time of a world many of them end."""

FORESEEN = ("action_error",)
ALARMS = ("event_without_effect", "workflow_stuck")
CHUNK = 5
COLLECTED = 8  # worlds


def outcomes(seeds: Iterable[int], *, bug: str | None = None, traced: bool = False) -> Iterator[Outcome]:
    """The outcome of each seed, in order; `bug` is planted first."""
    with spawned(_prepare, bug, traced) as pool:
        yield from pool.imap(_outcome, seeds, chunksize=CHUNK)


@contextmanager
def spawned(prepare: Callable[..., None], *given: Any) -> Iterator[Pool]:
    """Processes whose hashes do not depend on chance; each is prepared first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # what all worlds are made of is read once for all calls
    with (
        patch.dict(os.environ, PYTHONHASHSEED="0", PYTHONPATH=os.pathsep.join(sys.path)),
        context.Pool(_processes(), initializer=prepare, initargs=given) as pool,
    ):
        yield pool


def _processes() -> int:
    """One for each processor, less those that other tests use meanwhile."""
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) - 1
    return max(1, (os.cpu_count() or 1) - beside)


def table(struck: Counter[str]) -> str:
    """How often each fault struck, the most frequent first."""
    return "\n".join(f"{count:10,}  {fault}" for fault, count in struck.most_common())


_world: World | None = None
_traced = False


def _prepare(bug: str | None, traced: bool) -> None:
    global _traced  # noqa: PLW0603
    _traced = traced
    assert sys.flags.hash_randomization == 0
    gc.disable()
    logging.disable()
    structlog.configure(processors=[_overhear], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for module, constants in HURRY.items():
        for name, value in constants.items():
            assert hasattr(module, name), name
            setattr(module, name, value)
    if bug is not None:
        BUGS[bug]()
    gc.collect()
    gc.freeze()


def _overhear(_: Any, level: str, event: dict[str, Any]) -> Any:
    """What the roles say aloud is a finding, too."""
    said = event["event"]
    if _world is not None and said not in FORESEEN:
        error = sys.exc_info()[1] if event.get("exc_info") is True else event.get("exc_info")
        _world.flag("FALSE_ALARM" if said in ALARMS else "UNEXPECTED", said, repr(error), event.get("workflow_id"))
    raise structlog.DropEvent


def _outcome(seed: int) -> Outcome:
    global _world  # noqa: PLW0603 - one world at a time, and the loggers do not know which
    _world = World(seed)
    try:
        outcome = _world.run()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        _world = None
        if seed % COLLECTED == 0:
            gc.collect()
    return outcome if outcome.flags or _traced else replace(outcome, trace=())
