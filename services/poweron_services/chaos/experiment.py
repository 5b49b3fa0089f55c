"""Running: servers, crew, load and faults for some minutes; then rest, evidence and verdict."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from poweron_events import topics
from poweron_events.errors import Unavailable
from poweron_projections import bootstrap
from poweron_services import telemetry
from poweron_services.chaos.collection import gather
from poweron_services.chaos.environment import Scene, new_home, remove, scene
from poweron_services.chaos.evidence import Asked, Evidence, wanted
from poweron_services.chaos.fault_injection import Striker
from poweron_services.chaos.faults import plan
from poweron_services.chaos.load import Load, stopped
from poweron_services.chaos.recovery import Strike, Watch
from poweron_services.chaos.role_processes import CREW, HALVES, thaw
from poweron_services.chaos.status import Camera, Picture, Stage
from poweron_services.chaos.verdict import Violation, judge

START_DEADLINE: Final = 120.0  # seconds until the first errand must be done
REST_DEADLINE: Final = 180.0  # seconds from the last fault until nothing is open any more
LOG: Final = "chaos.log"
LOOK: Final = 0.5  # seconds between two looks


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last picture, and the verdict."""

    picture: Picture
    strikes: Sequence[Strike]
    evidence: Evidence
    violations: Sequence[Violation]
    interrupted: bool
    posted: int
    """How many records the requests came in."""
    starts: int
    """How many role processes were started."""
    home: Path | None
    """Where everything can be looked at again; None if it was removed."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is told what while it runs."""

    shown: Callable[[Picture], None]
    """A picture, twice a second."""
    progress: Callable[[str], None]
    """In sentences, what is going on."""


async def run(
    *, seconds: float, seed: int, user_home: Path, keep: bool, stopping: asyncio.Event, audience: Audience
) -> Outcome:
    """Let faults strike for so long, then judge. `stopping` ends it early, with a verdict so far.

    Raises:
        Unavailable: the servers or the crew do not start.
        Refused: something must be mended first; the message says what.
    """
    home = await new_home(user_home, audience.progress)
    telemetry.configure("warning", telemetry.LogFile(home / LOG))  # not into the user's own
    kept = keep
    try:
        async with scene(home, audience.progress) as set_:
            outcome = await Course(set_, seconds, seed, stopping, audience, keep=keep).run()
    except Exception:
        kept = True
        audience.progress(f"What has been seen so far is kept in {str(home)!r}.")
        raise
    else:
        kept = outcome.home is not None
        return outcome
    finally:
        if not kept:
            await asyncio.to_thread(remove, home)


@dataclass(slots=True)
class Course:
    """One run, from the first start to the verdict."""

    scene: Scene
    seconds: float
    seed: int
    stopping: asyncio.Event
    audience: Audience
    keep: bool = False
    _watch: Watch = field(default_factory=Watch)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _stage: Stage = "starting"
    _late: list[str] = field(default_factory=list)
    _load: Load = field(init=False)
    _striker: Striker = field(init=False)
    _camera: Camera = field(init=False)

    def __post_init__(self) -> None:
        scene_ = self.scene
        self._load = Load(scene_.connections.log, self.seed, self._over)
        self._striker = Striker(scene_.connections, scene_.kafka, scene_.postgres, scene_.crew, self._watch, self._over)
        self._camera = Camera(self._watch, self.seconds)

    async def run(self) -> Outcome:
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(self._watch.run(self.scene.connections.log)), group.create_task(self._show())]
            await self._strike()
            await self._rest("after the last fault")
            await self._muster()
            self._stage = "judging"
            await self._dismiss()
            outcome = await self._judged()
            for task in beside:
                task.cancel()
        return outcome

    async def _show(self) -> None:
        while True:
            self.audience.shown(self._picture())
            await asyncio.sleep(LOOK)

    def _picture(self) -> Picture:
        return self._camera.take(self._stage, len(self._load.asked))

    async def _strike(self) -> None:
        """Load from the start on, faults from the first completed errand on, both until the time is over."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._load.run(lambda: len(self._watch.open)))
            try:
                await self._start()
                self._stage = "striking"
                self._camera.begin()
                group.create_task(self._striker.run(plan(self.seed, self.seconds)))
                await stopped(self.stopping, self.seconds)
            finally:
                self._camera.end()
                self._over.set()
        self._stage = "resting"

    async def _start(self) -> None:
        self.audience.progress(f"Starting {len(CREW)} role processes…")
        await asyncio.gather(*map(self.scene.crew.start, CREW))
        give_up = time.monotonic() + START_DEADLINE
        while not (self._watch.endings or self.stopping.is_set()):
            if time.monotonic() > give_up:
                logs = str(self.scene.home / "logs")
                raise Unavailable(f"No workflow was done within {START_DEADLINE:g} s; {logs!r} says why")
            await stopped(self.stopping, LOOK)

    async def _rest(self, when: str) -> None:
        """Wait until everything that was asked has ended, and the rows hold it."""
        give_up = time.monotonic() + REST_DEADLINE
        while not self.stopping.is_set() and (restless := await self._restless()):
            if time.monotonic() > give_up:
                self._late.append(f"There is no rest within {REST_DEADLINE:g} s {when}: {restless}.")
                return
            await stopped(self.stopping, LOOK)

    async def _muster(self) -> None:
        """While the others are frozen, half of the crew must do an errand in each partition.

        So nobody only seems to be alive.
        """
        for half in HALVES:
            if self.stopping.is_set() or self._late:
                return
            self._stage = "mustering"
            others = [self.scene.crew.freeze(name) for name in CREW if name not in half]
            try:
                await self._load.ask_everywhere()
                await self._rest(f"with nobody but {' and '.join(half)}")
            finally:
                for each in others:
                    thaw(each)

    async def _restless(self) -> str | None:
        """What is still to be done; None once nothing is."""
        unanswered = self._load.asked.keys() - self._watch.answered
        if unanswered:
            return f"{len(unanswered)} requests have no answer, {min(unanswered)!r} for one"
        if self._watch.open:
            return f"{len(self._watch.open)} workflows are open, {min(self._watch.open)} for one"
        try:
            ends = await self.scene.connections.log.ends(topics.EVENTS.name)
            projected = await bootstrap.positions(self.scene.connections.pool)
        except Unavailable as error:
            return f"{error}"
        return _behind("the onlooker", self._watch.positions, ends) or _behind("the projector", projected, ends)

    async def _dismiss(self) -> None:
        await asyncio.gather(*map(self.scene.crew.stop, CREW))

    async def _judged(self) -> Outcome:
        asked = [
            Asked(letter.request_id, letter.workflow_id, wanted(letter.request)) for letter in self._load.asked.values()
        ]
        finished = not self.stopping.is_set()
        surprises = [*self._late, *self.scene.crew.surprises, *self._striker.surprises]
        evidence = await gather(self.scene, asked, self._striker.poison, surprises, rows=finished)
        violations = judge(evidence, finished=finished)
        return Outcome(
            picture=self._picture(),
            strikes=self._watch.strikes,
            evidence=evidence,
            violations=violations,
            interrupted=not finished,
            posted=self._load.posted,
            starts=self.scene.crew.starts,
            home=self.scene.home if self.keep or violations else None,
        )


def _behind(who: str, positions: Mapping[int, int], ends: Mapping[int, int]) -> str | None:
    missing = sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())
    return f"{who} is {missing} records behind" if missing else None
