"""A model that does research as it is told to: it searches, scrapes, crawls what it has read, and answers with quotes.

It looks at nothing but the prompt, so that a process which takes over goes on where another one was killed.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from minds import completion
from museum_site import BUILDER, FAMILY, FARE

from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import (
    ActionsPrompt,
    ParametersPrompt,
    PlanningPrompt,
    ProcessPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
    SourceText,
)

QUESTION: Final = "What does a ticket of the Clock Museum cost, and who built the great clock?"
CRITERION: Final = "The ticket and who built the clock are named with sources."
COURSE: Final = ("web.search", "web.scrape", "web.crawl", "ai.process")
INPUTS: Final = {"web.search": (), "web.scrape": (), "web.crawl": ("_scrape",), "ai.process": ("_scrape", "_crawl")}
"""The ends of the labels of the results that each action works on."""
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "web.search": {"query": "Clock Museum ticket", "maxResults": 5},
    "web.scrape": {"query": QUESTION, "maxResults": 8},
    "web.crawl": {"extractDepth": "basic"},
    "ai.process": {"aiPrompt": QUESTION},
}
WANTED: Final = {"The ticket": FARE, "The builder": BUILDER, "Families": FAMILY}
"""What the answer says, and the sentence that it quotes for it."""


@dataclass
class Researcher:
    """Does what `COURSE` says, in either mode; every statement of its answer quotes the page that it cites."""

    asked: list[Prompt] = field(default_factory=list)

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        return completion(prompt, self.said(prompt))

    def said(self, prompt: Prompt) -> str | dict[str, Any]:  # noqa: PLR0911 - one case per prompt
        match prompt:
            case PlanningPrompt():
                task = {"objective": QUESTION, "successCriteria": [CRITERION], "taskType": "lookup"}
                return {"tasks": [task]}
            case ActionsPrompt():
                actions = [self.action(name, prompt) for name in COURSE]
                return {"actions": [{**action, "parameters": PARAMETERS[action["action"]]} for action in actions]}
            case SelectionPrompt(history=history):
                done = [message.action for message in history if message.kind == "step" and message.success]
                return self.action(next((name for name in COURSE if name not in done), COURSE[-1]), prompt)
            case ParametersPrompt(selected_action=name):
                return {"schema": "parameters_v1", "parameters": PARAMETERS[name]}
            case RefinementPrompt(observation=seen) if not seen.success:
                return {"decision": "stop", "reason": "It failed.", "classification": "failed"}
            case RefinementPrompt(selected_action=name):
                return _refinement(done=name == COURSE[-1])
            case ReviewPrompt(stopped_because=why, last_observation=last):
                done = last is not None and last.success
                return {"status": "success" if done else "failed", "reason": "It is answered." if done else why}
            case ProcessPrompt(documents=documents):
                return answer(documents)
            case _:
                return "The ticket and the builder are named."

    def action(self, name: str, prompt: ActionsPrompt | SelectionPrompt) -> dict[str, Any]:
        """The action on the newest results that it works on."""
        labels = [line.label for line in prompt.documents]
        if isinstance(prompt, ActionsPrompt):
            steps = enumerate(COURSE, start=prompt.first_action)
            labels = [f"{prompt.place}_action{number}_{step.partition('.')[2]}" for number, step in steps]
        inputs = [f"docList:{next(label for label in labels if label.endswith(end))}" for end in INPUTS[name]]
        return {"action": name, "actionObjective": QUESTION, "requiredInputDocuments": inputs}


def _refinement(*, done: bool) -> dict[str, Any]:
    progress = {"criterion": CRITERION, "met": done, "progress": 1000 if done else 300}
    decision = "stop" if done else "continue"
    return {"decision": decision, "reason": "So be it.", "classification": "success", "criteriaProgress": [progress]}


def answer(documents: tuple[SourceText, ...]) -> str:
    """A statement for all that is wanted, with the number of the page whose words it quotes."""
    statements = (_statement(what, quote, documents) for what, quote in WANTED.items())
    return "\n\n".join(statement for statement in statements if statement)


def _statement(what: str, quote: str, documents: tuple[SourceText, ...]) -> str:
    number = next((document.number for document in documents if quote in " ".join(document.text.split())), None)
    return "" if number is None else f"{what} is told so: \u201c{quote}\u201d [{number}]."
