"""The prices of providers' models: from the settings, or else from the list of the package genai-prices."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any, Final, Protocol, cast

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, TieredPrices
from genai_prices.types import Provider as ListedProvider

from poweron_events.event import MAX_NANO_USD, NANO
from poweron_events.instance_events import TokenPrice
from poweron_services.settings.config import PLACE_VARIABLES, Provider, ProviderSettings, Settings

MILLION: Final = 1_000_000
LISTED_AS: Final[Mapping[Provider, str]] = {"openai-responses": "openai"}
"""Providers that have another name on the list."""
PROMPT_KINDS: Final = ("input_mtok", "cache_write_mtok", "cache_read_mtok")
"""The ways in which a provider may count the tokens of a prompt, each with its own price."""


class ReportedUsage(Protocol):
    """The usage that a provider reports for a call; a price list may also count other kinds of tokens."""

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...


class Price(Protocol):
    """The price of calls to one model, in nano-USD."""

    def most(self, prompt: int, answer: int) -> int:
        """Return the most that these tokens can cost, however the provider counts them; more tokens never cost less."""

    def cost(self, usage: ReportedUsage, context: Mapping[str, Any] | None = None) -> int:
        """Return the cost of a call; `context` is what the provider reports about how it was served."""


@dataclass(frozen=True, slots=True)
class SetPrice:
    """A price from the settings: the same for every token of a prompt, and for every token of an answer."""

    prompt: Decimal
    """US dollars per million tokens."""
    answer: Decimal

    def most(self, prompt: int, answer: int) -> int:
        return ceil(Fraction(self.prompt * prompt + self.answer * answer) * NANO / MILLION)

    def cost(self, usage: ReportedUsage, context: Mapping[str, Any] | None = None) -> int:  # noqa: ARG002
        return min(self.most(max(0, usage.input_tokens), max(0, usage.output_tokens)), MAX_NANO_USD)


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A price from the list, of the model that was requested, even if the answer names another one."""

    provider: ListedProvider
    model: ModelInfo

    def most(self, prompt: int, answer: int) -> int:
        return ceil(max(_dearest(prices, prompt, answer) for prices in self._prices()) * NANO / MILLION)

    def _prices(self) -> Iterator[ModelPrice]:
        """Yield the current prices, including those of faster service tiers, which the account may be set to."""
        now = datetime.now(UTC)
        yield self.model.get_prices(now)
        for variant in self.model.price_variants or ():
            if {*variant.when} == {"service_tier"}:
                yield self.model.get_prices(now, variant.when)

    def cost(self, usage: ReportedUsage, context: Mapping[str, Any] | None = None) -> int:
        try:
            known = cast("dict[str, Any] | None", context)
            dollars = self.model.calc_price(usage, self.provider, price_context=known).total_price
        except ValueError:  # contradictory counts
            return min(self.most(max(0, usage.input_tokens), max(0, usage.output_tokens)), MAX_NANO_USD)
        return max(0, min(int(dollars * NANO), MAX_NANO_USD))


def _dearest(prices: ModelPrice, prompt: int, answer: int) -> Decimal:
    """Return the most that the tokens can cost, in millionths of a dollar, however the prompt's are counted."""
    kinds = [_rate(getattr(prices, kind), prompt) for kind in PROMPT_KINDS]
    return max(kinds) * prompt + _rate(prices.output_mtok, prompt) * answer


def _rate(price: Decimal | TieredPrices | None, prompt: int) -> Decimal:
    """Return the price of a million tokens, which may rise with the length of the prompt."""
    if isinstance(price, TieredPrices):
        return max([price.base, *(tier.price for tier in price.tiers if tier.start < prompt)])
    return price or Decimal(0)


def price_of(provider: Provider, name: str, settings: Settings, known: ProviderSettings) -> Price | None:
    """Return the price of a provider's model; None if it is unknown."""
    if (price := settings.prices.get(f"{provider}:{name}")) is not None:
        return SetPrice(*price)
    return next(filter(None, (_listed_price(listing) for listing in _listings(provider, name, known))), None)


def token_prices(settings: Settings, known: ProviderSettings) -> tuple[TokenPrice, ...]:
    """Return the known prices of the models in use, as a process records them."""
    models = [(model, *model.partition(":")[::2]) for model in settings.provided_models]
    prices = [(model, price_of(cast("Provider", provider), name, settings, known)) for model, provider, name in models]
    return tuple(token_price for model, price in prices if (token_price := _token_price(model, price)) is not None)


def _token_price(model: str, price: Price | None) -> TokenPrice | None:
    match price:
        case SetPrice():
            return TokenPrice(model=model, prompt=_dollars(price.prompt), answer=_dollars(price.answer))
        case ListedPrice():
            now = price.model.get_prices(datetime.now(UTC))
            prompt, answer = _dollars(_rate(now.input_mtok, 0)), _dollars(_rate(now.output_mtok, 0))
            return TokenPrice(model=model, prompt=prompt, answer=answer, listed=True)
        case _:
            return None


def _dollars(amount: Decimal) -> str:
    """Return an amount as text without an exponent or zeros at its end."""
    return f"{amount.normalize():f}"


def listed_window(provider: Provider, name: str, known: ProviderSettings) -> int | None:
    """Return the tokens that a provider's model takes, prompt and answer together; None if the list has no number."""
    model = next((model for _, model in _listings(provider, name, known)), None)
    return model.context_window if model else None


def _listings(provider: Provider, name: str, known: ProviderSettings) -> Iterator[tuple[ListedProvider, ModelInfo]]:
    """Yield the listed model: of the provider at the configured address, then of the provider with this name."""
    place = getattr(known, PLACE_VARIABLES[provider].lower())
    url = place.get_secret_value() if place else None
    for provider_name, address in ((None, url), (LISTED_AS.get(provider, provider), None)):
        if provider_name is not None or address is not None:
            with suppress(LookupError):
                yield get_snapshot().find_provider_model(name, None, provider_name, address)


def _listed_price(listing: tuple[ListedProvider, ModelInfo]) -> ListedPrice | None:
    now = listing[1].get_prices(datetime.now(UTC))
    return None if now.input_mtok is None or now.output_mtok is None else ListedPrice(*listing)


def unpriced_models(settings: Settings, known: ProviderSettings) -> tuple[str, ...]:
    """Return the models in use without a known price; none if the settings allow such models."""
    if settings.unpriced_models == "allow":
        return ()
    models = [(model, *model.partition(":")[::2]) for model in settings.provided_models]
    return tuple(
        model for model, provider, name in models if price_of(cast("Provider", provider), name, settings, known) is None
    )
