"""A language model of a provider: one prompt in, one request out."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from poweron_events.errors import Refused, Unavailable
from poweron_events.event import MAX_NANO_USD, MAX_TOKENS, NANO
from poweron_services.decider.rules import BudgetUsedUp
from poweron_services.models.chat_model import Completion, TooLong, free
from poweron_services.models.context_window import answer_limit
from poweron_services.models.prices import listed_window, price_of
from poweron_services.models.prompts import Prompt
from poweron_services.models.providers.clients import access, is_own_server, pydantic_model
from poweron_services.models.providers.failures import NEXT_REFUSED, Scrubber, failure, reported_usage
from poweron_services.models.providers.http_client import WRAPPING, NotSent, Outgoing, Response, http_client, receiving
from poweron_services.models.providers.schema_dialects import told
from poweron_services.models.providers.server_window import server_window
from poweron_services.settings.config import Provider, ProviderSettings, Settings

BYTES_PER_TOKEN: Final = 16
"""More than any text has on average: prose has about four. A report of fewer tokens than this implies is rejected."""
RUN: Final = re.compile(rb"(.)\1{3,}", re.DOTALL)
"""A run of the same byte, such as the spaces of a table: one token may cover all of it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    is_estimated: bool = False


MAX_NAME = 200  # characters of a model's name, as its provider reports it
FULL: Final = frozenset({"model_context_window_exceeded", "model_length"})
"""The reasons with which providers end an answer because prompt and answer fill the window of the model."""
CLOSED_ONLY: Final[frozenset[Provider]] = frozenset({"anthropic"})
"""Providers that enforce a schema natively only if it is closed; a tool may have an open one."""


class ProviderModel:
    """A `ChatModel` at a provider. It holds connections, which its owner must close."""

    def __init__(
        self,
        provider: Provider,
        name: str,
        settings: Settings,
        known: ProviderSettings,
    ) -> None:
        """Set up the model; no request is sent yet.

        Raises:
            Refused: a variable must be set first; the message names it.
        """
        self._provider = provider
        self._name = name
        self._settings = settings
        self._scrub = Scrubber.of(known)
        self._price = price_of(provider, name, settings, known)
        way = access(provider, known)  # before anything is opened
        is_own = is_own_server(provider, way)
        self._way = way
        self._asks_window = is_own and settings.model_window is None
        self._window = settings.model_window or listed_window(provider, name, known)
        self._output = settings.model_output or ("native" if is_own else None)
        self._temperature = 0.0 if is_own else None
        self._http = http_client(settings.model_timeout, way)
        self._model = pydantic_model(provider, name, way, self._http)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def prompt_tokens(self) -> int | None:
        """Return the most tokens of a prompt; a self-hosted server is asked for its window once it can be reached."""
        if self._asks_window:
            with suppress(Unavailable):
                self._window = await server_window(self._http, self._way, self._name) or self._window
                self._asks_window = False
        return None if self._window is None else self._window - self._answer_limit

    @property
    def _answer_limit(self) -> int:
        return answer_limit(self._window, self._settings.model_max_tokens)

    async def complete(self, prompt: Prompt) -> Completion:
        await self.prompt_tokens()  # the window limits the answer
        outgoing = self._outgoing(prompt)
        with receiving() as received:
            try:
                return self._completion(await self._ask(prompt, outgoing), outgoing, received)
            except BudgetUsedUp:
                raise
            except asyncio.CancelledError as error:
                outgoing.failed(error)
                raise
            except Exception as error:  # noqa: BLE001 - a hostile answer can raise any error in a client library
                return self._failed_completion(error, outgoing, received)

    def _outgoing(self, prompt: Prompt) -> Outgoing:
        """Prepare the request for the prompt."""
        cost = free if self._price is None else self._price.most
        return Outgoing(prompt.allowance, cost, self._answer_limit)

    async def _ask(self, prompt: Prompt, outgoing: Outgoing) -> ModelResponse:
        """Send the request, with a lower limit for the answer until the budgets allow it, and return the answer."""
        while True:
            try:
                with outgoing.watched():
                    return await self._request(prompt, outgoing.limit)
            except Exception:
                if isinstance(outgoing.held, BudgetUsedUp):
                    raise outgoing.held from None
                if not isinstance(outgoing.held, NotSent):
                    raise

    def _failed_completion(self, error: Exception, outgoing: Outgoing, received: Response) -> Completion:
        """Return the completion of a failed request whose usage was reported; raise any other failure."""
        problem = failure(error, self._provider, self._name, self._scrub, received)
        usage = reported_usage(received.body)
        if usage.has_values() and isinstance(problem, Refused | Unavailable) and not isinstance(problem, TooLong):
            response = ModelResponse(parts=[], usage=usage, model_name=self._name)
            return self._as_completion(response, outgoing, received, refusal=problem)
        outgoing.failed(error)
        raise problem from None

    async def _request(self, prompt: Prompt, limit: int) -> ModelResponse:
        rendered = prompt.render()
        question = ModelRequest(parts=[UserPromptPart(rendered.data)], instructions=rendered.instructions)
        return await model_request(
            self._model,
            [question],
            model_settings=self._limits(limit),
            model_request_parameters=self._form(prompt),
            instrument=False,
        )

    def _limits(self, limit: int) -> ModelSettings:
        limits = ModelSettings(max_tokens=limit, request_timeout=self._settings.model_timeout, max_retries=0)
        if self._temperature is not None:  # small models err more when sampling; some large ones accept no temperature
            limits["temperature"] = self._temperature
        return limits

    def _form(self, prompt: Prompt) -> ModelRequestParameters:
        """Return the form of the answer: the schema of a stage that is answered with JSON, or else none."""
        if prompt.answer_schema is None:
            return ModelRequestParameters()
        mode, name = self._output, f"answer_{prompt.stage}"
        schema, strict = told(prompt.answer_schema, self._provider)
        if not strict and mode != "prompted" and self._provider in CLOSED_ONLY:
            mode = "tool"
        return ModelRequestParameters(
            output_mode=mode or "auto",
            output_object=OutputObjectDefinition(json_schema=schema, name=name, strict=strict),
            output_tools=[ToolDefinition(name=name, parameters_json_schema=schema, kind="output", strict=strict)],
            allow_text_output=mode != "tool",
        )

    def _completion(self, response: ModelResponse, outgoing: Outgoing, received: Response) -> Completion:
        text = self._scrub.known(_text(response))
        refusal = self._refusal(response, outgoing, text)
        return self._as_completion(response, outgoing, received, text or self._refusing_words(response), refusal)

    def _as_completion(
        self,
        response: ModelResponse,
        outgoing: Outgoing,
        received: Response,
        text: str = "",
        refusal: Refused | Unavailable | None = None,
    ) -> Completion:
        usage = usage_of(response.usage, outgoing, text=text, received=len(received.body))
        return Completion(
            text=text,
            provider=self._provider,
            model=self._scrub(response.model_name or self._name)[:MAX_NAME],
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost_nano_usd=self._cost(response, usage),
            usage_estimated=usage.is_estimated,
            refusal=refusal,
            sent=outgoing.sent,
            finish_reason=response.finish_reason,
        )

    def _cost(self, response: ModelResponse, usage: Usage) -> int:
        """Return the cost of the call: at the highest price if its usage is estimated, 0 if no price is known."""
        if self._price is not None and usage.is_estimated:
            return min(self._price.most(usage.input_tokens, usage.output_tokens), MAX_NANO_USD)
        if self._price is not None:
            return self._price.cost(response.usage, response.provider_details)
        try:
            return max(0, min(int(response.cost().total_price * NANO), MAX_NANO_USD))
        except (LookupError, ValueError, AssertionError):
            return 0

    def _refusal(self, response: ModelResponse, outgoing: Outgoing, text: str) -> Refused | Unavailable | None:
        """Return why the answer is unusable, and what may help; None if it is usable."""
        model_name = f"{self._provider}:{self._name}"
        if response.finish_reason == "content_filter":
            words = self._refusing_words(response)[:MAX_NAME].rstrip(".")
            return Refused(
                f"{model_name} would not answer{words and f': {words}'}. {NEXT_REFUSED}", code="answer_refused"
            )
        if response.finish_reason == "length":
            return self._truncation(response, outgoing)
        if response.finish_reason == "error":
            return Unavailable(f"{model_name} broke its answer off, for trouble of its own.", code="model_unavailable")
        return None if text.strip() else Refused(f"{model_name} answered with nothing.", code="answer_empty")

    def _truncation(self, response: ModelResponse, outgoing: Outgoing) -> Refused:
        model, after = f"{self._provider}:{self._name}", response.usage.output_tokens
        if (response.provider_details or {}).get("finish_reason") in FULL:
            return TooLong(
                f"The prompt and its answer are longer than what {model} takes: it was cut off after {after} tokens."
            )
        is_lowered = outgoing.limit < self._answer_limit
        limit = "what the budget leaves" if is_lowered else "the limit that is set"
        return Refused(
            f"The answer of {model} was cut off after {after} tokens; it was allowed {outgoing.limit:,}, {limit}.",
            code="answer_cut_off",
        )

    def _refusing_words(self, response: ModelResponse) -> str:
        """Return what the model says instead of an answer, if its provider reports refusals separately."""
        return self._scrub(str((response.provider_details or {}).get("refusal") or ""))


def _text(response: ModelResponse) -> str:
    """Return the answer: the text, or the arguments of the call of the answer tool; several calls become a list."""
    calls = [part.args for part in response.parts if isinstance(part, ToolCallPart)]
    if calls:
        arguments = [args if isinstance(args, str) else _json(args or {}) for args in calls]
        return arguments[0] if len(arguments) == 1 else f"[{','.join(arguments)}]"
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _json(arguments: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(arguments).decode()
    except orjson.JSONEncodeError as error:
        return f"These arguments cannot be written as JSON: {error}"  # not JSON, and therefore refused


def usage_of(usage: RequestUsage, outgoing: Outgoing, *, text: str, received: int) -> Usage:
    """Return the reported usage; estimate what is missing or far below what was sent or received.

    No token is shorter than a byte, so the bytes limit the tokens of the prompt and of the answer; the limit of the
    answer applies as well. A request that a provider answered with an error costs what it reports, or nothing.

    Args:
        usage: the usage that the provider reports.
        outgoing: the request.
        text: the answer.
        received: the size of the response body, in bytes.
    """
    input_tokens, output_tokens = _tokens(usage.input_tokens), _tokens(usage.output_tokens)
    cached_tokens = _tokens(usage.cache_read_tokens)
    if cached_tokens > input_tokens:  # the provider reports cached tokens separately
        input_tokens = _tokens(input_tokens + cached_tokens)
    request, is_estimated = outgoing.sent or b"", False
    if outgoing.paid and _is_implausible(input_tokens, request):
        input_tokens, is_estimated = len(request) + WRAPPING, True
    if outgoing.paid and _is_implausible(output_tokens, text.encode(errors="replace")):
        output_tokens, is_estimated = min(received, outgoing.limit), True
    reasoning_tokens = min(_tokens(usage.output_reasoning_tokens), output_tokens)
    return Usage(input_tokens, output_tokens, min(cached_tokens, input_tokens), reasoning_tokens, is_estimated)


def _is_implausible(tokens: int, content: bytes) -> bool:
    """Return whether the content must have more tokens than this."""
    if tokens > len(content) // BYTES_PER_TOKEN:
        return False
    return tokens <= len(RUN.sub(rb"\1", content)) // BYTES_PER_TOKEN


def _tokens(count: int) -> int:
    return max(0, min(count, MAX_TOKENS))
