"""Privileges that the process drops before it parses a document, so that a malicious document cannot use them."""

import ctypes
import errno
import os
import pwd
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Final

from poweron_services import unprivileged
from poweron_services.connectors.documents_child.document import Right
from poweron_services.unprivileged import prctl, succeeded

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, MACHINE = 0, 4  # offsets of a call's number and architecture in the input of the filter
ALLOWED, REFUSED = 0x7FFF0000, 0x00050000 | errno.EPERM
MACHINES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS: Final = {  # the numbers on these architectures, in that order
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "restart_syscall": (219, 128),
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrusage": (98, 165),
    "gettimeofday": (96, 169),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "getrandom": (318, 278),
    "exit": (60, 93),
    "exit_group": (231, 94),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.c_char_p))


def only_compute() -> None:
    """Refuse every other call from now on, irreversibly; raises `OSError` if the system cannot do that."""
    machine = os.uname().machine
    if machine not in MACHINES or sys.maxsize < 1 << 32:  # a 32-bit Python has other numbers
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    steps = _filter(MACHINES[machine], [numbers[[*MACHINES].index(machine)] for numbers in CALLS.values()])
    program = _Program(len(steps), b"".join(struct.pack("=HBBI", *step) for step in steps))
    succeeded(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program)))


def _filter(machine: int, calls: list[int]) -> list[tuple[int, int, int, int]]:
    """Build the filter; a step is its operation, the number of steps to skip if true and if false, and a value."""
    return [
        (LOAD, 0, 0, MACHINE),
        (JUMP_IF_EQUAL, 1, 0, machine),
        (RETURN, 0, 0, REFUSED),
        (LOAD, 0, 0, NUMBER),
        *((JUMP_IF_EQUAL, len(calls) - index, 0, call) for index, call in enumerate(calls)),
        (RETURN, 0, 0, REFUSED),
        (RETURN, 0, 0, ALLOWED),
    ]


def give_up_rights() -> list[Right]:
    """Drop all privileges, irreversibly; return those that cannot be dropped on this system."""
    remaining: list[Right] = []
    for right, give_up in RIGHTS.items():
        try:
            give_up()
        except (AttributeError, KeyError, OSError):  # no such call, no such user, or forbidden
            remaining.append(right)
    return remaining


def _become_nobody() -> None:
    """Switch from root to an unprivileged user, provided that root can still kill this process afterwards."""
    if os.geteuid() != 0:
        return
    nobody = pwd.getpwnam("nobody")
    if sys.platform == "linux":
        unprivileged.expect_rights(unprivileged.CAP_KILL, unprivileged.CAP_SETGID, unprivileged.CAP_SETUID)
    unprivileged.become(nobody.pw_uid, nobody.pw_gid)


RIGHTS: Final[Mapping[Right, Callable[[], None]]] = {
    "root": _become_nobody,
    "capabilities": unprivileged.keep_rights,
    "new_rights": unprivileged.get_no_new_rights,
    "system_calls": only_compute,
}
