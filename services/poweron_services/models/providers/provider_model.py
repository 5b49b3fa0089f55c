"""A language model of a provider: one prompt in, one request out."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.event import MAX_NANO_USD, NANO, Model
from poweron_services.config import Provider, ProviderSettings, Settings
from poweron_services.models.answers import (
    ActionsAnswer,
    ParametersAnswer,
    PlanningAnswer,
    RefinementAnswer,
    ReviewAnswer,
    SelectionAnswer,
)
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import (
    ActionsPrompt,
    ParametersPrompt,
    PlanningPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)
from poweron_services.models.providers.clients import access, http_client, listening, pydantic_model
from poweron_services.models.providers.failures import Scrubber, failure, told_usage

MAX_NAME = 200  # characters of a model's name, as its provider tells it
MAX_TOKENS = 2**31 - 1  # a provider that tells more tells nonsense
NEXT_REFUSED: Final = "Other words, or another model, may help."

ANSWERS: Final[Mapping[type[Prompt], type[Model]]] = {
    PlanningPrompt: PlanningAnswer,
    ActionsPrompt: ActionsAnswer,
    SelectionPrompt: SelectionAnswer,
    ParametersPrompt: ParametersAnswer,
    RefinementPrompt: RefinementAnswer,
    ReviewPrompt: ReviewAnswer,
}
"""The prompts that are answered with JSON, and its form; the others are answered with text."""


class ProviderModel:
    """A `ChatModel` at a provider. It holds connections: whoever opens it closes it."""

    def __init__(
        self,
        provider: Provider,
        name: str,
        settings: Settings,
        known: ProviderSettings,
    ) -> None:
        """Know the model; nothing is asked yet.

        Raises:
            Refused: a variable must be set first; the sentence names it.
        """
        self._provider = provider
        self._name = name
        self._settings = settings
        self._scrub = Scrubber.of(known)
        way = access(provider, known)  # before anything is opened
        self._http = http_client(settings.model_timeout)
        self._model = pydantic_model(provider, name, way, self._http)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def complete(self, prompt: Prompt) -> Completion:
        rendered = prompt.render()
        question = ModelRequest(parts=[UserPromptPart(rendered.data)], instructions=rendered.instructions)
        with listening() as answered:
            try:
                response = await model_request(
                    self._model,
                    [question],
                    model_settings=self._limits(prompt),
                    model_request_parameters=self._form(prompt),
                    instrument=False,
                )
            except Exception as error:  # noqa: BLE001 - the edge: client libraries stumble over hostile answers at will
                failed = failure(error, self._provider, self._name, self._scrub)
                return self._failed(failed, told_usage(bytes(answered)))
        return self._completion(response, prompt)

    def _failed(self, failed: PowerOnError, usage: RequestUsage) -> Completion:
        """What failed after the provider was paid for it; any other failure is raised."""
        if not usage.has_values() or not isinstance(failed, Unavailable):
            raise failed from None
        return self._told(ModelResponse(parts=[], usage=usage, model_name=self._name), refusal=failed)

    def _limits(self, prompt: Prompt) -> ModelSettings:
        most = self._settings.model_max_tokens
        return ModelSettings(
            max_tokens=most if prompt.max_output_tokens is None else min(most, prompt.max_output_tokens),
            request_timeout=self._settings.model_timeout,
            max_retries=0,
        )

    def _form(self, prompt: Prompt) -> ModelRequestParameters:
        """The form of the answer: the schema of a stage that is answered with JSON, else none."""
        answer = ANSWERS.get(type(prompt))
        if answer is None:
            return ModelRequestParameters()
        mode, schema, name = self._settings.model_output, answer.model_json_schema(), f"answer_{prompt.stage}"
        return ModelRequestParameters(
            output_mode=mode or "auto",
            output_object=OutputObjectDefinition(json_schema=schema, name=name),
            output_tools=[ToolDefinition(name=name, parameters_json_schema=schema, kind="output")],
            allow_text_output=mode != "tool",
        )

    def _completion(self, response: ModelResponse, prompt: Prompt) -> Completion:
        text = _text(response)
        refusal = self._refusal(response, prompt, text)
        return self._told(response, "" if refusal else text, refusal)

    def _told(
        self, response: ModelResponse, text: str = "", refusal: Refused | Unavailable | None = None
    ) -> Completion:
        return Completion(
            text=text,
            provider=self._provider,
            model=(response.model_name or self._name)[:MAX_NAME],
            input_tokens=_tokens(response.usage.input_tokens),
            output_tokens=_tokens(response.usage.output_tokens),
            cost_nano_usd=_cost(response),
            refusal=refusal,
        )

    def _refusal(self, response: ModelResponse, prompt: Prompt, text: str) -> Refused | None:
        """Why the answer is none, and what may help."""
        named = f"{self._provider}:{self._name}"
        if response.finish_reason == "content_filter":
            said = self._scrub(str((response.provider_details or {}).get("refusal") or "")[:MAX_NAME]).rstrip(".")
            return Refused(f"{named} would not answer{said and f': {said}'}. {NEXT_REFUSED}", code="answer_refused")
        if response.finish_reason == "length":
            after, budget = _tokens(response.usage.output_tokens), prompt.max_output_tokens
            limit = budget is None or budget >= self._settings.model_max_tokens
            whose = "the longest answer that is allowed" if limit else "what the budget leaves"
            cut_off = f"The answer of {named} was cut off after {after} tokens, {whose}."
            return Refused(cut_off, code="answer_cut_off")
        return None if text.strip() else Refused(f"{named} answered with nothing.", code="answer_empty")


def _text(response: ModelResponse) -> str:
    """What was answered: the text, or what the tool for the answer was called with. Several calls are a list."""
    calls = [part.args for part in response.parts if isinstance(part, ToolCallPart)]
    if calls:
        written = [args if isinstance(args, str) else _json(args or {}) for args in calls]
        return written[0] if len(written) == 1 else f"[{','.join(written)}]"
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _json(arguments: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(arguments).decode()
    except orjson.JSONEncodeError as error:
        return f"These arguments cannot be written as JSON: {error}"  # which is no JSON, and refused as such


def _tokens(told: int) -> int:
    return max(0, min(told, MAX_TOKENS))


def _cost(response: ModelResponse) -> int:
    """The price by the list that came with the client library; 0 where the model is not on it."""
    try:
        return max(0, min(int(response.cost().total_price * NANO), MAX_NANO_USD))
    except (LookupError, ValueError, AssertionError):
        return 0
