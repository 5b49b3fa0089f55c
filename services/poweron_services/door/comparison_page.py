"""The page that compares two workflows: their steps side by side, the first difference, and texts word by word."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import JsonValue
from starlette.responses import HTMLResponse

from poweron_events.codec import is_uuid
from poweron_events.errors import MissingContent
from poweron_events.fold.state import Place
from poweron_projections import reader
from poweron_projections.entries import WorkflowSummary
from poweron_services.client.connect import Connections
from poweron_services.door.access import HttpCaller, Reader
from poweron_services.door.door_state import DoorOf, Opened
from poweron_services.door.page_rendering import rendered
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.short_ids import whole_id
from poweron_services.door.text_difference import MAX_CHARACTERS, DifferenceLine, differences
from poweron_services.door.workflow_list_page import state_word
from poweron_services.door.workflow_queries import find_workflow
from poweron_services.fork.original import accepted
from poweron_services.fork.run_alignment import AlignedTurn, PlacedTurn, aligned
from poweron_services.fork.run_comparison import compare
from poweron_services.fork.run_documents import changed_documents

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

CHOICES: Final = 20  # newest workflows to choose from
MOST: Final = 400  # turns on a page
_FENCE: Final = re.compile(r"^(<<<|>>>) [0-9a-f]{16}$", re.MULTILINE)
"""The marks around texts in a prompt: random, so that no text can end itself."""
PLACES: Final = ("Round", "task", "attempt", "step")
WHAT: Final = {
    "documents": "Documents",
    "request": "Request",
    "action": "Action",
    "parameters": "Parameters",
    "outcome": "Outcome",
    "decision": "Decision",
    "length": "Plan",
    "answer": "Answer",
}


@dataclass(frozen=True, slots=True)
class ComparedText:
    """A prompt or an answer of both workflows."""

    name: str
    lines: Sequence[DifferenceLine]
    missing: str = ""
    """Why it cannot be compared; empty if it is."""
    is_cut: bool = False

    @property
    def is_same(self) -> bool:
        return not self.missing and all(line.kind in ("equal", "left_out") for line in self.lines)


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A row of the table."""

    number: int
    pair: AlignedTurn
    a: Any
    b: Any
    """What each did; of parameters, only those that differ."""

    @property
    def has_texts(self) -> bool:
        """Whether a model decided it in both workflows."""
        return all(turn is not None and turn.call is not None for turn in self.pair)


Id = Annotated[str, Query(max_length=100)]


@router.get("/compare")
async def comparison_page(
    *,
    request: Request,
    connections: Opened,
    door: DoorOf,
    caller: Reader,
    a: Id = "",
    b: Id = "",
    row: Annotated[int | None, Query(ge=0, le=10_000)] = None,
    only: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """Compare two workflows, or ask which ones."""
    a, b = a.strip(), b.strip()
    if not a or not b:
        return await _choice(request, connections, a=a, b=b)
    a, b = await whole_id(connections.pool, a), await whole_id(connections.pool, b)
    first, second = await find_workflow(connections, a), await find_workflow(connections, b)
    events = [accepted(await reader.judged_records(connections.pool, id_)) for id_ in (a, b)]
    runs = [[entry.event for entry in of_one] for of_one in events]
    async with door.busy:
        changed = await changed_documents(connections.content, (a, runs[0]), (b, runs[1]))
        comparison = await asyncio.to_thread(compare, runs[0], runs[1], changed)
        pairs = await asyncio.to_thread(aligned, events[0], events[1], changed)
    first_difference = next((number for number, pair in enumerate(pairs) if pair.differs), None)
    chosen = row if row is not None and row < len(pairs) else first_difference
    rows = [_shown(number, pair) for number, pair in enumerate(pairs) if pair.differs or not only][:MOST]
    texts = [] if chosen is None else await _texts(connections, caller, (a, b), pairs[chosen])
    answers = ComparedText("Answer", await asyncio.to_thread(differences, first.message or "", second.message or ""))
    return rendered(
        request,
        "comparison.html",
        a=first,
        b=second,
        summary=comparison.summary,
        costs=(comparison.a, comparison.b),
        rows=rows,
        chosen=None if chosen is None else _shown(chosen, pairs[chosen]),
        first_difference=first_difference,
        differing=sum(pair.differs for pair in pairs),
        total=len(pairs),
        only=only,
        texts=texts,
        answers=answers,
        place_words=place_words,
        names=WHAT,
        most=MOST,
        compared=MAX_CHARACTERS,
    )


async def _choice(request: Request, connections: Connections, *, a: str, b: str) -> Response:
    recent = await reader.workflows(connections.pool, limit=CHOICES)
    wrong = [id_ for id_ in (a, b) if id_ and not is_uuid(id_)]
    ids = [each.workflow_id for each in recent]
    chosen_a = a if a in ids else next((id_ for id_ in [*ids[1:], *ids] if id_ != b), None)
    return rendered(
        request,
        "comparison_choice.html",
        recent=recent,
        a=a,
        b=b,
        chosen_a=chosen_a,
        chosen_b=b if b in ids else next((id_ for id_ in ids if id_ != chosen_a), chosen_a),
        is_older=any(id_ not in ids for id_ in (a, b) if id_),
        wrong=wrong,
        related=_related(recent),
        state_word=state_word,
    )


def _related(recent: Sequence[WorkflowSummary]) -> list[tuple[str, WorkflowSummary, str]]:
    """Return forks and restarts among the newest workflows, each with the workflow that it comes from."""
    origins = [(workflow.forked_from, workflow, "fork") for workflow in recent]
    origins += [(workflow.restarted_from, workflow, "restart") for workflow in recent]
    return [(origin, workflow, kind) for origin, workflow, kind in origins if origin]


def place_words(place: Place) -> str:
    """Return a place as `Round 1, task 2, step 3`; an attempt only from the second one on."""
    parts = zip(PLACES, place, strict=True)
    shown = (f"{name} {number}" for name, number in parts if number and (name != "attempt" or number > 1))
    return ", ".join(shown) or "Workflow"


def _shown(number: int, pair: AlignedTurn) -> ShownTurn:
    a, b = (_value(turn) for turn in pair)
    if pair.what == "parameters" and isinstance(a, dict) and isinstance(b, dict) and a != b:
        names = [name for name in sorted({*a, *b}) if a.get(name) != b.get(name) or (name in a) != (name in b)]
        a, b = ({name: value[name] for name in names if name in value} for value in (a, b))
    return ShownTurn(number, pair, a, b)


def _value(turn: PlacedTurn | None) -> JsonValue:
    value: JsonValue = None if turn is None else turn.turn.value
    return value


async def _texts(
    connections: Connections, caller: HttpCaller, ids: tuple[str, str], pair: AlignedTurn
) -> list[ComparedText]:
    """Return the prompts and answers of both model calls, compared."""
    if pair.a is not None and pair.b is not None and pair.what in ("request", "answer"):
        lines = await asyncio.to_thread(differences, pair.a.turn.value, pair.b.turn.value)
        return [ComparedText(WHAT[pair.what], lines)]
    if pair.a is None or pair.b is None or pair.a.call is None or pair.b.call is None:
        return []
    if "content" not in caller.scopes:
        return [ComparedText("Prompt and answer", (), "Your key needs the scope “content” to see them.")]
    return [
        await _compared(connections, "Prompt", ((ids[0], pair.a.call.prompt_ref), (ids[1], pair.b.call.prompt_ref))),
        await _compared(
            connections, "Answer of the model", ((ids[0], pair.a.call.answer_ref), (ids[1], pair.b.call.answer_ref))
        ),
    ]


async def _compared(connections: Connections, name: str, refs: Sequence[tuple[str, str | None]]) -> ComparedText:
    texts = list[str]()
    for letter, (id_, ref) in zip("AB", refs, strict=True):
        if ref is None:
            return ComparedText(name, (), f"Workflow {letter} did not keep it.")
        try:
            text = (await connections.content.get(id_, ref)).decode(errors="replace")
            texts.append(_FENCE.sub(r"\1", text))
        except MissingContent:
            return ComparedText(name, (), f"That of workflow {letter} was erased, or is lost.")
    is_cut = any(len(text) > MAX_CHARACTERS for text in texts)
    return ComparedText(name, await asyncio.to_thread(differences, *texts), is_cut=is_cut)
