"""The amount of document text that a model takes at once, from the settings, its own server, or a list of models."""

from typing import Final, cast

from poweron_events.errors import Refused
from poweron_services.models.context_window import CHARACTERS_PER_TOKEN, WRITTEN, answer_limit
from poweron_services.settings.config import Provider, ProviderSettings, Settings

BUILTIN_CHARACTERS: Final = 1_000_000  # of all documents together: as much as the built-in model reads
UNKNOWN: Final = 32_000  # tokens; assumed if the window of a model is unknown
PREAMBLE: Final = 2_000  # tokens for the instructions, the task and the separators between documents


async def window_characters(settings: Settings) -> int:
    """Return the number of characters of documents that the model for `process` takes at once."""
    kind, _, name = settings.models["process"][0].partition(":")
    if kind in ("builtin", "scripted"):
        return settings.model_window * CHARACTERS_PER_TOKEN if settings.model_window else BUILTIN_CHARACTERS
    tokens = await _ask(cast("Provider", kind), name, settings)
    if tokens is None:
        tokens = UNKNOWN - answer_limit(UNKNOWN, settings.model_max_tokens)
    return max(1, tokens - min(PREAMBLE, tokens // WRITTEN)) * CHARACTERS_PER_TOKEN


async def _ask(provider: Provider, name: str, settings: Settings) -> int | None:
    """Return the room in tokens that the model has for a prompt; None if unknown, or if the model is not configured."""
    from poweron_services.models.providers import ProviderModel  # noqa: PLC0415 - takes more than a second to import

    try:
        model = ProviderModel(provider, name, settings, ProviderSettings())
    except Refused:
        return None
    try:
        return await model.prompt_tokens()
    finally:
        await model.aclose()
