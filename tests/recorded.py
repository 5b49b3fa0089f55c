"""Histories as the roles of this version write them: real runs, with all that chance and clocks decide made the same.

told = recorded("retry_after_a_failure")       # every record of the run, as often as one likes the same bytes
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from doubles import Counting, World, our_actions
from minds import Honest
from structlog.testing import capture_logs

from builders import TIME, Told, follow_up, identity
from poweron_events import codec
from poweron_events.envelope import Recorded
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Workflow, parameters_sha256, step_place
from poweron_events.request import Budgets, workflow_id
from poweron_events.step_events import ActionResult, ApprovalDenied, ApprovalGranted
from poweron_services.actions.action import Done, document
from poweron_services.decider.approval import Approval
from poweron_services.models.prompts import Prompt, ReviewPrompt

ID = workflow_id("/tests", "1")
LETTER = b"# Letter\n\nThe exhibition opens on 3 May.\n"
NO_LETTER = b"%PDF-1.7"
PROMPT = "When does the exhibition open?"


class Clumsy(Honest):
    """Answers two stages uselessly at first, and wants a task that failed to be tried again."""

    def said(self, prompt: Prompt) -> str | dict[str, Any]:
        if isinstance(prompt, ReviewPrompt) and prompt.retries_left == 1:
            return {"status": "retry", "reason": "The page was not read.", "improvements": ["Read it again."]}
        first = sum(asked.stage == prompt.stage for asked in self.asked) == 1
        return "Certainly!" if first and prompt.stage in ("select", "parameterize") else super().said(prompt)


@dataclass
class Failing(Counting):
    """Reads no page the first time."""

    name: str = "web.read"

    def __post_init__(self) -> None:
        page = document("May.md", "It opens on 3 May.", "text/markdown")
        good = Done(ActionResult(success=True, documents=(page,)), ("One page was read.",))
        bad = Done(ActionResult(success=False, error="The page cannot be reached."))
        self.result = lambda: good if len(self.runs) > 1 else bad


async def _world(model: Honest | None = None, **asked: Any) -> World:
    reading = Failing() if isinstance(model, Clumsy) else Counting("web.read")
    world = World([*await our_actions(), reading], model=model or Honest())
    await world.ask(prompt=PROMPT, documents=(await _letter(world, 1),), **asked)
    return world


async def limited(task_tokens: int) -> World:
    """A run that may take so many tokens for its task."""
    world = await _world(budgets=Budgets(task_tokens=task_tokens))
    async with world.process():
        await world.ended(ID)
    return world


async def _letter(world: World, round_number: int) -> DocumentRef:
    return DocumentRef(
        document_id=f"r{round_number}d1",
        document_name="letter.md",
        mime_type="text/markdown",
        size=len(LETTER),
        content=await world.content.put(ID, LETTER),
    )


async def _react() -> World:
    world = await _world()
    async with world.process():
        await world.ended(ID)
    return world


async def _retry_after_a_failure() -> World:
    world = await _world(Clumsy(), max_retries=1)
    async with world.process():
        await world.ended(ID)
    return world


async def _actionplan() -> World:
    world = await _world(workflow_mode="Actionplan")
    async with world.process():
        await world.ended(ID)
    return world


async def _actionplan_retried() -> World:
    world = await _world(Clumsy(), workflow_mode="Actionplan", max_retries=1)
    async with world.process():
        await world.ended(ID)
    return world


async def _two_rounds() -> World:
    world = await _world()
    async with world.process():
        await world.ended(ID)
        documents = (await _letter(world, 2),)
        await world.tell(ID, follow_up(2, prompt="And where is it?", documents=documents, workflow_mode="Actionplan"))
        await world.until(ID, lambda workflow: len(workflow.openings) == 2)
        await world.ended(ID)
    return world


async def _approval() -> World:
    world = await _world(max_retries=0)
    async with world.process(approval=Approval(frozenset({"web.*", "ai.*"}))):
        for answer in (ApprovalGranted, ApprovalDenied):
            waiting = await world.phase(ID, "approve")
            await world.tell(ID, _answer(answer, waiting))
            await world.until(ID, lambda workflow: workflow.phase != "approve")
        await world.ended(ID)
    return world


def _answer(kind: type[Any], workflow: Workflow) -> Any:
    return kind(
        **step_place(workflow),
        parameters_sha256=parameters_sha256(workflow),
        reason="Looked at.",
        request=identity(f"{kind.__name__}"),
    )


RUNS: dict[str, Callable[[], Awaitable[World]]] = {
    "react": _react,
    "retry_after_a_failure": _retry_after_a_failure,
    "actionplan": _actionplan,
    "actionplan_retried": _actionplan_retried,
    "two_rounds": _two_rounds,
    "approval": _approval,
}


def recorded(name: str) -> Told:
    """The records of a run, in their order."""
    return recorded_with_contents(name)[0]


def recorded_with_contents(name: str) -> tuple[Told, dict[str, str]]:
    """The same, and the texts that the run kept, by the commitments that stand in its records."""

    async def run() -> tuple[Sequence[Recorded], dict[str, str]]:
        world = await RUNS[name]()
        values = world.log._topics["poweron.events"][world.log.partition_of("poweron.events", ID.encode())]
        records = [codec.read_record(record) for record in values]
        named = steadied(records)[1]
        texts = {steady: (await world.content.get(ID, first)).decode() for first, steady in named.items()}
        return records, texts

    with capture_logs():
        records, texts = asyncio.run(run())
    return steadied(records)[0], texts


# --- the same bytes each time ---------------------------------------------------------------------------------


def steadied(records: Sequence[Recorded]) -> tuple[Told, dict[str, str]]:
    """The records with the same times, durations, claims and commitments each time, and causes that name them so.

    And what each commitment has become.
    """
    told, same = Told(), _Same()
    for found in records:
        assert found.envelope.event is not None
        attributes = orjson.loads(codec.encode(found.envelope))
        attributes["time"] = TIME
        same.put_into(attributes)
        told.write(codec.dumps(attributes))
        same.hashes[found.sha256] = codec.sha256(told.values[-1])
    return told, same.commitments


class _Same:
    """What stands for what differs from run to run."""

    def __init__(self) -> None:
        self.hashes: dict[str, str] = {}
        self.commitments: dict[str, str] = {}
        self._claims: dict[str, str] = {}

    def put_into(self, value: Any) -> None:
        """Change a JSON value in place."""
        for inner in value if isinstance(value, list) else ():
            self.put_into(inner)
        for name, inner in value.items() if isinstance(value, dict) else ():
            value[name] = self._instead(name, inner)
            self.put_into(inner)

    def _instead(self, name: str, value: Any) -> Any:
        match name:
            case "durationMs":
                return 5
            case "causationhash":
                return self.hashes[value]
            case "content" | "promptRef" | "answerRef":
                return self.commitments.setdefault(value, codec.sha256(f"content {len(self.commitments)}".encode()))
            case "claim":
                return self._claims.setdefault(value, f"claim {len(self._claims) + 1}")
        return value
