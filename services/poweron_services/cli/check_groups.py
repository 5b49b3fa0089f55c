"""The arguments and help of `poweron models` and `poweron search`, which check external services."""

from typing import Annotated

import typer

from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import CommandGroup

Deep = Annotated[bool, typer.Option("--deep", help="Ask 25 cases of each stage, without a time limit.")]


def _group(meaning: str) -> typer.Typer:
    return typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None, help=meaning)


models = _group("Look after the language models.")
search = _group("Look after the search engine.")


@models.command("check")
def models_check(deep: Deep = False, as_json: AsJson = False) -> None:
    """Check what every configured model is good for.

    Asks up to five small cases of each stage, for 90 seconds in all, and reports how many answers have the right
    form, how many are right, how long they took, what they cost, and for which stages a model is too weak.
    Needs neither Kafka nor Postgres. Exit 1 if a model does not work or is too weak for a stage.
    """
    from poweron_services.cli import models_command

    models_command.check(deep=deep, as_json=as_json)


@search.command("check")
def search_check(as_json: AsJson = False) -> None:
    """Send a tiny query to the configured search engine.

    Reports whether it works, how long it took, and what to do if it does not work.
    Needs neither Kafka nor Postgres. Exit 1 if it does not work, or if none is set.
    """
    from poweron_services.cli import search_command

    search_command.check(as_json=as_json)
