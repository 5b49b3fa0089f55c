"""Send a request once, and answer as soon as it is in the log, or with its outcome if the sender prefers to wait.

A repeat of a request, by the same id of the same sender, gets the response of the first one.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote

import orjson
from fastapi import Depends, Header, Response

from poweron_events import topics
from poweron_events.client import Heard
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.request import RequestIdentity, RequestRefused, workflow_id
from poweron_events.task_cancellation import cancel_task, retrieve_error
from poweron_projections import reader, request_digests
from poweron_projections.request_digests import KeptResponse
from poweron_services.client.follow import Callbacks
from poweron_services.door.access import HttpCaller
from poweron_services.door.door_state import API, DoorOf, DoorState
from poweron_services.door.json_responses import JSON
from poweron_services.door.problems import MEDIA_TYPE, Problem, problem_of, problem_response

Result = TypeVar("Result")
Work = Callable[[RequestIdentity, Callbacks], Coroutine[Any, Any, Mapping[str, Any]]]
"""Sends a request under the identity, follows it, and returns its outcome; raises if it was refused."""

MOST_WAIT: Final = 120.0  # seconds for which `Prefer: wait` may ask
KAFKA_WITHIN: Final = 3.0  # seconds in which Kafka must answer before anything is read or sent
SENT_WITHIN: Final = 30.0  # seconds in which a request must be in the log
ANSWERED_WITHIN: Final = 2.0  # seconds in which the answer to a decision is awaited, to report a refusal
ROWS_WITHIN: Final = 0.5  # seconds in which the rows should hold an answer, so that the sender reads it
KNOWN_WITHIN: Final = 1.0  # seconds in which Postgres must say whether a request is a repeat
RETRY_AFTER: Final = 5.0  # seconds
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])")

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="The sender's own id of this request: the same id is the same request. Generated if absent.",
    ),
]
Prefer = Annotated[str | None, Header(max_length=200, description="`wait=30`: wait that many seconds for the outcome.")]


def wait_seconds(prefer: str | None) -> float | None:
    """Return for how many seconds the sender prefers to wait for the outcome; None if that is not said."""
    match = _WAIT.search(prefer or "")
    return None if match is None else min(float(match[1]), MOST_WAIT)


async def expect_kafka(door: DoorState) -> None:
    """Check that Kafka answers, before a body is read and documents are stored for nothing.

    Raises:
        Unavailable: it does not.
    """
    log = door.opened.log.unguarded
    try:
        async with asyncio.timeout(KAFKA_WITHIN):
            await door.has_log.wait()
            await log.ends(topics.REQUESTS.name)
    except TimeoutError as error:
        raise Unavailable(
            f"Kafka does not answer within {KAFKA_WITHIN:g} s. Nothing was requested", retry_after=RETRY_AFTER
        ) from error


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Sends the request of one HTTP request, and answers it."""

    door: DoorState
    key: str | None
    """The sender's own id of the request; None to generate one."""
    wait: float | None
    """Seconds to wait for the outcome; None to answer as soon as the request is in the log."""

    def identity(self, caller: HttpCaller) -> RequestIdentity:
        """Return the identity of the request: the caller's source, and the caller's id of it or a new one."""
        return RequestIdentity(source=caller.source, id=self.key or secrets.token_hex(16))

    async def answer(
        self,
        identity: RequestIdentity,
        sha256: bytes,
        work: Work,
        *,
        workflow: str | None = None,
        is_decision: bool = False,
        keeps_working: bool = False,
    ) -> Response:
        """Run `work` unless the request is a repeat, and answer it.

        Args:
            identity: the identity of the request.
            sha256: the digest of the request: another request under the same identity is refused.
            work: sends the request and follows it; it is cancelled after the response, since the request is in the log.
            workflow: the workflow that the request is about; None if it opens one.
            is_decision: whether intake answers at once, so that a refusal can be reported.
            keeps_working: `work` goes on after the response, because it sends more than one request.

        Raises:
            Problem: the request was refused, or its id is that of another request.
            PowerOnError: it could not be sent.
        """
        target = workflow or workflow_id(identity.source, identity.id)
        repeated = await self.first_response(identity, sha256, target)
        if repeated is not None:
            return repeated
        sending = _Sending(identity, self.wait, ANSWERED_WITHIN if is_decision else 0)
        try:
            outcome = await sending.run(work, self.door if keeps_working else None)
        except (Problem, PowerOnError) as error:
            problem = await self._with_state(problem_of(error), workflow)
            if sending.is_sent:
                await self.keep(identity, problem_response(problem))
            raise problem from error
        if outcome is not None and self.wait is not None:
            response = Response(orjson.dumps(outcome), media_type=JSON)
        else:
            response = accepted_response(target, identity)
        if self.wait is not None:
            response.headers["Preference-Applied"] = f"wait={self.wait:.0f}"
        await self.keep(identity, response)
        return response

    async def first_response(self, identity: RequestIdentity, sha256: bytes, workflow: str | None) -> Response | None:
        """Record the request; return the response to it if it was sent before.

        While Postgres is unavailable, nothing is recorded, and the log alone recognises repeats.

        Raises:
            Problem: the id is that of another request.
        """
        claimed = await _optional(request_digests.claim(self.door.opened.pool, identity, sha256, workflow))
        if claimed is None:
            return None
        if claimed.sha256 != sha256:
            raise Problem(
                "idempotency_key_reused", f"Another request was sent with the Idempotency-Key {identity.id[:100]!r}."
            )
        first = claimed.response
        if first is None:
            return None
        headers = {} if first.location is None else {"Location": first.location}
        return Response(first.body, first.status, headers, JSON if first.status < ERRORS_FROM else MEDIA_TYPE)

    async def keep(self, identity: RequestIdentity, response: Response) -> None:
        """Keep the response for repeats of the request, unless Postgres is unavailable."""
        first = KeptResponse(response.status_code, response.headers.get("location"), bytes(response.body))
        await _optional(request_digests.keep(self.door.opened.pool, identity, first))

    async def _with_state(self, problem: Problem, workflow: str | None) -> Problem:
        """Add the state of the workflow to a conflict with it."""
        if problem.status == CONFLICT and workflow is not None:
            summary = await _optional(reader.workflow(self.door.opened.pool, workflow))
            if summary is not None:
                state = summary.model_dump(mode="json", by_alias=True, include=STATE)
                problem.facts = {**problem.facts, "workflowId": workflow, "state": state}
        return problem


CONFLICT: Final = 409
ERRORS_FROM: Final = 400
STATE: Final = {"status", "phase", "current_round", "current_task", "attempt", "current_step", "paused", "stopped_by"}


async def _dispatch(door: DoorOf, key: IdempotencyKey = None, prefer: Prefer = None) -> Dispatch:
    await expect_kafka(door)
    return Dispatch(door, key, wait_seconds(prefer))


Dispatching = Annotated[Dispatch, Depends(_dispatch)]
"""What sends the request; the sender gets 503 at once while Kafka is unavailable."""


class _Sending:
    """One request on its way into the log, and to its answer."""

    def __init__(self, identity: RequestIdentity, wait: float | None, answered_within: float) -> None:
        self._identity = identity
        self._wait = wait
        self._answered_within = answered_within
        self._sent = asyncio.Event()
        self._accepted = asyncio.Event()

    @property
    def is_sent(self) -> bool:
        return self._sent.is_set()

    async def run(self, work: Work, door: DoorState | None) -> Mapping[str, Any] | None:
        """Run `work`; return its outcome, or None if it is not known in time. With a door, `work` then goes on there.

        Raises:
            Unavailable: the request may not be in the log.
            PowerOnError: the error of `work`, unless that is only that the answer to a sent request is not known.
        """
        callbacks = Callbacks(heard=self._hear, requested=lambda _: self._sent.set())
        working = asyncio.create_task(self._report(work(self._identity, callbacks)))
        retrieve_error(working)
        try:
            await _wait_for_either(working, self._sent, SENT_WITHIN)
            if not working.done() and not self.is_sent:
                raise Unavailable(
                    f"The request is not confirmed within {SENT_WITHIN:g} s. It is unknown whether it is in the log: "
                    f"repeat it with the Idempotency-Key {self._identity.id!r}",
                    retry_after=RETRY_AFTER,
                )
            if self._wait is not None:
                await asyncio.wait({working}, timeout=self._wait)
            elif self._answered_within:
                await _wait_for_either(working, self._accepted, self._answered_within)
                await asyncio.wait({working}, timeout=ROWS_WITHIN if self._accepted.is_set() else 0)
            return working.result() if working.done() else None
        finally:
            if door is not None and self.is_sent and not working.done():
                door.working.add(working)
                working.add_done_callback(door.working.discard)
            else:
                await cancel_task(working)

    async def _report(self, work: Coroutine[Any, Any, Mapping[str, Any]]) -> Mapping[str, Any] | None:
        try:
            return await work
        except Unavailable:
            if self.is_sent:
                return None
            raise

    def _hear(self, heard: Heard) -> None:
        is_mine = getattr(heard.event, "request", None) == self._identity
        if is_mine and heard.verdict == "accepted" and not isinstance(heard.event, RequestRefused):
            self._accepted.set()


async def _wait_for_either(task: "asyncio.Task[Any]", event: asyncio.Event, timeout: float) -> None:
    """Wait until the task is done or the event is set, whichever is first."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_task(waiting)


async def _optional(query: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the result of a query that can be done without; None while Postgres is unavailable or slow."""
    task = asyncio.create_task(query)
    retrieve_error(task)
    await asyncio.wait({task}, timeout=KNOWN_WITHIN)
    if not task.done():
        task.cancel()  # which may itself take as long as Postgres does not answer
        return None
    with suppress(PowerOnError):
        return task.result()
    return None


def links_of(workflow: str | None, identity: RequestIdentity, *, own: bool = True) -> dict[str, str]:
    """Return the addresses of a request, the caller's own or another sender's, and of the workflow it is about."""
    source = "" if own else f"?source={quote(identity.source, safe='')}"
    links = {"request": f"{API}/requests/{quote(identity.id, safe='')}{source}"}
    if workflow is None:
        return links
    base = f"{API}/workflows/{workflow}"
    return {
        "workflow": base,
        "history": f"{base}/history",
        "events": f"{base}/events",
        "stream": f"{base}/stream",
        "page": f"/w/{workflow}",
        **links,
    }


def accepted_response(workflow: str | None, identity: RequestIdentity, *, own: bool = True) -> Response:
    """Return the answer to a request that is in the log; the request is the caller's own or another sender's."""
    links = links_of(workflow, identity, own=own)
    body = {"workflowId": workflow, "requestId": identity.id, "links": links}
    location = links["request" if workflow is None else "workflow"]
    return Response(orjson.dumps(body), 202, {"Location": location}, media_type=JSON)
