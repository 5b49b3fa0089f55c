"""Privileges that the process drops before it parses a document, so that a malicious document cannot use them."""

import os
import pwd
import sys
from collections.abc import Callable, Mapping
from typing import Final

from poweron_services import unprivileged
from poweron_services.connectors.documents_child.document import Right
from poweron_services.connectors.documents_child.system_calls import only_compute


def give_up_rights() -> list[Right]:
    """Drop all privileges, irreversibly; return those that cannot be dropped on this system."""
    kept: list[Right] = []
    for right, give_up in RIGHTS.items():
        try:
            give_up()
        except (AttributeError, KeyError, OSError):  # no such call, no such user, or forbidden
            kept.append(right)
    return kept


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
