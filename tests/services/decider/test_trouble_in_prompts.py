"""What a model hears of trouble at run time: one neutral sentence, while people and the log get the whole reason."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Any, Final

import pytest
from doubles import Counting, World, our_actions
from minds import Honest
from modes import MODES

from builders import follow_up
from poweron_events.codes import CODES, FOR_PEOPLE, RUN_TIME
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.event import DocumentRef
from poweron_events.fold.evolve import evolve
from poweron_events.fold.history import reverse_chronological
from poweron_events.fold.stage_specs import PromptStage
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.request import Spent, workflow_id
from poweron_events.round_events import RoundEnd, RoundFailed
from poweron_events.step_events import ActionCompleted
from poweron_services.actions.action import Done
from poweron_services.connectors.document_reader import (
    ExtractedDocument,
    LoadBytes,
    OnPage,
    Section,
    UnreadableDocument,
)
from poweron_services.decider.approval import Approval
from poweron_services.decider.model_reasons import NEUTRAL, SAID
from poweron_services.intake.request_judge import summarise_rounds
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt
from poweron_services.roles import action_results

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
INSIDE: Final = (
    "openai:gpt-4o at https://azure.example/v1 (see /srv/poweron/key, POWERON_MODEL_TIMEOUT, OLLAMA_BASE_URL)"
)
"""What an error at run time may name."""
NAMES: Final = re.compile(
    r"(?i:openai|anthropic|mistral|azure|ollama|gpt-|scripted|extractive|https?://|/srv|/usr|/home|/tmp|errno)"
    r"|[A-Z]{3,}_[A-Z_]{3,}"
)
STAGES: Final[dict[str, tuple[PromptStage, ...]]] = {
    "React": ("plan", "select", "parameterize", "refine", "review", "message"),
    "Actionplan": ("plan", "plan_actions", "review", "message"),
}
Trouble = Completion | PowerOnError


@dataclass
class Troubled(Honest):
    """Has trouble at one stage, one after the other; else it is honest. A task that failed it wants to try again."""

    stage: PromptStage = "process"
    troubles: Iterable[Trouble] = ()

    def __post_init__(self) -> None:
        self.left = iter(self.troubles)

    async def complete(self, prompt: Prompt) -> Completion:
        met = next(self.left, None) if prompt.stage == self.stage else None
        if isinstance(met, PowerOnError):
            self.asked.append(prompt)
            raise met
        answer = await super().complete(prompt)
        return met or replace(answer, provider="openai", model="gpt-4o")

    def said(self, prompt: Prompt) -> str | dict[str, Any]:
        answer = super().said(prompt)
        if isinstance(answer, dict) and answer.get("status") == "failed":
            answer["status"] = "retry"
        return answer


def failure(code: str) -> PowerOnError:
    return Refused(f"It failed: {INSIDE}.", code=code)


def refusal(code: str) -> Completion:
    return Completion("", "openai", "gpt-4o", 10, 5, refusal=Refused(f"It did not answer: {INSIDE}.", code=code))


async def read_at_once(load: LoadBytes, _: int, name: str, *, on_page: OnPage | None = None) -> ExtractedDocument:
    return ExtractedDocument(name, "text/plain", (Section("", (await load()).decode()),), truncated=False, notes=())


@dataclass
class Ran:
    """What came of two rounds: the prompts of both, and what people can read."""

    prompts: list[Prompt]
    world: World
    accepted: list[Any] = field(default_factory=list)

    def check(self) -> None:
        """No prompt names what it must not."""
        for prompt in self.prompts:
            shown = str(prompt.render())
            assert not (named := NAMES.search(shown.replace(prompt.fence, ""))), (prompt.stage, named)

    @property
    def shown(self) -> str:
        return "\n".join(str(prompt.render()) for prompt in self.prompts)


async def ran(
    mode: str,
    model: Honest,
    *,
    actions: Sequence[Any] | None = None,
    content: ContentStore | None = None,
    approval: Approval | None = None,
    **fields: Any,
) -> Ran:
    """A round with trouble, and one that follows up on it without any."""
    given = [*await our_actions(read_at_once), Counting("web.read")] if actions is None else actions
    world = World(given, model=model)
    world.content = content or world.content
    data = b"It opens on 3 May."
    letter = DocumentRef(
        document_id="d1", document_name="letter.txt", mime_type="text/plain", size=len(data),
        content=await world.content.put(ID, data),
    )  # fmt: skip
    asked: dict[str, Any] = {"workflow_mode": mode, "documents": (letter,), "max_retries": 1, **fields}
    limits = {name: value for name, value in fields.items() if name == "stage_timeout_ms"}
    options: dict[str, Any] = {} if approval is None else {"approval": approval}
    async with world.process(**options):
        await world.ask(prompt="When does it open? Write it as a PDF.", **asked)
        first = await world.ended(ID)
        messages = reverse_chronological(first.current.messages)
        earlier = await summarise_rounds(1, messages, Spent(), partial(world.content.put, ID))
        opened = follow_up(2, workflow_mode=mode, documents=(letter,), earlier=earlier, max_retries=0, **limits)
        await world.tell(ID, opened)
        await world.until(ID, lambda workflow: len(workflow.openings) == 2)
        await world.ended(ID)
    return Ran(model.asked, world, world.accepted(ID))


def ending(ran: Ran) -> RoundEnd:
    return next(event for event in ran.accepted if isinstance(event, RoundEnd))


@pytest.mark.req("S8")
@pytest.mark.req("P-03")
@pytest.mark.req("P-07")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("codes", [sorted(RUN_TIME)[first : first + 9] for first in range(0, len(RUN_TIME), 9)])
async def test_of_an_action_that_met_trouble_a_model_hears_one_neutral_sentence(codes: list[str], mode: str) -> None:
    found = await ran(mode, Troubled(troubles=map(failure, codes)), max_retries=10)
    found.check()
    assert NEUTRAL in found.shown
    failed = [event for event in found.accepted if isinstance(event, ActionCompleted) and not event.success]
    assert [(event.code, event.error) for event in failed] == [(code, f"It failed: {INSIDE}.") for code in codes]
    errors = [message.error for message in told_to_people(found) if message.error]
    assert errors == [event.error for event in failed]


def told_to_people(found: Ran) -> Sequence[ChatMessage]:
    """The messages of both rounds, as the rows have them."""
    workflow, messages = Workflow(ID), dict[int, ChatMessage]()
    for recorded, _ in found.world.records(ID):
        workflow, _ = evolve(workflow, recorded)
        messages.update({message.seq: message for message in workflow.current.messages})
    return list(messages.values())


@pytest.mark.req("S8")
@pytest.mark.req("P-07")
@pytest.mark.parametrize(("mode", "stage"), [(mode, stage) for mode in MODES for stage in STAGES[mode]])
async def test_of_a_stage_that_failed_the_next_round_hears_the_same_sentence(mode: str, stage: PromptStage) -> None:
    found = await ran(mode, Troubled(stage=stage, troubles=[failure("model_access_denied")]))
    found.check()
    assert INSIDE in ending(found).message, "people are told what happened"
    assert (NEUTRAL in found.shown) == (stage != "message")


@pytest.mark.req("S8")
@pytest.mark.req("P-07")
@pytest.mark.parametrize(("mode", "stage"), [(mode, stage) for mode in MODES for stage in STAGES[mode]])
async def test_of_an_answer_that_is_none_a_model_hears_what_helps_and_no_name(mode: str, stage: PromptStage) -> None:
    found = await ran(mode, Troubled(stage=stage, troubles=map(refusal, ("answer_cut_off", "answer_refused"))))
    found.check()
    if stage != "message":
        assert SAID["answer_cut_off"] in found.shown
    if isinstance(said := ending(found), RoundFailed) and said.code == "answers_rejected":
        assert "The answer came from the model openai:gpt-4o." in said.message
        assert INSIDE in said.message, "people are told what happened"


@pytest.mark.req("S8")
@pytest.mark.parametrize("mode", MODES)
async def test_an_action_whose_question_was_not_answered_says_what_helps(mode: str) -> None:
    troubles = [refusal("answer_refused"), failure("prompt_too_long")]
    found = await ran(mode, Troubled(troubles=troubles), max_retries=2)
    found.check()
    assert SAID["answer_refused"] in found.shown
    assert SAID["prompt_too_long"] in found.shown


class Unstoring(ContentStore):
    """A store that takes prompts and answers, and not the documents of actions."""

    async def put_all(self, workflow_id: str, contents: Sequence[bytes]) -> Sequence[str]:
        if len(contents) == 1 and contents[0].startswith(b"42"):
            raise Unavailable(f"The content store did not answer: {INSIDE}", code="content_store_unavailable")
        return await super().put_all(workflow_id, contents)


def breaking() -> Done:
    raise RuntimeError(INSIDE)


def unreachable() -> Done:
    raise Unavailable(f"No process could be started: [Errno 2] {INSIDE}")


@pytest.mark.req("S8")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("result", [breaking, unreachable])
async def test_an_action_that_breaks_is_told_neutrally(mode: str, result: Callable[[], Done]) -> None:
    actions = [*await our_actions(read_at_once), Counting("web.read", result=result)]
    found = await ran(mode, Troubled(), actions=actions)
    found.check()
    assert NEUTRAL in found.shown


@pytest.mark.req("S8")
@pytest.mark.parametrize("mode", MODES)
async def test_a_result_that_could_not_be_stored_is_told_neutrally(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_results, "STORE_TIMEOUT", 0.1)
    found = await ran(mode, Troubled(), content=Unstoring.at("memory:///"), max_retries=0)
    found.check()
    assert NEUTRAL in found.shown


@pytest.mark.req("S8")
@pytest.mark.parametrize("mode", MODES)
async def test_a_stage_that_was_not_done_in_time_is_told_neutrally(mode: str) -> None:
    away = Unavailable(f"It is away: {INSIDE}", code="model_unavailable")
    found = await ran(mode, Troubled(stage="review", troubles=repeat(away)), stage_timeout_ms=1_000)
    found.check()
    assert INSIDE in ending(found).message


# --- what the work itself is at fault for stays useful ---------------------------------------------------------


@pytest.mark.req("S8")
@pytest.mark.req("L-10")
@pytest.mark.parametrize("mode", MODES)
async def test_a_document_that_cannot_be_read_is_told_by_its_name_and_reason(mode: str) -> None:
    async def read(_: LoadBytes, __: int, name: str, *, on_page: object = None) -> ExtractedDocument:
        raise UnreadableDocument(name, "is protected by a password; save it without one.", "document_protected")

    found = await ran(mode, Troubled(), actions=[*await our_actions(read), Counting("web.read")])
    found.check()
    assert "'letter.txt' is protected by a password; save it without one." in found.shown
    assert NEUTRAL not in found.shown


@pytest.mark.req("S8")
@pytest.mark.parametrize("mode", MODES)
async def test_what_is_denied_and_what_is_used_up_is_told_in_words_of_the_work(mode: str) -> None:
    denied = await ran(mode, Troubled(), denied_methods=("web.read",))
    denied.check()
    assert "'web.read' is not an action of this task; choose one of" in denied.shown
    unapproved = await ran(mode, Troubled(), approval=Approval(frozenset({"web.*"}), expires_ms=1))
    unapproved.check()
    assert "Nobody approved the action in time." in unapproved.shown
    used_up = await ran(mode, Troubled(), budgets={"task_tokens": 1_500})
    used_up.check()


@dataclass
class Wrong(Troubled):
    """Sets a parameter to what the action does not take."""

    def said(self, prompt: Prompt) -> str | dict[str, Any]:
        answer = super().said(prompt)
        for holder in answer.get("actions", [answer]) if isinstance(answer, dict) else ():
            if "aiPrompt" in holder.get("parameters", {}):
                holder["parameters"]["processingMode"] = "fast"
        return answer


@pytest.mark.req("S8")
@pytest.mark.parametrize("mode", MODES)
async def test_a_wrong_parameter_is_told_with_the_values_that_fit(mode: str) -> None:
    found = await ran(mode, Wrong())
    found.check()
    assert "processingMode must be 'basic' or 'advanced'" in found.shown


def test_every_trouble_of_a_model_or_a_store_is_one_of_run_time() -> None:
    assert CODES.keys() > RUN_TIME
    assert SAID.keys() == FOR_PEOPLE - RUN_TIME
    of_others = {code for code in CODES if code.startswith(("model_", "content_store_", "search_"))}
    assert of_others - {"search_unavailable"} <= RUN_TIME  # that there is none, a model has to know
    assert RUN_TIME.isdisjoint(SAID)
    assert not NAMES.search(" ".join([NEUTRAL, *SAID.values()]))
