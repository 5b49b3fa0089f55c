"""Drops privileges of a process: switches to another user, keeps few capabilities and gains no new ones; Linux only.

As a program, it switches users and executes a program: `python unprivileged.py <uid> <gid> <program> <argument>…`.
That is for Postgres, which refuses to run as root. It runs as an unprivileged user, but our folders, and often its
installation folder, are accessible only to root. So that user keeps one capability of root, which bypasses file
permissions; other processes of the same user still have no access. It is started as a file, so it imports nothing of
ours.

Postgres checks with access(2) whether it may run its own programs, and that check ignores the capabilities of any user
other than root, unless the process has set SECBIT_NO_SETUID_FIXUP first: it makes them independent of the user.
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
CAP_DAC_OVERRIDE = 1  # CAP_DAC_READ_SEARCH is not enough: data and socket are created in root's folders
CAP_KILL = 5  # even root needs it to end another user's process
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
    """Raise `PermissionError` if a capability is missing, before doing anything that needs it later."""
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)()
    succeeded(ctypes.CDLL(None).capget(_header(), effective_permitted_inheritable))
    if not all(effective_permitted_inheritable[0] >> right & 1 for right in rights):
        raise PermissionError


def become(uid: int, gid: int) -> None:
    """Switch to another user, without supplementary groups."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def keep_rights(*rights: int) -> None:
    """Keep only these capabilities."""
    mask = sum(1 << right for right in rights)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    succeeded(ctypes.CDLL(None).capset(_header(), effective_permitted_inheritable))


def get_no_new_rights() -> None:
    """Keep this process, and any that it becomes or starts, from ever gaining new privileges."""
    succeeded(prctl(PR_SET_NO_NEW_PRIVS, 1))


def prctl(option: int, *values: int) -> int:
    """Call the system call `prctl`; the kernel expects five words, with zero in those that are not needed."""
    words = [ctypes.c_ulong(word) for word in (*values, 0, 0, 0, 0)[:4]]
    return int(ctypes.CDLL(None).prctl(option, *words))


def succeeded(answer: int) -> None:
    if answer == -1:
        raise PermissionError


def _keep_rights_as_another_user() -> None:
    """Keep root's capabilities until they are dropped; `main` checks whether access(2) respects the remaining one."""
    succeeded(prctl(PR_SET_KEEPCAPS, 1))
    prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS) | SECBIT_NO_SETUID_FIXUP)  # fails without CAP_SETPCAP


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
