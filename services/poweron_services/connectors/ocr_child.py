"""The process that applies its limits and then executes the text recognition command, with an empty environment.

`python -I -m poweron_services.connectors.ocr_child <program> <argument>…`
"""

import os
import resource
import sys

from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS, cap

CPU_SECONDS = 120
FILE_BYTES = 100_000_000  # of each temporary file that it writes


def main(command: list[str]) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, DEFAULT_LIMITS.memory_bytes),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        cap(kind, most)
    os.execve(command[0], command, {})  # noqa: S606 - the operator has named the program


if __name__ == "__main__":
    main(sys.argv[1:])
