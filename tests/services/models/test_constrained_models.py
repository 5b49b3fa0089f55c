"""A model that understands nothing, held to the schema by its server: every round ends, and no form is refused."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from constrained import Constrained
from doubles import Counting, World, our_actions
from test_answer_schemas import FOREIGN

from builders import document
from poweron_events.catalog import ActionSpec
from poweron_events.codes import CODES
from poweron_events.request import workflow_id
from poweron_events.round_events import AnswerRejected
from poweron_events.step_events import ParametersRejected, SelectionRejected
from poweron_services.settings.config import Provider

pytestmark = pytest.mark.usefixtures("logged")

REJECTIONS = AnswerRejected | SelectionRejected | ParametersRejected
WHOLE: tuple[Provider, ...] = ("openai", "openai-responses", "ollama")
"""Whose dialect says all that a schema can: llama.cpp and vLLM are asked as OpenAI is."""
FEW = [
    each if each in ("openai", "anthropic", "azure") else pytest.param(each, marks=pytest.mark.soak)
    for each in get_args(Provider)
]
"""Those of different dialects."""
SEEDS = range(3)


@dataclass
class Foreign(Counting):
    """A tool of a server whose schema is unusual."""

    described: ActionSpec = field(default_factory=lambda: FOREIGN["bare.call"])

    @property
    def spec(self) -> ActionSpec:
        return self.described


async def ended(provider: Provider, seed: int, mode: str) -> tuple[World, str, Constrained]:
    model = Constrained(provider, random.Random(seed))
    tools = [Foreign(name, described=spec) for name, spec in FOREIGN.items()]
    world = World([*await our_actions(), *tools], model=model)
    id_ = workflow_id("/tests", str(seed))
    held = await world.content.put(id_, b"The total is 42.")
    named = {"mime_type": "text/plain", "size": 16, "content": held}
    documents = [document(f"file {at}.txt", document_id=f"d{at}", **named) for at in range(3)]
    async with world.process():
        await world.ask(
            str(seed),
            prompt="What is the total?",
            workflow_mode=mode,
            connections=("crm",),
            documents=tuple(documents),
            max_steps=4,
        )
        await world.ended(id_)
    return world, id_, model


@pytest.mark.req("P-02")
@pytest.mark.parametrize("mode", ["React", "Actionplan"])
@pytest.mark.parametrize("provider", FEW)
async def test_whatever_a_constrained_model_says_the_round_ends_and_its_form_is_taken(
    provider: Provider, mode: str
) -> None:
    answers, rejected, stages = 0, Counter[str](), set[str]()
    for seed in SEEDS:
        world, id_, model = await ended(provider, seed, mode)
        accepted: list[Any] = world.accepted(id_)
        answers += sum(model.answered.values())
        stages |= model.answered.keys()
        rejected.update(str(each.code) for each in accepted if isinstance(each, REJECTIONS))
        ending = accepted[-1]
        assert type(ending).__name__ in ("RoundCompleted", "RoundFailed")
        assert type(ending).__name__ == "RoundCompleted" or ending.code in CODES
    if provider in WHOLE:
        assert not rejected
        assert {"plan", "refine" if mode == "React" else "plan_actions", "review"} <= stages
    assert answers >= 2 * len(SEEDS)
