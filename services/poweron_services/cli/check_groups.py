"""The commands of `poweron models` and `poweron search`: whether what others provide works."""

import typer

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import CommandGroup


def _group(meaning: str) -> typer.Typer:
    return typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None, help=meaning)


models = _group("Look after the language models.")
search = _group("Look after the search engine.")


@models.command("check")
def models_check(as_json: AsJson = False) -> None:
    """Ask every configured model for something tiny.

    Says which work, how long they took and what they cost, and what to do where one does not.
    Neither Kafka nor Postgres is needed. Exit 1 if a model does not work.
    """
    from poweron_services.cli import models_command

    models_command.check(as_json=as_json)


@search.command("check")
def search_check(as_json: AsJson = False) -> None:
    """Ask the configured search engine for something tiny.

    Says whether it works and how long it took, and what to do where it does not.
    Neither Kafka nor Postgres is needed. Exit 1 if it does not work, or if none is set.
    """
    from poweron_services.cli import search_command

    search_command.check(as_json=as_json)
