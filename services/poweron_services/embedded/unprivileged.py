"""Becomes another user and then the given program: `python unprivileged.py <uid> <gid> <program> <argument>…`.

Postgres refuses to run as root. It runs as nobody, but our folders, and often the folder where it is installed, are
closed to everybody but root. So nobody keeps, of all that root may, the one right to pass closed doors; the folders
stay closed to other processes of nobody. Started as a file, without the package: it must be quick.
"""

import ctypes
import os
import sys

PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522

NOT_HERE = (
    "Postgres does not run as root, and root may not become another user here. "
    "Run PowerOn as an ordinary user, or set POWERON_POSTGRES to a server of your own."
)


def main(uid: int, gid: int, program: list[str]) -> None:
    linux = sys.platform == "linux"
    if linux:
        ctypes.CDLL(None).prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    try:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    except PermissionError:
        sys.exit(NOT_HERE)
    if linux:
        _keep_the_right_to_pass()
    os.execv(program[0], program)  # noqa: S606 - the caller's own program, and no shell


def _keep_the_right_to_pass() -> None:
    """Without success where root itself lacks the right; then Postgres says which folder it cannot enter."""
    libc = ctypes.CDLL(None)
    right = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(right, right, right, 0, 0, 0)
    libc.capset(header, effective_permitted_inheritable)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
