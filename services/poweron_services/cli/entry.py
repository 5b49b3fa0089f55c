"""Where `poweron` begins: nothing slow is imported before Ctrl-C is waited for."""

import sys

from poweron_services.cli.context import FAILED, INTERRUPTED, NOTHING_YET
from poweron_services.cli.standard_streams import outlive_readers, unwritten


def main() -> None:
    """The entry point of `poweron`."""
    outlive_readers()
    try:
        from poweron_services.cli import main as commands  # noqa: PLC0415 - takes long to import
    except KeyboardInterrupt:
        print(NOTHING_YET, file=sys.stderr)  # noqa: T201 - what prints in colour is not there yet
        raise SystemExit(INTERRUPTED) from None
    try:
        commands.main()
    finally:
        if (why := unwritten()) is not None:
            said = f"Not everything could be printed: {why}. Free some space, and see `poweron workflows`."
            print(said, file=sys.stderr)  # noqa: T201 - it concerns all commands
            raise SystemExit(FAILED)
