"""The queries that intake sends to Postgres."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from pydantic import JsonValue

from poweron_events.actor import Actor
from poweron_events.codes import Code
from poweron_events.fold.day_use import DayUse, RequestKey
from poweron_events.fold.partial import Stub
from poweron_events.fold.retention import Retention
from poweron_events.fold.state import ChatMessage, Opening
from poweron_events.policy import AnswerTerms, AppliedPolicy
from poweron_events.request import Spent
from poweron_events.stream import WorkflowEvent


class OpenQuestion(Protocol):
    """The approval of a step, as the rows hold it."""

    @property
    def state(self) -> Literal["asked", "granted", "denied"]: ...
    @property
    def parameters_sha256(self) -> str: ...
    @property
    def due_ms(self) -> int: ...
    @property
    def by(self) -> str | None: ...
    @property
    def paused(self) -> bool:
        """Whether the round is paused, so that the time limit is suspended."""

    @property
    def waits(self) -> bool:
        """Whether the workflow is still at this step, so that it can be answered."""

    @property
    def terms(self) -> AnswerTerms:
        """Who may answer, and who has."""

    @property
    def action(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """The parameters with which the action waits."""


class RoundState(Protocol):
    """The open round of a workflow, as the rows hold it."""

    @property
    def closing(self) -> bool:
        """Whether the round was already stopped and only its end is awaited."""

    @property
    def paused(self) -> bool: ...
    @property
    def paused_by(self) -> Actor | None: ...
    @property
    def question(self) -> int | None:
        """The number of the budget question that the round waits with; None if it waits with none."""

    @property
    def question_code(self) -> Code | None:
        """The budget that has no room, if the round asks for a larger one."""

    @property
    def question_due_ms(self) -> int | None: ...
    @property
    def budget_terms(self) -> AnswerTerms:
        """Who may answer the budget question."""

    @property
    def policy_number(self) -> int | None:
        """The number of the policy whose rules the round has; None if it has none."""


class IntakeQueries(Protocol):
    """The queries that intake sends to Postgres. Every method raises Unavailable while Postgres does not answer."""

    async def seal_key(self) -> bytes | None:
        """Return the key with which doors seal requests; None if no door has keys."""

    async def answered(self, source: str, request_id: str) -> bool:
        """Return whether the rows hold an answer to the request."""

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        """The projector's next offset and the stubs of the workflows that it knows, read at one moment."""

    async def open_round(self, workflow_id: str) -> RoundState | None:
        """The workflow's open round, or None if there is none."""

    async def policy_after(self, partition: int, number: int) -> tuple[int, AppliedPolicy | None]:
        """The projector's next offset in the partition of the policies, and the newest one after this number."""

    async def messages(self, workflow_id: str, before_seq: int | None) -> Sequence[ChatMessage]:
        """A page of the workflow's messages, newest first: those before the message with that `seq`, if it is given."""

    async def opening(self, workflow_id: str, round_number: int) -> Opening:
        """The opening of the last round, which has this number. Raises Unavailable while the rows do not hold it."""

    async def spent(self, workflow_id: str, rounds: int) -> Spent:
        """The total usage of this many rounds, all that have ended. Raises Unavailable while any is missing."""

    async def retention(self, workflow_id: str) -> Retention:
        """How long the content of the workflow is kept, and what was erased."""

    async def accepted_events(self, workflow_id: str) -> Sequence[tuple[int, str, WorkflowEvent]]:
        """All accepted events of the workflow, oldest first: its `seq`, the hash of its record, and the event."""

    async def accepted_hash(self, workflow_id: str, seq: int) -> str | None:
        """The SHA-256 of a workflow's record, or None if no such record was accepted."""

    async def approval(self, workflow_id: str, place: tuple[int, int, int, int]) -> OpenQuestion | None:
        """The approval of the step at (round, task, attempt, step), or None if none was requested."""

    async def positions(self) -> Mapping[int, int]:
        """The projector's next offset of every partition."""

    async def count_open(self, most: int) -> int:
        """The number of open workflows that neither wait for a person nor are paused, counted up to `most`."""

    async def day_use(self, day_start_ms: int, *, requests: Collection[RequestKey] = (), calls: bool = True) -> DayUse:
        """What was used since the beginning of a day, in ms since 1970, and which of these requests are answered.

        Without `calls`, tokens and money are not added up.
        """
