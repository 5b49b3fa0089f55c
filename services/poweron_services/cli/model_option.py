"""A model that a command names with `--model`; it must be configured."""

from contextlib import AsyncExitStack
from typing import NoReturn, get_args

from pydantic import ValidationError

from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_services import wiring
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import sentence, stop
from poweron_services.cli.output import and_joined
from poweron_services.models.chat_model import ChatModel
from poweron_services.settings.config import KEY_VARIABLES, Provider, ProviderSettings, Settings


def built(settings: Settings, name: str, stack: AsyncExitStack) -> ChatModel:
    """Build the model for every stage; if it is not configured, end the command and name those that are."""
    try:
        return wiring.build_model(settings.with_model(name), stack)
    except ValidationError as error:
        (problem, *_) = error.errors(include_url=False)
        _stop(settings, name, f"{problem['ctx']['error']}.")
    except Refused as error:
        _stop(settings, name, sentence(error), error.code)


def check_nameable(settings: Settings, name: str) -> None:
    """End the command if a request may not name the model."""
    built(settings, name, AsyncExitStack())
    try:
        wiring.NameableModels(settings).alone(name)
    except Refused:
        _stop(settings, name, "A fork asks one model, and no script.")


def _stop(settings: Settings, name: str, reason: str, code: Code | None = None) -> NoReturn:
    stop(f"The model {name!r} of --model is not configured. {reason} {_configured(settings)}", USAGE, code=code)


def _configured(settings: Settings) -> str:
    """List the models that can be named: those of the settings, and those of providers whose key is set."""
    names, known = list(dict.fromkeys(["builtin", *settings.named_models])), ProviderSettings()
    providers = [
        provider for provider in get_args(Provider) if getattr(known, KEY_VARIABLES[provider].lower()) is not None
    ]
    keys = f"; keys are set for models of {and_joined(providers)}" if providers else ""
    return f"Configured {'are' if names[1:] else 'is'} {and_joined(names)}{keys}."
