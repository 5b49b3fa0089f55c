"""Runs the commands that the README and the pages of `docs` show, on an empty data directory, and records their output.

`make transcripts` runs this; the tests run the same commands and compare.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOUSE = Path(__file__).parent.parent
PAGES = [HOUSE / "README.md", *(HOUSE / "docs" / f"{name}.md" for name in ("history", "why", "export"))]
"""In the order in which the commands run: later pages show workflows of earlier ones."""
COMMAND = "$ uv run poweron "
SHOWN_HOME = "/home/ada/.local/share/poweron"

_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_FETCHING = re.compile(r"^Downloading Kafka: .*\n", re.MULTILINE)


@dataclass
class Shell:
    """Runs commands as the README writes them; workflow ids in the README stand for those that occur here."""

    folder: Path
    environment: Mapping[str, str]
    ids: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, shown: str) -> str:
        """Run the command and return what it prints, with the ids of `shown`."""
        done = subprocess.run(  # noqa: S603 - the commands of our own pages
            [self._poweron(), *shlex.split(self._said(command, self.ids))],
            cwd=self.folder,
            env={**os.environ, "POWERON_ACTOR": "ada", **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{command!r} ended with {done.returncode} and printed:\n{done.stdout}")
        for there, here in zip(_unique_ids(shown), _unique_ids(done.stdout), strict=False):
            self.ids.setdefault(there, here)
        home = self.environment.get("POWERON_HOME", SHOWN_HOME)
        back = {here: there for there, here in self.ids.items()}
        back |= {home: SHOWN_HOME, home.replace("/", "%2F"): SHOWN_HOME.replace("/", "%2F")}
        return self._said(_FETCHING.sub("", done.stdout), back)

    def _poweron(self) -> str:
        return str(Path(sys.executable).with_name("poweron"))

    def _said(self, text: str, others: Mapping[str, str]) -> str:
        for one, other in others.items():
            text = text.replace(one, other)
        return text


def _unique_ids(text: str) -> list[str]:
    return list(dict.fromkeys(_ID.findall(text)))


def conversation(block: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each with its output."""
    for part in re.split(rf"^(?={re.escape(COMMAND)})", block, flags=re.MULTILINE):
        if part:
            command, _, printed = part.partition("\n")
            yield command.removeprefix(COMMAND), printed


def blocks(text: str) -> list[str]:
    return _BLOCK.findall(text)


def main() -> None:
    """Run every command of the pages and replace the output shown below it."""
    with tempfile.TemporaryDirectory(prefix="poweron-") as folder:
        (Path(folder) / "docs").symlink_to(HOUSE / "docs")
        shell = Shell(Path(folder), {"POWERON_HOME": f"{folder}/home"})

        def rerun(block: re.Match[str]) -> str:
            return "".join(
                f"{COMMAND}{command}\n{shell.run(command, printed)}" for command, printed in conversation(block[0])
            )

        try:
            for page in PAGES:
                page.write_text(_BLOCK.sub(rerun, page.read_text()))
        finally:
            shell.run("down", "")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("It takes no arguments: it runs every command of README and the pages, and writes what they print.")
    main()
