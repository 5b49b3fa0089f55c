"""Shutdown on SIGTERM and Ctrl-C: from the first instant of a command, and within one deadline for all that it closes.

Before a command has opened anything, a signal ends the process at once. From then on, the first signal cancels the
command, and a thread ends the process at the deadline, even if something is still open: the log has all that matters.
The entry point imports this module before anything else, so it imports nothing slow.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

CLOSE_DEADLINE: Final = 3.5  # seconds from the signal until anything still open is abandoned
LAST_ACTIONS_TIMEOUT: Final = 1.0  # seconds for the last actions, such as ending our own servers
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Result = TypeVar("Result")


class Shutdown:
    """The state of this process's shutdown."""

    def __init__(self, exit_code: Callable[[int], int], stopped: Callable[[bool], None]) -> None:
        self.received: int | None = None
        """The first signal."""
        self.cancel: Callable[[], object] | None = None
        """Cancels the running command; None while nothing is open."""
        self.has_run = False
        self.last_actions: list[Callable[[], object]] = []
        self._exit_code = exit_code
        self._stopped = stopped

    @property
    def exit_code(self) -> int:
        return self._exit_code(self.received or signal.SIGINT)

    def handle(self, signum: int, _: object) -> None:
        """Handle a signal; the second one changes nothing, because the first has set the deadline."""
        if self.received is not None:
            return
        self.received = signum
        if self.cancel is None:
            self._stopped(self.has_run)
            os._exit(self.exit_code)
        threading.Thread(target=self._end_at_deadline, daemon=True).start()
        self.cancel()

    def _end_at_deadline(self) -> None:
        time.sleep(CLOSE_DEADLINE)
        actions = threading.Thread(target=self._act, daemon=True)
        actions.start()
        actions.join(LAST_ACTIONS_TIMEOUT)
        os._exit(self.exit_code)

    def _act(self) -> None:
        for action in reversed(self.last_actions):
            with suppress(Exception):
                action()


_shutdown: Shutdown | None = None  # of this process, set by its entry point


def handle_signals(exit_code: Callable[[int], int], stopped: Callable[[bool], None]) -> None:
    """Handle SIGTERM and Ctrl-C from now on; a signal that the parent process ignores for us stays ignored.

    Args:
        exit_code: the exit code of the process after a signal.
        stopped: reports that the process was stopped while nothing was open. It runs inside the signal handler and
            receives whether a command has run before.
    """
    global _shutdown  # noqa: PLW0603 - signal handlers belong to the process
    _shutdown = Shutdown(exit_code, stopped)
    for signum in SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _shutdown.handle)
    os.register_at_fork(after_in_child=_restore_defaults)


def ignore_signals() -> None:
    """Ignore further signals while the interpreter ends, as it would otherwise restore their fatal defaults first."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def exit_code() -> int:
    """Return the exit code for the received signal; that of Ctrl-C if this process handles no signals."""
    return 128 + signal.SIGINT if _shutdown is None else _shutdown.exit_code


@contextmanager
def at_deadline(action: Callable[[], object]) -> Generator[None, None, None]:
    """Run an action in a thread if the deadline passes inside the block, just before the process ends."""
    actions = [] if _shutdown is None else _shutdown.last_actions
    actions.append(action)
    try:
        yield
    finally:
        actions.remove(action)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine as `asyncio.run` does; SIGTERM and Ctrl-C cancel it once, and the process ends in time.

    Raises:
        KeyboardInterrupt: a signal cancelled it.
    """
    import asyncio  # noqa: PLC0415 - the entry point handles signals before anything slow is imported

    try:
        return asyncio.run(_cancellable(work) if _shutdown is not None else work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        if _shutdown is not None and _shutdown.received is None:
            _shutdown.cancel = None


async def _cancellable(work: Coroutine[Any, Any, Result]) -> Result:
    import asyncio  # noqa: PLC0415 - as above

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert _shutdown is not None
    assert task is not None
    _shutdown.has_run = True
    _shutdown.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
    return await work


def _restore_defaults() -> None:
    """Restore the default signal handlers in a forked child, which takes no part in its parent's shutdown."""
    global _shutdown  # noqa: PLW0603 - see above
    _shutdown = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
