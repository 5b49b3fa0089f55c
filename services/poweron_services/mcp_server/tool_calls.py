"""The tools: ask for work, report its state, show its audit trail, and pass on what a person decided.

The first call opens servers, connections and roles; after a failure, the next call opens them again.
"""

import asyncio
import base64
import binascii
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from poweron_events.client import Heard
from poweron_events.codec import is_uuid
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import NANO
from poweron_events.fold.state import Workflow
from poweron_events.log import ProgressTopic
from poweron_events.request import Budgets, Requester, RequestIdentity, RequestWorkflow
from poweron_events.task_cancellation import cancel_task, retrieve_error
from poweron_projections import reader
from poweron_projections.entries import HistoryEntry
from poweron_projections.verify import catch_up
from poweron_services.client.approve import answer, answer_to, waiting_approval
from poweron_services.client.ask import File, OpeningRequest, ask, follow_up
from poweron_services.client.cancel import pending_requests_reported
from poweron_services.client.client_errors import AskedFor, NotAWorkflowId, UnknownWorkflow
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome, follow_amounts, not_taken_yet, waits_for_quota
from poweron_services.mcp_server.file_access import AllowedFolders
from poweron_services.mcp_server.tool_shapes import (
    ApprovalState,
    ApproveArguments,
    AskArguments,
    DocumentAsBytes,
    DocumentAsText,
    DocumentByPath,
    HistoryArguments,
    HistoryPage,
    WorkflowArguments,
    WorkflowState,
    approval_id,
    ended_state,
    running_state,
    workflow_state,
)
from poweron_services.settings.config import Settings, local_user

Result = TypeVar("Result")


class Workplace:
    """One set of connections for all calls, which the roles use as well."""

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[Connections]],
        serving: Callable[[Connections], Awaitable[None]],
    ) -> None:
        """`opening` opens connections, `serving` plays the roles on them until it is cancelled."""
        self._opening = opening
        self._serving = serving
        self._ready: asyncio.Future[Connections] | None = None
        self._kept: asyncio.Task[None] | None = None

    async def do(self, work: Callable[[Connections], Coroutine[Any, Any, Result]]) -> Result:
        """Run `work` on the connections; it ends if they are closed or the roles stop.

        Raises:
            Unavailable: a server cannot be reached or started.
            Refused: something must be corrected first.
        """
        ready, open_task = self._open()
        connections = await asyncio.shield(ready)
        working = asyncio.create_task(_reporting_pending(connections, work))
        try:
            await asyncio.wait({working, open_task}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                open_task.result()
                raise Unavailable("The connections were closed meanwhile")
            return working.result()
        finally:
            await cancel_task(working)

    def _open(self) -> "tuple[asyncio.Future[Connections], asyncio.Task[None]]":
        if self._ready is None or self._kept is None or self._kept.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._kept = asyncio.create_task(self._keep(self._ready))
            retrieve_error(self._kept)
        return self._ready, self._kept

    async def _keep(self, ready: "asyncio.Future[Connections]") -> None:
        try:
            async with self._opening() as connections:
                ready.set_result(connections)
                await self._serving(connections)
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
            ready.exception()  # marks it as retrieved, since possibly no caller is waiting any more
        finally:
            ready.cancel()

    async def close(self) -> None:
        """Close the connections and stop the roles."""
        if self._kept is not None:
            await cancel_task(self._kept)


@asynccontextmanager
async def workplace(
    opening: Callable[[], AbstractAsyncContextManager[Connections]], serving: Callable[[Connections], Awaitable[None]]
) -> AsyncGenerator[Workplace, None]:
    """Provide a workplace, and close it at the end."""
    place = Workplace(opening, serving)
    try:
        yield place
    finally:
        await place.close()


async def _reporting_pending(
    connections: Connections, work: Callable[[Connections], Coroutine[Any, Any, Result]]
) -> Result:
    async with pending_requests_reported(connections):
        return await work(connections)


MAX_PAGE = 200_000  # characters of the entries of a page

Told = Callable[[str], None]
"""Called with sentences about the progress of the work."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The tools, over one workplace."""

    place: Workplace
    folders: AllowedFolders
    narrated: Callable[[Heard], Iterable[str]]
    """Describes an event in sentences for users."""

    async def ask(self, arguments: AskArguments, tell: Told) -> WorkflowState:
        """Ask for work, and wait for its end as long as requested; the work continues when the wait ends."""
        _check_id(arguments.workflow_id)
        files = [await asyncio.to_thread(self._file, document) for document in arguments.documents]
        return await self.place.do(lambda connections: self._ask(connections, arguments, files, tell))

    async def _ask(
        self, connections: Connections, arguments: AskArguments, files: list[File], tell: Told
    ) -> WorkflowState:
        request: OpeningRequest = _request(arguments, connections.settings)
        if arguments.workflow_id is not None:
            request = await follow_up(connections, _request(arguments, connections.settings), arguments.workflow_id)
        watching = _Watching(tell, self.narrated, waits=arguments.wait_seconds > 0)
        work = asyncio.create_task(ask(connections, request, files, identity=_identity(), callbacks=watching.callbacks))
        async with watching.telling_amounts(connections.progress):
            outcome = await watching.until_enough(work, arguments.wait_seconds)
        if outcome is not None:
            return ended_state(outcome)
        if watching.waits_for_approval:
            return await workflow_state(connections, watching.workflow_id)
        return running_state(watching.workflow_id)

    def _file(self, document: DocumentByPath | DocumentAsText | DocumentAsBytes) -> File:
        match document:
            case DocumentByPath():
                return self.folders.read(document.path)
            case DocumentAsText():
                return File(document.name, document.text.encode(errors="replace"))
            case DocumentAsBytes():
                return File(document.name, _bytes(document))

    async def workflow(self, arguments: WorkflowArguments, _: Told) -> WorkflowState:
        """Return the state of the workflow."""
        _check_id(arguments.workflow_id)
        return await self.place.do(lambda connections: workflow_state(connections, arguments.workflow_id))

    async def history(self, arguments: HistoryArguments, _: Told) -> HistoryPage:
        """Return a page of the workflow's audit trail."""
        _check_id(arguments.workflow_id)
        return await self.place.do(lambda connections: _history(connections, arguments))

    async def approve(self, arguments: ApproveArguments, _: Told) -> ApprovalState:
        """Answer the pending approval that was shown, and no other."""
        _check_id(arguments.workflow_id)
        if arguments.decision == "deny" and not arguments.reason.strip():
            raise Refused("The reason is empty. Say why the action must not run.", code="invalid_request")
        return await self.place.do(lambda connections: _approve(connections, arguments))


class _Watching:
    """Follows one request: reports its events, and notices when there is nothing more to wait for."""

    def __init__(self, tell: Told, narrate: Callable[[Heard], Iterable[str]], *, waits: bool) -> None:
        self.workflow_id = ""
        self.waits_for_approval = False
        self.callbacks = Callbacks(self._hear, self._note_request, self._untaken, quota_reached=self._quota_reached)
        self._told = tell
        self._narrated = narrate
        self._waits = waits
        self._enough = asyncio.Event()
        self._requested = asyncio.Event()
        self._workflow: Workflow | None = None

    def _note_request(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        self._requested.set()
        self._told(f"Workflow {workflow_id} is requested; `poweron cancel {workflow_id}` cancels it.")

    def _hear(self, record: Heard) -> None:
        self._workflow = record.workflow
        for sentence in self._narrated(record):
            self._told(sentence)
        self.waits_for_approval = record.workflow.phase == "approve"
        if self.waits_for_approval or not self._waits:
            self._enough.set()

    def _untaken(self, asked: AskedFor) -> None:
        self._told(not_taken_yet(asked))
        if not self._waits:
            self._enough.set()

    def _quota_reached(self, reason: str) -> None:
        self._told(waits_for_quota(reason))
        if not self._waits:
            self._enough.set()

    @asynccontextmanager
    async def telling_amounts(self, topic: ProgressTopic) -> AsyncGenerator[None, None]:
        """Report the progress of the running step inside this context, as far as it is known."""
        telling = asyncio.create_task(self._tell_amounts(topic))
        try:
            yield
        finally:
            await cancel_task(telling)

    async def _tell_amounts(self, topic: ProgressTopic) -> None:
        await self._requested.wait()
        async with aclosing(follow_amounts(topic, self.workflow_id, lambda: self._workflow)) as amounts:
            async for text in amounts:
                self._told(text)

    async def until_enough(self, work: "asyncio.Task[Outcome]", seconds: float) -> Outcome | None:
        """Return the outcome; None if the work continues: the time is up, or a person has to decide."""
        enough = asyncio.create_task(self._enough.wait())
        try:
            await asyncio.wait({work, enough}, timeout=seconds or None, return_when=asyncio.FIRST_COMPLETED)
            while not work.done() and not self.workflow_id:  # the request is not sent yet
                await asyncio.wait({work, enough}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            await asyncio.gather(cancel_task(work), cancel_task(enough))


def _request(arguments: AskArguments, settings: Settings) -> RequestWorkflow:
    format_sentence = f"\n\nGive the result as {' and '.join(arguments.formats)}." if arguments.formats else ""
    cost = None if arguments.max_cost_usd is None else round(arguments.max_cost_usd * NANO)
    return RequestWorkflow(
        prompt=f"{arguments.prompt}{format_sentence}",
        max_steps=arguments.max_steps,
        budgets=Budgets(round_tokens=arguments.max_tokens, round_cost_nano_usd=cost),
        user_language=arguments.language,
        requester=Requester(name=settings.actor, language=settings.language),
        actor=settings.acting_through("mcp"),
    )


def _bytes(document: DocumentAsBytes) -> bytes:
    try:
        return base64.b64decode(document.base64, validate=True)
    except binascii.Error as error:
        raise Refused(f"The document {document.name!r} is not base64: {error}.", code="invalid_request") from error


async def _history(connections: Connections, arguments: HistoryArguments) -> HistoryPage:
    await catch_up(connections.log, connections.pool)
    all_entries = await reader.history(
        connections.pool, arguments.workflow_id, limit=arguments.limit, before_seq=arguments.before
    )
    if not all_entries and await reader.workflow(connections.pool, arguments.workflow_id) is None:
        raise UnknownWorkflow(arguments.workflow_id)
    entries = _fit_into_page(all_entries)
    is_last = len(entries) == len(all_entries) < arguments.limit or not entries or entries[-1].seq == 0
    return HistoryPage(workflow_id=arguments.workflow_id, entries=entries, older=None if is_last else entries[-1].seq)


def _fit_into_page(entries: list[HistoryEntry]) -> tuple[HistoryEntry, ...]:
    """Return as many of the newest entries as fit into a page, at least one."""
    page: list[HistoryEntry] = []
    room = MAX_PAGE
    for entry in entries:
        room -= len(entry.model_dump_json())
        if page and room < 0:
            break
        page.append(entry)
    return tuple(page)


async def _approve(connections: Connections, arguments: ApproveArguments) -> ApprovalState:
    waiting = await waiting_approval(connections, arguments.workflow_id)
    if approval_id(waiting) != arguments.approval_id:
        raise Refused(
            "The workflow waits with another step or with other parameters than those that were answered. "
            "The tool `workflow` shows them.",
            code="other_parameters",
        )
    approver = connections.settings.acting_through("mcp")
    request = answer_to(waiting, arguments.decision, reason=arguments.reason, approver=approver)
    outcome = await answer(connections, request, identity=_identity(), callbacks=Callbacks())
    return ApprovalState(
        workflow_id=arguments.workflow_id, status=outcome.status, code=outcome.code, detail=outcome.detail
    )


def _identity() -> RequestIdentity:
    """Create the identity of a request that came through this server."""
    return RequestIdentity(source=f"/poweron/mcp/{local_user()}", id=secrets.token_hex(16))


def _check_id(workflow_id: str | None) -> None:
    if workflow_id is not None and not is_uuid(workflow_id):
        raise NotAWorkflowId(workflow_id)
