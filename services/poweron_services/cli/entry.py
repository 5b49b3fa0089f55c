"""Where `poweron` begins: nothing slow is imported before Ctrl-C is waited for."""

import sys

from poweron_services.cli.context import INTERRUPTED, NOTHING_YET
from poweron_services.cli.standard_streams import outlive_readers


def main() -> None:
    """The entry point of `poweron`."""
    outlive_readers()
    try:
        from poweron_services.cli import main as commands  # noqa: PLC0415 - takes long to import
    except KeyboardInterrupt:
        print(NOTHING_YET, file=sys.stderr)  # noqa: T201 - what prints in colour is not there yet
        raise SystemExit(INTERRUPTED) from None
    commands.main()
