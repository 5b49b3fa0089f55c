"""A group of commands that says in our words what is wrong before a command begins. It imports nothing slow."""

from typing import Any

import typer
from typer.core import TyperGroup

from poweron_services.cli.context import AS_JSON


class CommandGroup(TyperGroup):
    """Says in our words what is wrong with an argument."""

    def invoke(self, ctx: Any) -> Any:  # typer does not export the type
        AS_JSON.set(False)
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from poweron_services.cli import error_messages  # noqa: PLC0415 - imports wait for the command

            error.message = error_messages.argument(error)
            if ctx.parent is None:
                error_messages.tell_json(error.format_message())
            raise


class DocumentsGroup(CommandGroup):
    """Takes what is no command for the workflow whose documents are listed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, "--help"}:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def remember_json(as_json: bool) -> bool:
    """The value of `--json`, which whatever goes wrong from now on is told by."""
    AS_JSON.set(as_json)
    return as_json
