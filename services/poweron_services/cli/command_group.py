"""A group of commands that words its own usage errors. Imports nothing slow."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from poweron_services.cli.context import AS_JSON


class CommandGroup(TyperGroup):
    """Reports wrong arguments in our own words and, with `--json`, also as an object on stdout."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        with self._report_errors(parent):
            if parent is None:
                AS_JSON.set("--json" in args[: args.index("--") if "--" in args else None])
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:  # typer does not export the type
        with self._report_errors(ctx.parent):
            return super().invoke(ctx)

    @contextmanager
    def _report_errors(self, parent: Any) -> Generator[None, None, None]:
        """Report wrong arguments of any command to programs once, in the outermost group."""
        try:
            yield
        except typer.TyperException as error:
            from poweron_services.cli import error_messages  # noqa: PLC0415 - imports wait for the command

            if isinstance(error, typer.BadParameter):
                error.message = error_messages.argument(error)
            if parent is None:
                error_messages.tell_json(error.format_message(), "usage")
            raise


def command_group(meaning: str) -> typer.Typer:
    """Create a group of commands, such as `poweron models`."""
    return typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None, help=meaning)
