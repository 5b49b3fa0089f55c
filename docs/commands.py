"""Writes `docs/commands.md` from the command line itself: `uv run docs/commands.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from poweron_services.cli.main import app

PAGE = Path(__file__).with_name("commands.md")

_HEAD = """\
# Commands

<!-- Made by `uv run docs/commands.py`; a test compares. -->

Every command takes `--help`, and all but `door` and those named `serve` take `--json` ([what it prints](codes.md)).
"""


def page() -> str:
    """All commands with their arguments and options, in the order of `poweron --help`."""
    return _HEAD + "".join(_sections(typer.main.get_group(app), "poweron"))


def _sections(group: Any, name: str) -> Iterator[str]:
    for command_name, command in group.commands.items():
        if not command.hidden:
            yield _section(command, f"{name} {command_name}")
            if hasattr(command, "commands"):
                yield from _sections(command, f"{name} {command_name}")


def _section(command: Any, name: str) -> str:
    shown = [each for each in command.params if not each.hidden]
    usage = " ".join([name, *(_argument(each) for each in shown if not _is_option(each))])
    rows = "".join(f"| `{_spelling(each)}` | {_one_line(each.help)} |\n" for each in shown if _is_option(each))
    table = f"\n| option | meaning |\n|---|---|\n{rows}" if rows else ""
    return f"\n## `{usage}`\n\n{_one_line(command.help)}\n{table}"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _spelling(option: Any) -> str:
    names = ", ".join(option.opts)
    return names if option.is_flag else f"{names} {option.metavar or option.name.upper()}"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
