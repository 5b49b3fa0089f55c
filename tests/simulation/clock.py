"""Time that is only counted: an event loop for a whole world of processes, whose every turn follows from a seed.

Each process has a queue of its own, first in first out, as on an event loop of its own. Which process
takes the next turn is left to chance. When nobody has anything to do, the clock jumps to the next timer.
A process that is halted keeps its queue and its timers, but takes no turn: for a while it is paused,
for ever it is dead.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

MAX_TURNS = 2_000_000  # of one world; more is a loop without end


class Owner:
    """Whose turn it is: a process of the world, or the world itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.halted = False
        self.busy = False
        self.fuses: list[tuple[int, Callable[[], None]]] = []
        self.turns = 0

    def after(self, turns: int, strike: Callable[[], None]) -> None:
        """Let something strike when so many more turns have been taken: between any two awaits."""
        heapq.heappush(self.fuses, (self.turns + turns, strike))


OWNER: ContextVar[Owner] = ContextVar("OWNER")


class NumberedTask(asyncio.Task):
    """A task whose place in a set follows from the seed, not from its address."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], loop: "VirtualLoop", number: int) -> None:
        self.number = number
        super().__init__(coroutine, loop=loop)

    def __hash__(self) -> int:
        return self.number


class Fuse:
    """A strike that heaps can order."""

    def __init__(self, number: int, strike: Callable[[], None]) -> None:
        self.number, self.strike = number, strike

    def __lt__(self, other: "Fuse") -> bool:
        return self.number < other.number

    def __call__(self) -> None:
        self.strike()


class VirtualLoop(asyncio.AbstractEventLoop):
    """An event loop without clock, threads and sockets."""

    def __init__(self, chance: Random) -> None:
        self.world = Owner("world")
        self.turns = 0
        self.errors: list[str] = []
        self._chance = chance
        self._now = 0.0
        self._numbers = 0
        self._busy: list[Owner] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Owner]] = []
        self._world_context = copy_context()
        self._world_context.run(OWNER.set, self.world)

    # --- what asyncio asks of a loop ------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = (context or copy_context()).run(NumberedTask, coroutine, self, self._number())
        (context or copy_context())[OWNER].tasks.append(task)
        return task

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        context = context or copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._queue(handle, context[OWNER])
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = context or copy_context()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self._number(), timer, context[OWNER]))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # it is dropped when its time has come

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "handle" in context:  # else a task that was collected with its exception: when that is, no seed says
            self.errors.append(f"{context['message']}: {context.get('exception')!r}")

    # --- what the world does with it -------------------------------------------------------------------

    def begin(self, owner: Owner, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let a process begin."""
        context = copy_context()
        context.run(OWNER.set, owner)
        return self.create_task(work, context=context)

    def later(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Let something happen in the world, whatever becomes of the process that asks for it."""
        self.call_later(delay, callback, *args, context=self._world_context)

    def strike(self, owner: Owner, turns: int, strike: Callable[[], None]) -> None:
        """Let something befall a process when it has taken so many more turns."""
        owner.after(turns, Fuse(self._number(), strike))

    def resume(self, owner: Owner) -> None:
        """Let a halted process take turns again."""
        owner.halted = False
        self._wake(owner)

    def run(self, until: Callable[[], bool]) -> None:
        """Take turn after turn until it is so, or until nothing can happen any more."""
        asyncio._set_running_loop(self)
        try:
            while not until() and self._turn():
                pass
        finally:
            asyncio._set_running_loop(None)

    def _turn(self) -> bool:
        if self._timers and (not self._busy or self._timers[0][0] <= self._now):
            self._ring()
        if not self._busy:
            return bool(self._timers)
        self.turns += 1
        if self.turns > MAX_TURNS:
            raise RuntimeError("the world does not come to rest")
        place = int(self._chance.random() * len(self._busy))
        owner = self._busy[place]
        while owner.fuses and owner.fuses[0][0] <= owner.turns:
            heapq.heappop(owner.fuses)[1]()
        if owner.halted or not owner.ready:
            self._rest(owner)
            return True
        owner.turns += 1
        handle = owner.ready.popleft()
        if not handle._cancelled:
            handle._run()
        if not owner.ready:
            self._rest(owner)
        return True

    def _ring(self) -> None:
        """Go to the moment of the next timer, and wake all whose time has come."""
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            _, _, timer, owner = heapq.heappop(self._timers)
            if not timer._cancelled:
                self._queue(timer, owner)

    def _queue(self, handle: asyncio.Handle, owner: Owner) -> None:
        owner.ready.append(handle)
        self._wake(owner)

    def _wake(self, owner: Owner) -> None:
        if owner.ready and not owner.busy and not owner.halted:
            owner.busy = True
            self._busy.append(owner)

    def _rest(self, owner: Owner) -> None:
        owner.busy = False
        self._busy.remove(owner)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers
