"""Write the exact version of everything that is installed into pyproject.toml, under `[tool.uv]`.

`make pins` runs this with the newest versions that the requirements allow; docs/decisions/0007 says why.
"""

import re
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
BUILD_TOOLS = "hatchling\neditables\n"
PINS = re.compile(r'^(build-constraint-dependencies|constraint-dependencies) = \[\n(?:    ".*",?\n)*\]\n', re.MULTILINE)


def main() -> None:
    """Forget the old versions, let uv choose anew, write down what it chose."""
    pinned = PROJECT.read_text()
    PROJECT.write_text(_with_pins(pinned, {}))
    try:
        chosen = {"constraint-dependencies": _resolved(), "build-constraint-dependencies": _resolved_build_tools()}
    except BaseException:
        PROJECT.write_text(pinned)
        raise
    PROJECT.write_text(_with_pins(pinned, chosen))
    _uv("lock")


def _with_pins(text: str, pins: dict[str, list[str]]) -> str:
    def fill(found: re.Match[str]) -> str:
        lines = [f'    "{pin}",\n' for pin in pins.get(found[1], [])]
        return f"{found[1]} = [\n{''.join(lines)}]\n"

    return PINS.sub(fill, text)


def _resolved() -> list[str]:
    _uv("lock", "--upgrade")
    return _uv("export", "--no-hashes", "--no-annotate", "--no-emit-workspace", "--all-extras", "--all-groups")


def _resolved_build_tools() -> list[str]:
    return _uv("pip", "compile", "--universal", "--python-version=3.11", "--no-annotate", "-", stdin=BUILD_TOOLS)


def _uv(*command: str, stdin: str = "") -> list[str]:
    done = subprocess.run(  # noqa: S603 - our own words
        ["uv", "--quiet", *command, "--no-header"] if command[0] in ("export", "pip") else ["uv", "--quiet", *command],
        cwd=PROJECT.parent,
        input=stdin,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "==" in line]


if __name__ == "__main__":
    main()
