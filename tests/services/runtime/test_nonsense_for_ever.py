"""A model that answers nonsense for ever: every workflow ends within its budgets, with a reason that a person understands."""

import random
import re
from typing import Any

import pytest
from bounds import most_calls
from doubles import Counting, World, our_actions
from hypothesis import given, settings
from hypothesis import strategies as st
from minds import NONSENSE, PLAN, Honest, Nonsensical, completion
from modes import MODES

from poweron_events.codec import dumps
from poweron_events.event import DocumentRef
from poweron_events.request import Budgets, workflow_id
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
LETTER = b"The exhibition opens on 3 May."
LIMITS: dict[str, Any] = {"max_steps": 4, "max_retries": 1, "budgets": Budgets(workflow_tokens=50_000)}
MOST = most_calls(tasks=1, max_steps=4, max_retries=1)
INSIDE = re.compile(r"Traceback|pydantic|Error\(|<class|0x[0-9a-f]{6}|\bNone\b")
"""What speaks of our own inside, not to a person."""


async def ended(model: Honest, mode: str, **limits: Any) -> tuple[World, Any]:
    """The world after the round, and its last event."""
    world = World([*await our_actions(), Counting("web.read")], model=model)
    content = await world.content.put(ID, LETTER)
    letter = DocumentRef(
        document_id="d1", document_name="letter.txt", mime_type="text/plain", size=len(LETTER), content=content
    )
    async with world.process():
        asked = "When does it open? Write it as a PDF."  # a short answer alone needs no final message
        await world.ask(prompt=asked, workflow_mode=mode, documents=(letter,), **{**LIMITS, **limits})
        await world.ended(ID)
    return world, world.accepted(ID)[-1]


def check_ending(world: World, ending: Any) -> None:
    assert type(ending).__name__ in ("RoundFailed", "RoundCompleted")
    assert ending.message.strip()
    assert not INSIDE.search(ending.message)
    assert ending.totals.steps <= LIMITS["max_steps"] * (1 + LIMITS["max_retries"])
    assert ending.totals.input_tokens + ending.totals.output_tokens <= LIMITS["budgets"].workflow_tokens
    assert len(world.model.asked) <= MOST
    if type(ending).__name__ == "RoundFailed":
        assert re.match(r"[A-Z].*[.!?…]$", ending.reason.strip(), re.DOTALL), ending.reason
        assert not INSIDE.search(ending.reason), ending.reason
        assert ending.message.startswith("The request could not be completed. ")


@pytest.mark.req("L-10")
@pytest.mark.req("S42")
@pytest.mark.req("L-02")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", NONSENSE)
async def test_nonsense_for_ever_ends_as_failed_after_two_answers(kind: str, mode: str) -> None:
    world, ending = await ended(Nonsensical(kinds=[kind]), mode)
    check_ending(world, ending)
    assert type(ending).__name__ == "RoundFailed"
    assert len(world.model.asked) <= 2
    assert ending.reason.startswith(("No plan could be made. ", "An unexpected error"))


@pytest.mark.req("L-10")
@pytest.mark.req("S42")
@pytest.mark.req("S41")
@settings(deadline=None, max_examples=100)
@given(
    kinds=st.lists(st.sampled_from(["good", "good", *NONSENSE]), min_size=2, max_size=12),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 1_000),
)
async def test_whatever_good_and_bad_answers_follow_each_other_the_round_ends_within_its_limits(
    kinds: list[str], mode: str, seed: int
) -> None:
    world, ending = await ended(Nonsensical(kinds=kinds, chance=random.Random(seed)), mode)
    check_ending(world, ending)


class From(Honest):
    """Honest, and from one kind of prompt on only nonsense to prompts of that kind."""

    def __init__(self, stage: str, said: str) -> None:
        super().__init__()
        self.stage, self.nonsense = stage, said

    async def complete(self, prompt: Prompt) -> Completion:
        good = await super().complete(prompt)
        return completion(prompt, self.nonsense) if prompt.stage == self.stage else good


@pytest.mark.req("L-10")
@pytest.mark.req("L-02")
@pytest.mark.parametrize(
    ("stage", "mode", "said"),
    [
        ("plan", "React", "No plan could be made. "),
        ("plan_actions", "Actionplan", "No actions could be planned. "),
        ("select", "React", "The model's proposals were refused twice: "),
        ("parameterize", "React", "The model's proposals were refused twice: "),
        ("review", "React", None),
        ("review", "Actionplan", "The model's review could not be used. "),
        ("refine", "React", None),
        ("message", "React", None),
    ],
)
async def test_nonsense_of_one_stage_is_asked_for_twice_and_the_reason_names_what_it_was_about(
    stage: str, mode: str, said: str | None
) -> None:
    model = From(stage, "{}" if stage != "message" else " ")
    world, ending = await ended(model, mode)
    check_ending(world, ending)
    asked = sum(prompt.stage == stage for prompt in model.asked)
    assert asked == (1 if stage == "message" else 2)
    if said is None:
        assert type(ending).__name__ in ("RoundCompleted", "RoundFailed")
    else:
        assert ending.reason.startswith(said)


HUGE = "x" * 10_000_000
"""10 MB that are no JSON, or stand beside a plan that would do."""


@pytest.mark.req("S42")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("said", [HUGE, dumps({"tasks": [PLAN], "thought": HUGE}).decode()], ids=["prose", "JSON"])
async def test_ten_megabytes_from_a_model_that_knows_no_limit_end_the_round_as_failed(mode: str, said: str) -> None:
    class Huge(Honest):
        async def complete(self, prompt: Prompt) -> Completion:
            self.asked.append(prompt)
            return Completion(said, provider="test", model="huge", input_tokens=10, output_tokens=10)

    world, ending = await ended(Huge(), mode)
    check_ending(world, ending)
    assert (type(ending).__name__, len(world.model.asked)) == ("RoundFailed", 2)
    assert len(ending.reason) < 4_000
