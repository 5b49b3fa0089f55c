"""What an upstream system gets with `poweron-events`: little to install, and one public face."""

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import poweron_events

EXTRAS = ("aiokafka", "asyncpg", "obstore")
README = Path(__file__).parents[2] / "events" / "README.md"


CONTRACTS = (
    "client",
    "catalog",
    "codec",
    "dead_letter",
    "documentation",
    "envelope",
    "fold.evolve",
    "fold.history",
    "fold.partial",
    "fold.stage_specs",
    "log.memory",
    "stream",
    "topics",
)


def test_the_contracts_bring_no_extra_along() -> None:
    imports = ", ".join(f"poweron_events.{name}" for name in CONTRACTS)
    code = f"import sys, {imports}; print(sorted(set(sys.modules) & {set(EXTRAS)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_extras_two_packages_are_installed() -> None:
    plain = [one for one in requires("poweron-events") or () if "extra ==" not in one]
    assert sorted(re.split(r"[<>=!~ ]", one)[0] for one in plain) == ["orjson", "pydantic"]


def test_the_public_face_is_there_and_in_order() -> None:
    names = poweron_events.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(poweron_events, name) for name in names)
    assert {name for name in vars(poweron_events) if not name.startswith("_")} - set(names) <= _submodules()


def _submodules() -> set[str]:
    folder = Path(poweron_events.__file__).parent
    return {path.stem for path in folder.iterdir()}


def test_the_readme_names_the_whole_public_face() -> None:
    text = README.read_text()
    assert [name for name in poweron_events.__all__ if f"`{name}`" not in text] == []
