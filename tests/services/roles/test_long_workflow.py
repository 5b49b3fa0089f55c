"""A workflow of very many steps, as its roles record it: every prompt stays bounded and names the newest results."""

from functools import partial
from typing import Any

import pytest
from doubles import Counting, World
from minds import Honest
from test_prompts import MOST

from builders import follow_up
from poweron_events.fold.history import render, reverse_chronological
from poweron_events.request import Spent, workflow_id
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Done, document
from poweron_services.intake.request_judge import summarise_rounds
from poweron_services.models.prompts import (
    ActionsPrompt,
    PlanningPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")


class Endless(Honest):
    """Reads one page after the other, and wants it all once more."""

    def said(self, prompt: Prompt) -> str | dict[str, Any]:
        match prompt:
            case ActionsPrompt():
                return {"actions": [{"action": "web.read", "actionObjective": "Read on"}]}
            case SelectionPrompt():
                return {"action": "web.read", "actionObjective": "Read on", "learnings": ["l" * 500] * 3}
            case RefinementPrompt():
                hint = f"Read on. {'h' * 1_000}"
                return {"decision": "continue", "reason": "More.", "hint": hint, "classification": "success"}
            case ReviewPrompt(retries_left=left):
                return {"status": "retry" if left else "success", "improvements": ["i" * 500] * 20}
            case _:
                return super().said(prompt)


def page() -> Done:
    documents = tuple(
        document(f"{'p' * 100}-{number}.md", "It opens soon. " * 100, "text/markdown") for number in (1, 2)
    )
    return Done(ActionResult(success=True, documents=documents), tuple(["n" * 300] * 5))


@pytest.mark.req("P-09")
@pytest.mark.req("M-06")
async def test_a_recorded_workflow_of_200_messages_keeps_its_prompts_bounded() -> None:
    model = Endless()
    world = World([Counting("web.read", result=page)], model=model)
    async with world.process():
        await world.ask(max_steps=100, max_retries=1)
        ended = await world.until(ID, lambda workflow: workflow.phase == "ended")
        assert ended.current.ending == "completed"
        steps = [message for message in ended.current.messages if message.kind == "step"]
        assert len(steps) == 200
        selections = [prompt for prompt in model.asked if isinstance(prompt, SelectionPrompt)]
        assert len(selections) == 200
        for number, prompt in enumerate(selections[1:], start=1):
            data = prompt.render().data
            assert f"docList:round1_task1_action{number}_read" in data, "the newest result is not named"
        last = selections[-1].render().data
        assert render(steps[-2])[:150] in last
        assert "more are left out.)" in last
        assert "docList:round1_task1_action7_read" not in last

        newest_first = reverse_chronological(ended.current.messages)
        earlier = await summarise_rounds(1, newest_first, Spent(), partial(world.content.put, ID))
        assert "docList:round1_task1_action200_read" in earlier.history
        await world.tell(ID, follow_up(2, workflow_mode="Actionplan", max_retries=0, earlier=earlier))
        await world.until(ID, lambda workflow: len(workflow.openings) == 2)
        await world.ended(ID)
    assert {PlanningPrompt, ActionsPrompt, ReviewPrompt} <= {type(prompt) for prompt in model.asked}
    assert max(len(str(prompt.render())) for prompt in model.asked) < MOST
