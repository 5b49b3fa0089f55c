"""What intake asks of Postgres."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from poweron_events.fold.partial import Stub
from poweron_events.fold.state import ChatMessage, Opening
from poweron_events.request import Spent


class StepApproval(Protocol):
    """What the rows say of the approval of a step that was asked for one."""

    @property
    def state(self) -> Literal["asked", "granted", "denied"]: ...
    @property
    def parameters_sha256(self) -> str: ...
    @property
    def due_ms(self) -> int: ...
    @property
    def by(self) -> str | None: ...
    @property
    def waits(self) -> bool:
        """Whether the workflow is there still, so that it can be answered."""


class IntakeQueries(Protocol):
    """What intake asks of Postgres. Every method raises Unavailable while Postgres does not answer."""

    async def answered(self, source: str, request_id: str) -> bool:
        """Whether the request has its answer."""

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        """The projector's next offset and the stubs of those workflows that it knows, read at one moment."""

    async def closing(self, workflow_id: str) -> bool:
        """Whether the workflow's open round was stopped already and only its end is awaited."""

    async def messages(self, workflow_id: str, before_seq: int | None) -> Sequence[ChatMessage]:
        """A page of the workflow's messages, newest first: those before the message of that `seq`, if one is given."""

    async def opening(self, workflow_id: str, round_number: int) -> Opening:
        """How the last round, which has this number, was opened. Raises Unavailable where it is not held yet."""

    async def spent(self, workflow_id: str, rounds: int) -> Spent:
        """What so many rounds, all that ended, used. Raises Unavailable where not all are held yet."""

    async def accepted_hash(self, workflow_id: str, seq: int) -> str | None:
        """The SHA-256 of a record of a workflow; None where there is none that was accepted."""

    async def approval(self, workflow_id: str, place: tuple[int, int, int, int]) -> StepApproval | None:
        """What became of the approval of the step at (round, task, attempt, step); None if nobody was asked."""

    async def positions(self) -> Mapping[int, int]:
        """The projector's next offset of every partition."""

    async def count_open(self, most: int) -> int:
        """How many workflows have an open round that waits for no person, counted no further than `most`."""
