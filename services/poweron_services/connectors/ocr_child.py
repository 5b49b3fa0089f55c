"""The process that becomes the command for text recognition: it is held to limits first, and has no environment.

`python -I -m poweron_services.connectors.ocr_child <program> <argument>…`
"""

import os
import resource
import sys

from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, cap

CPU_SECONDS = 120
FILE_BYTES = 100_000_000  # of what it puts aside while it works


def main(command: list[str]) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, DEFAULT_LIMITS.memory_bytes),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        cap(kind, most)
    os.execve(command[0], command, {})  # noqa: S606 - who runs PowerOn has named the program


if __name__ == "__main__":
    main(sys.argv[1:])
