"""What befalls the processes and the servers, at moments and in an order left to chance."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation import invariants
from simulation.postgres import rebuilt
from simulation.wire import EVENTS, SlowFollower

if TYPE_CHECKING:
    from simulation.processes import Process
    from simulation.world import World

MOST_PROCESSES = 6
TURNS = 40  # within which a trouble strikes a process, between any two awaits


class Trouble:
    """Brings trouble to a world until it is time for calm."""

    def __init__(self, world: "World") -> None:
        self._world, self._loop, self._chance = world, world.loop, world.chance
        weighted: dict[Callable[[], None], int] = {
            self._crash: 6,
            self._stop: 2,
            self._pause: 4,
            self._zombie: 4,
            self._slow_reader: 3,
            self._rebalance: 3,
            self._second: 2,
            self._lost_offsets: 1,
            self._postgres_away: 2,
            self._wipe: 1,
            self._rebuild: 1,
            self._nonsense: 1,
            self._audit: 2,
        }
        self._kinds = [kind for kind, weight in weighted.items() for _ in range(weight)]

    def begin(self, seconds: float) -> None:
        self._loop.later(seconds, self._calm)
        self._next()

    def _next(self) -> None:
        if not self._chance.calm:
            self._loop.later(self._chance.between(0.02, 0.2), self._strike)

    def _strike(self) -> None:
        if not self._chance.calm:
            self._chance.one_of(self._kinds)()
        self._next()

    def _struck(self, fault: str, *what: object) -> None:
        self._chance.struck[fault] += 1
        self._world.note("TROUBLE", fault, *what)

    # --- processes -------------------------------------------------------------------------------------

    def _serving(self) -> "list[Process]":
        return [process for process in self._world.processes if process.serves and not process.owner.halted]

    def _befall(self, fault: str, strike: "Callable[[Process], None]") -> None:
        """Let a fault strike one of the processes, between any two awaits of it."""
        serving = self._serving()
        if not serving:
            return
        process = self._chance.one_of(serving)

        def now() -> None:
            if process in self._serving() and not self._chance.calm:
                self._struck(fault, process.name)
                strike(process)

        self._loop.strike(process.owner, self._chance.random.randint(0, TURNS), now)

    def _crash(self) -> None:
        self._befall("crash", self._die)

    def _die(self, process: "Process") -> None:
        if "projector" in process.roles:
            self._chance.struck["crash of a projector"] += 1
        process.die()
        self._leave(process, self._chance.between(0.02, 0.4))
        self._replace(process)

    def _leave(self, process: "Process", delay: float) -> None:
        """The broker no longer hears of a process and gives its partitions to others."""

        def expel() -> None:
            if self._chance.calm and process.serves:
                return  # it is well by now, and nobody would let it in again
            for follower in process.cable.followers:
                self._world.log.expel(follower.inner)

        self._loop.later(delay, expel)

    def _replace(self, process: "Process") -> None:
        self._loop.later(self._chance.between(0, 0.4), self._world.start, process.roles)

    def _stop(self) -> None:
        def strike(process: "Process") -> None:
            process.stop()
            self._replace(process)

        self._befall("stop", strike)

    def _pause(self) -> None:
        def strike(process: "Process") -> None:
            process.owner.halted = True
            seconds = self._chance.between(0.05, 0.9)
            if self._chance.often(0.7):
                self._leave(process, self._chance.between(0.02, 0.2))
                self._second_of(process)
                self._return(process, seconds + self._chance.between(0, 0.2))
            self._loop.later(seconds, self._resume, process)

        self._befall("pause", strike)

    def _resume(self, process: "Process") -> None:
        if not process.dead:
            self._loop.resume(process.owner)

    def _return(self, process: "Process", delay: float) -> None:
        """A member that was put out joins again."""

        def join() -> None:
            if process.serves:
                for follower in process.cable.followers:
                    self._world.log.readmit(follower.inner)

        self._loop.later(delay, join)

    def _zombie(self) -> None:
        """It no longer hears from the broker, its partitions are another's, and it goes on."""

        def strike(process: "Process") -> None:
            seconds = self._chance.between(0.1, 0.9)
            for follower in process.cable.followers:
                follower.hinder(deaf=seconds)
            self._leave(process, self._chance.between(0, 0.1))
            self._second_of(process)
            self._return(process, seconds + self._chance.between(0, 0.2))

        self._befall("zombie", strike)

    def _second_of(self, process: "Process") -> None:
        if len(self._serving()) < MOST_PROCESSES:
            self._loop.later(self._chance.between(0, 0.1), self._world.start, process.roles)

    def _second(self) -> None:
        def strike(process: "Process") -> None:
            self._second_of(process)

        if len(self._serving()) < MOST_PROCESSES:
            self._befall("another member", strike)

    def _slow_reader(self) -> None:
        def strike(process: "Process") -> None:
            for follower in process.cable.followers:
                follower.hinder(slow=self._chance.between(0.1, 0.8))

        self._befall("slow reader", strike)

    def _rebalance(self) -> None:
        groups = [key for key, members in self._world.log._groups.items() if len(members) > 1]
        if groups:
            topic, group = self._chance.one_of(groups)
            self._struck("rebalance", group)
            self._world.log.shuffle(topic, group, self._chance)

    def _lost_offsets(self) -> None:
        if self._world.log.forget_offsets():
            self._struck("offsets lost")

    # --- Postgres and the log --------------------------------------------------------------------------

    def _postgres_away(self) -> None:
        postgres = self._world.postgres
        if not postgres.away:
            self._struck("Postgres away")
            postgres.away = True
            self._loop.later(self._chance.between(0.02, 0.6), postgres.come_back)

    def _wipe(self) -> None:
        if self._world.postgres.kept is not None:
            self._struck("Postgres wiped")
            self._world.postgres.replace(None)

    def _rebuild(self) -> None:
        world = self._world
        stops = {number: self._chance.random.randint(0, world.log.end(number)) for number in range(world.partitions)}
        if any(stops.values()):
            self._struck("Postgres rebuilt", stops)
            world.postgres.replace(rebuilt(world.log, stops))

    def _nonsense(self) -> None:
        ids = list(self._world.full.history)
        if ids:
            self._struck("nonsense in the log")
            self._world.log.write(EVENTS, self._chance.one_of(ids).encode(), b"nonsense")

    def _audit(self) -> None:
        """No trouble: everybody is asked what they hold just now."""
        for process in self._serving():
            for name, detail in invariants.held(self._world, process):
                self._world.flag(name, detail)

    # --- calm ------------------------------------------------------------------------------------------

    def _calm(self) -> None:
        """From now on nothing fails; whoever is there gets well, and for every role somebody is there."""
        world = self._world
        world.note("CALM")
        self._chance.calm, world.postgres.away = True, False
        for process in world.processes:
            self._resume(process)
            for follower in process.cable.followers:
                self._get_well(process, follower)
        for roles in world.layout:
            if not any(process.serves and process.roles == roles for process in world.processes):
                world.start(roles)

    def _get_well(self, process: "Process", follower: SlowFollower) -> None:
        if process.serves:
            follower.cure()
            self._world.log.readmit(follower.inner)
        else:
            self._world.log.expel(follower.inner)
