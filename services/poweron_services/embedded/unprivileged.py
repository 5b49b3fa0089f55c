"""Becomes another user and then the given program: `python unprivileged.py <uid> <gid> <program> <argument>…`.

Postgres refuses to run as root. It runs as nobody, but our folders, and often the folder where it is installed, are
closed to everybody but root. So nobody keeps, of all that root may, the one right to pass closed doors; the folders
stay closed to other processes of nobody. Started as a file, without the package: it must be quick.

Postgres asks with access(2) whether it may run its own programs, and that leaves out the rights of whoever is not
root, unless the process was told beforehand that they do not depend on its user (SECBIT_NO_SETUID_FIXUP).
"""

import ctypes
import os
import sys
from typing import NoReturn

PR_SET_KEEPCAPS = 8
PR_GET_SECUREBITS = 27
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
CAP_DAC_OVERRIDE = 1  # CAP_DAC_READ_SEARCH is not enough: data and socket are made in folders of root
CAP_KILL = 5  # root itself needs it to stop Postgres
CAP_SETGID = 6
CAP_SETUID = 7
CAPABILITY_VERSION_3 = 0x20080522

IMPOSSIBLE = 125  # exit codes, as those of env(1)
CLOSED = 126

NOT_HERE = (
    "Postgres does not run as root, and here root may not run it as the user 'nobody': that takes CAP_SETUID, "
    "CAP_SETGID, CAP_KILL and CAP_DAC_OVERRIDE, in a user namespace that has 'nobody'. Allow these, run PowerOn as an "
    "ordinary user, or set POWERON_POSTGRES to a server of your own."
)
NOT_ON_THIS_SYSTEM = (
    "Postgres does not run as root, and only on Linux can PowerOn start it as root all the same. "
    "Run PowerOn as an ordinary user, or set POWERON_POSTGRES to a server of your own."
)


def main(uid: int, gid: int, program: list[str]) -> None:
    if sys.platform != "linux":
        _end(IMPOSSIBLE, NOT_ON_THIS_SYSTEM)
    try:
        _expect(CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID)
        _become(uid, gid)
        _keep_the_right_to_pass()
        _succeeded(_prctl(PR_SET_NO_NEW_PRIVS, 1))
    except OSError:
        _end(IMPOSSIBLE, NOT_HERE)
    if not os.access(program[0], os.R_OK | os.X_OK):
        _end(CLOSED, f"{program[0]} cannot be run by the user with the id {uid}.")
    os.execv(program[0], program)  # noqa: S606 - the caller's own program, and no shell


def _expect(*rights: int) -> None:
    """Before anything runs that could not be stopped again."""
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)()
    _succeeded(ctypes.CDLL(None).capget(_header(), effective_permitted_inheritable))
    if not all(effective_permitted_inheritable[0] >> right & 1 for right in rights):
        raise PermissionError


def _become(uid: int, gid: int) -> None:
    """With all rights of root, until they are taken away; `main` finds out whether access(2) heeds what is left."""
    _succeeded(_prctl(PR_SET_KEEPCAPS, 1))
    _prctl(PR_SET_SECUREBITS, _prctl(PR_GET_SECUREBITS) | SECBIT_NO_SETUID_FIXUP)  # fails without CAP_SETPCAP
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _keep_the_right_to_pass() -> None:
    """And none besides: neither this process nor any that it becomes or starts gets another one."""
    right = 1 << CAP_DAC_OVERRIDE
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(right, right, right, 0, 0, 0)
    _succeeded(ctypes.CDLL(None).capset(_header(), effective_permitted_inheritable))
    _succeeded(_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE))


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)


def _prctl(option: int, *values: int) -> int:
    """The kernel expects five words, and nothing in those that are not needed."""
    words = [ctypes.c_ulong(word) for word in (*values, 0, 0, 0, 0)[:4]]
    return int(ctypes.CDLL(None).prctl(option, *words))


def _succeeded(answer: int) -> None:
    if answer == -1:
        raise PermissionError


def _end(code: int, sentence: str) -> NoReturn:
    sys.stderr.write(f"{sentence}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
