"""How a process comes to do with less: another user, fewer capabilities, never new ones; all of it only on Linux.

As a program it becomes another user and then the given one: `python unprivileged.py <uid> <gid> <program> <argument>…`.
That is for Postgres, which refuses to run as root. It runs as nobody, but our folders, and often the folder where it
is installed, are closed to everybody but root. So nobody keeps, of all that root may, the one right to pass closed
doors; the folders stay closed to other processes of nobody. It is started as a file, so it imports nothing of ours.

Postgres asks with access(2) whether it may run its own programs, and that leaves out the rights of whoever is not
root, unless the process was told beforehand that they do not depend on its user (SECBIT_NO_SETUID_FIXUP).
"""

import ctypes
import os
import sys

PR_SET_KEEPCAPS = 8
PR_GET_SECUREBITS = 27
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
CAP_DAC_OVERRIDE = 1  # CAP_DAC_READ_SEARCH is not enough: data and socket are made in folders of root
CAP_KILL = 5  # root itself needs it to end a process of somebody else
CAP_SETGID = 6
CAP_SETUID = 7
CAPABILITY_VERSION_3 = 0x20080522

IMPOSSIBLE = 125  # exit codes, as those of env(1)
CLOSED = 126


def main(uid: int, gid: int, program: list[str]) -> None:
    try:
        expect_rights(CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID)
        _keep_rights_as_another_user()
        become(uid, gid)
        keep_rights(CAP_DAC_OVERRIDE)
        succeeded(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE))
        get_no_new_rights()
    except OSError:
        sys.exit(IMPOSSIBLE)
    if not os.access(program[0], os.R_OK | os.X_OK):
        sys.exit(CLOSED)
    os.execv(program[0], program)  # noqa: S606 - the caller's own program, and no shell


def expect_rights(*rights: int) -> None:
    """Raises `PermissionError` where one is lacking, before anything is done that would need it later."""
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)()
    succeeded(ctypes.CDLL(None).capget(_header(), effective_permitted_inheritable))
    if not all(effective_permitted_inheritable[0] >> right & 1 for right in rights):
        raise PermissionError


def become(uid: int, gid: int) -> None:
    """Another user, in no group besides."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def keep_rights(*rights: int) -> None:
    """These capabilities and none besides."""
    kept = sum(1 << right for right in rights)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(kept, kept, kept, 0, 0, 0)
    succeeded(ctypes.CDLL(None).capset(_header(), effective_permitted_inheritable))


def get_no_new_rights() -> None:
    """Neither this process nor any that it becomes or starts gets a right that it does not have now."""
    succeeded(prctl(PR_SET_NO_NEW_PRIVS, 1))


def prctl(option: int, *values: int) -> int:
    """The kernel expects five words, and nothing in those that are not needed."""
    words = [ctypes.c_ulong(word) for word in (*values, 0, 0, 0, 0)[:4]]
    return int(ctypes.CDLL(None).prctl(option, *words))


def succeeded(answer: int) -> None:
    if answer == -1:
        raise PermissionError


def _keep_rights_as_another_user() -> None:
    """Those of root, until they are taken away; `main` finds out whether access(2) heeds what is left."""
    succeeded(prctl(PR_SET_KEEPCAPS, 1))
    prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS) | SECBIT_NO_SETUID_FIXUP)  # fails without CAP_SETPCAP


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
