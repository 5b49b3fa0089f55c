"""Another user of this machine, in a child process: root has no need to be let in, so it becomes nobody."""

import os
import warnings
from collections.abc import Callable

from poweron_events.errors import PowerOnError

NOBODY = 65534
NOTHING_REFUSED = "nothing was refused"


def as_ordinary_user(work: Callable[[], None]) -> str:
    """Do the work without root's rights, in a child, and give back what it refused with."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that other tests left: the child has none
        child = os.fork()
    if child == 0:
        said = "it ended with an error of its own"
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
            said = NOTHING_REFUSED
        except PowerOnError as error:
            said = str(error)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said
