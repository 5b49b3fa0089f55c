"""All actions of a task at once (Actionplan mode, deprecated): those that stage 1 would come to one by one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from poweron_events.fold.history import list_reference
from poweron_events.fold.state import ChatMessage, action_label
from poweron_services.decider.rules import WRITING
from poweron_services.models.answers import ActionAnswer, ActionsAnswer
from poweron_services.models.builtin.parameters import context, said
from poweron_services.models.builtin.selecting import MAX_LEARNINGS, Choice, choose
from poweron_services.models.prompts import ActionsPrompt, DocumentLine, SelectionPrompt

WRITTEN_LATER: Final = ("", "", 0)  # name, type and size of a document that an action of the plan will have written


def plan_actions(prompt: ActionsPrompt) -> str:
    """The whole list, as if every action of it succeeded."""
    actions = tuple(_action(choice, prompt.improvements) for choice in _choices(prompt))
    return ActionsAnswer(actions=actions).model_dump_json(by_alias=True)


def _action(choice: Choice, learnings: tuple[str, ...]) -> ActionAnswer:
    return ActionAnswer(
        action=choice.action,
        action_objective=choice.objective,
        learnings=learnings[:MAX_LEARNINGS],
        required_input_documents=choice.references,
        parameters=said(context(**choice.values)),
    )


def _choices(prompt: ActionsPrompt) -> Iterator[Choice]:
    """One action after the other, until one writes the result or no steps are left."""
    shown = _stage_1(prompt)
    for number in range(prompt.first_action, prompt.first_action + prompt.max_steps):
        choice = choose(shown)
        yield choice
        if choice.action in WRITING:
            return
        shown = _after(shown, choice, f"{prompt.place}_action{number}_{action_label(choice.action)}")


def _stage_1(prompt: ActionsPrompt) -> SelectionPrompt:
    """What stage 1 would show before the first action."""
    shown = prompt.shown()
    told = {name: shown[name] for name in shown if name not in ("max_steps", "place", "first_action")}
    return SelectionPrompt(template=prompt.template, **told, hint=None, steps_left=prompt.max_steps)


def _after(shown: SelectionPrompt, choice: Choice, label: str) -> SelectionPrompt:
    """What stage 1 would show once the action has succeeded: its step in the history, its documents in the index."""
    name, mime_type, size = WRITTEN_LATER
    document = DocumentLine(list_reference(label), label, name, mime_type, size)
    step = ChatMessage(
        seq=0,
        time_ms=0,
        kind="step",
        status="step",
        round=_round(shown),
        action=choice.action,
        success=True,
        message=choice.objective,
    )
    return replace(
        shown,
        documents=(document, *shown.documents),
        history=(step, *shown.history),
        steps_left=shown.steps_left - 1,
    )


def _round(shown: SelectionPrompt) -> int:
    return max((message.round for message in shown.history), default=1)
