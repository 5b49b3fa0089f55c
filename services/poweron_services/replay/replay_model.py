"""The model of a replay: it returns the recorded answers and compares each prompt with the recorded one.

Events are compared field by field, except for fields that differ by nature.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

import orjson

from poweron_events.codes import FOR_PEOPLE, BudgetCode
from poweron_events.errors import PowerOnError, Refused
from poweron_events.event import Event, FailedCalls, ModelCall
from poweron_events.fold.costs import failed_calls
from poweron_events.round_events import BudgetRequested, RoundCompleted, StageFailed
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.rules import BudgetUsedUp, Stop
from poweron_services.models.chat_model import Completion, FinishReason
from poweron_services.models.prompts import Prompt
from poweron_services.models.time_limit import AnswersLost, LostAnswer, current_limit
from poweron_services.replay.earlier_release import EarlierPrompts
from poweron_services.replay.prompt_check import ERASED, NO_PROMPT, NOT_KEPT, CheckedPrompt, StoredPrompt, check_prompt

UNTOLD: Final = "What kept the model from answering is not known any more."
"""A placeholder for a sentence that was not recorded; in a comparison, it matches any text."""
UNUSABLE: Final = ("answer_cut_off", "prompt_too_long", "answer_refused", "answer_empty")
"""Why a final message may have been unusable; its event does not say which."""


class NotAnswered(PowerOnError):
    """No answer was recorded for the question that is asked now."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A recorded call with its stored prompt and answer; None for what is no longer stored."""

    call: ModelCall
    prompt: bytes | None
    answer: bytes | None
    is_altered: bool = False
    """Whether the prompt or the answer does not match the event's commitment."""


@dataclass(slots=True)
class StoredAnswers:
    """Returns the answers to the calls that led to one event, in order."""

    event: WorkflowEvent
    calls: Sequence[StoredCall]
    earlier: EarlierPrompts
    by_earlier: bool
    """Whether an earlier release made the calls."""
    unusable: str | None = None
    """The code of why a final message was unusable."""
    prompts: list[CheckedPrompt] = field(default_factory=list)
    shown: list[Prompt] = field(default_factory=list)
    answers_missing: bool = False
    unasked: bool = False
    """Whether a model is asked now that was not asked then."""

    async def complete(self, prompt: Prompt) -> Completion:
        self.shown.append(prompt)
        _count_failed(failed_calls(self.event) if len(self.shown) == 1 else ())
        if len(self.shown) > len(self.calls):
            raise self._no_answer(prompt)
        stored = self.calls[len(self.shown) - 1]
        self.prompts.append(self._check(prompt, stored))
        if stored.answer is None:
            raise self._missing_answer(stored)
        return _completion(stored.call, stored.answer.decode("utf-8", errors="replace"), self._refusal())

    @property
    def prompt(self) -> CheckedPrompt:
        """The result of comparing the prompts: that of the first one that is not the same, if any."""
        if len(self.shown) < len(self.calls):
            return CheckedPrompt("differs", "A model was asked then, and would not be asked now.")
        return next((check for check in self.prompts if check.sameness != "same"), (*self.prompts, NO_PROMPT)[0])

    @property
    def day_left_ms(self) -> int:
        """The rest of the day, in ms, when the round asked about a daily limit; 0 if it did not ask."""
        return self.event.expires_ms if isinstance(self.event, BudgetRequested) else 0

    def _check(self, prompt: Prompt, stored: StoredCall) -> CheckedPrompt:
        if stored.prompt is None:
            return CheckedPrompt("inconclusive", NOT_KEPT if stored.call.prompt_ref is None else ERASED)
        return check_prompt(prompt, stored.call, StoredPrompt(stored.prompt), self.earlier, by_earlier=self.by_earlier)

    def _no_answer(self, prompt: Prompt) -> PowerOnError:
        """Return the error that kept the model from answering then, if the event records it."""
        event, code = self.event, getattr(self.event, "code", None)
        reason = event.error if isinstance(event, StageFailed) else getattr(event, "reason", "")
        if code in get_args(BudgetCode):
            if prompt.allowance is not None or code == "daily_limit":  # what others used that day is not known here
                return BudgetUsedUp(Stop(cast("BudgetCode", code), reason))
        elif isinstance(event, StageFailed):
            return PowerOnError(reason, code=event.code)
        elif isinstance(event, RoundCompleted):
            return PowerOnError(UNTOLD)
        self.unasked = True
        return NotAnswered("A model would be asked now, and none was asked then.")

    def _missing_answer(self, stored: StoredCall) -> PowerOnError:
        if stored.call.answer_ref is None and isinstance(self.event, RoundCompleted):
            return AnswersLost([LostAnswer(stored.call, UNTOLD)])
        self.answers_missing = True
        return NotAnswered("The answer is not there any more.")

    def _refusal(self) -> Refused | None:
        """Return why a provider declared its answer unusable, which only the event records."""
        code = getattr(self.event, "code", None)
        reason = getattr(self.event, "reason", None)
        if reason is not None and code in FOR_PEOPLE and _is_rejection(self.event):
            return Refused(reason, code=code)
        return None if self.unusable is None else Refused(UNTOLD, code=self.unusable)


def may_be_unusable(event: WorkflowEvent) -> bool:
    """Return whether an answer for this event may have been unusable without the event saying so."""
    return isinstance(event, RoundCompleted) and bool(event.model_calls)


def _is_rejection(event: Event) -> bool:
    return type(event).__name__.endswith("Rejected")


def _count_failed(calls: Sequence[FailedCalls]) -> None:
    """Report the calls that failed then to the current time limit, because budgets count them."""
    limit = current_limit()
    for call in calls if limit is not None else ():
        assert limit is not None
        limit.call_failed(call, None)


def _completion(call: ModelCall, text: str, refusal: Refused | None) -> Completion:
    return Completion(
        text=text,
        provider=call.provider,
        model=call.model,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cost_nano_usd=call.cost_nano_usd,
        usage_estimated=call.usage_estimated,
        refusal=refusal,
        finish_reason=cast("FinishReason | None", call.finish_reason),
        cached_input_tokens=call.cached_input_tokens,
        reasoning_tokens=call.reasoning_tokens,
    )


BY_NATURE: Final = frozenset(
    {"durationMs", "tries", "promptRef", "answerRef", "template", "templateSha256", "failedCalls", "reservations"}
)
"""Durations, retries, reservations, references to stored bytes, and the template, which is compared with the prompt."""
LONGEST: Final = 80  # characters of a value to show


def differences(
    data: Mapping[str, Any], event: WorkflowEvent, *, only: Collection[str] | None = None, earlier: bool = False
) -> list[str]:
    """Return a sentence for each difference between the recorded data and the event.

    An event of an earlier release lacks fields that were added later: only those it has are compared. `only` names the
    fields to compare at all.
    """
    now = orjson.loads(orjson.dumps(event.model_dump(mode="json", by_alias=True)))
    only_given = only is not None or earlier
    then = data if only is None else {name: value for name, value in data.items() if name in only}
    return list(_parts(then, now, "", only_given=only_given))


def _parts(then: Any, now: Any, at: str, *, only_given: bool) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        names = then.keys() if only_given else then.keys() | now.keys()
        for name in sorted(names - BY_NATURE):
            inner = f"{at}.{name}" if at else name
            yield from _parts(then.get(name), now.get(name), inner, only_given=only_given)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (old, new) in enumerate(zip(then, now, strict=True)):
            yield from _parts(old, new, f"{at}[{number}]", only_given=only_given)
    elif then != now and not _is_untold(then, now):
        yield f"{at} was {_text(then)} and is {_text(now)}."


def _is_untold(then: Any, now: Any) -> bool:
    """Return whether the texts are the same except for a sentence that is no longer known."""
    if not isinstance(then, str) or not isinstance(now, str) or UNTOLD not in now:
        return False
    begin, _, end = now.partition(UNTOLD)
    return then.startswith(begin) and then.endswith(end)


def _text(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
