"""How much a model takes at once: as the settings say, else by the list that comes with the library of prices."""

from typing import Final, cast

from poweron_services.config import Provider, ProviderSettings, Settings

BUILTIN_CHARACTERS: Final = 1_000_000  # of all documents together: what the built-in model reads
UNKNOWN: Final = 32_000  # tokens, where nobody says how many a model takes
WRITTEN: Final = 4  # the share of its window, as a divisor, that an answer is left at least
CHARACTERS_PER_TOKEN: Final = (
    3  # of a text; prose has more, tables of numbers have fewer: then it is told and cut again
)
PREAMBLE: Final = 2_000  # tokens for instructions, the task and what stands between documents


def window_characters(settings: Settings) -> int:
    """How many characters of documents the model that answers from documents takes at once."""
    kind, _, name = settings.models["process"][0].partition(":")
    if kind in ("builtin", "scripted"):
        return settings.model_window * CHARACTERS_PER_TOKEN if settings.model_window else BUILTIN_CHARACTERS
    tokens = settings.model_window or _listed(cast("Provider", kind), name) or UNKNOWN
    answer = min(settings.model_max_tokens, tokens // WRITTEN)
    return max(1, tokens - answer - min(PREAMBLE, tokens // WRITTEN)) * CHARACTERS_PER_TOKEN


def _listed(provider: Provider, name: str) -> int | None:
    """The tokens of the model's window by the list; None where the list does not say."""
    from poweron_services.models.prices import listed_model  # noqa: PLC0415 - the list takes time to import

    found = listed_model(provider, name, ProviderSettings())
    return found.context_window if found else None
