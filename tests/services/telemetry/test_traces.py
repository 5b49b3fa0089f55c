"""Whoever follows a workflow in a collector of traces sees one tree, and nothing of what it is about."""

import asyncio
import contextvars
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import structlog
from doubles import CRITERION, EVENTS, ROLES, TASK, Counting, World, script
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from builders import cancellation, requested
from poweron_events import codec
from poweron_events.envelope import envelop
from poweron_events.errors import Refused, Unavailable
from poweron_events.log import Message
from poweron_events.request import workflow_id
from poweron_events.step_events import ActionResult
from poweron_services import telemetry
from poweron_services.actions.action import Done, document
from poweron_services.telemetry import exporting
from poweron_services.telemetry.spans import Context, Span, context_of

CANARY = "canary-4711"
UPSTREAM = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FIRST_HALF = frozenset({"planner", "selector", "executor"})
SECOND_HALF = ROLES - FIRST_HALF
"""Two processes that share a workflow: each makes spans under spans that the other one exports."""


def refinement(decision: str) -> dict[str, Any]:
    return {
        "decision": decision,
        "reason": "The total is there.",
        "classification": "success",
        "criteriaProgress": [{"criterion": CRITERION, "met": decision == "stop", "progress": 1000}],
    }


def two_steps() -> World:
    """One task with two steps, and a word in everything that a person or a model wrote but the reasons."""
    lines = script(
        refinement=[refinement("continue"), refinement("stop")],
        planning=[{"tasks": [{**TASK, "objective": f"Find {CANARY}"}]}],
        selection=[{"action": "test.pure", "actionObjective": f"Find {CANARY}"}],
        message=[f"It is {CANARY}."],
    )
    result = Done(ActionResult(success=True, documents=(document(f"{CANARY}.md", CANARY, "text/markdown"),)))
    return World([Counting(result=lambda: result)], lines)


async def worked_on_by_two(world: World, *sinks: telemetry.Sink | None) -> str:
    """A workflow on which two processes work; its id."""
    id_ = await world.ask(prompt=f"What is {CANARY}?")
    first, second = sinks
    async with world.process(FIRST_HALF, spans=first), world.process(SECOND_HALF, spans=second):
        await world.ended_for_all(id_)
    return id_


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def traceparents(world: World, id_: str) -> list[str | None]:
    return [recorded.envelope.traceparent for recorded, _ in world.records(id_)]


# --- the tree -----------------------------------------------------------------------------------------


async def test_two_processes_tell_of_one_workflow_in_one_tree() -> None:
    spans: list[Span] = []
    id_ = await worked_on_by_two(two_steps(), spans.append, spans.append)
    (root,), (task,), (first, second) = (named(spans, name) for name in ("workflow", "task", "step"))
    assert root.context == context_of(id_, (1, 0, 0, 0))
    assert root.parent is None
    assert task.parent == root.context
    assert first.parent == second.parent == task.context
    assert root.began_ns <= task.began_ns <= first.began_ns <= first.ended_ns <= second.began_ns
    assert second.ended_ns <= task.ended_ns <= root.ended_ns
    under = [
        sorted(str(span.attributes.get("poweron.stage", span.name)) for span in spans if span.parent == where.context)
        for where in (root, task, first, second)
    ]
    in_a_step = ["execute_tool test.pure", "parameterize", "refine", "select"]
    assert under == [["message", "plan", "task"], ["review", "step", "step"], in_a_step, in_a_step]
    assert {span.context.trace_id for span in spans} == {root.context.trace_id}
    assert len({span.context.span_id for span in spans}) == len(spans)


@pytest.mark.req("B-01")
async def test_a_model_call_is_told_with_its_tokens_under_the_names_that_collectors_know() -> None:
    spans: list[Span] = []
    await worked_on_by_two(two_steps(), spans.append, spans.append)
    call = next(span for span in spans if span.attributes.get("poweron.stage") == "refine")
    assert (call.name, call.kind) == ("chat", "client")
    assert {name: value for name, value in call.attributes.items() if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.response.model": "script",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
    }
    action = named(spans, "execute_tool test.pure")[0]
    assert action.attributes["gen_ai.tool.name"] == "test.pure"
    assert action.attributes["poweron.outcome"] == "done"
    step = named(spans, "step")[0]
    assert step.attributes["poweron.input_tokens"] == 30
    assert step.attributes["poweron.decision"] == "continue"


@pytest.mark.req("B-01")
async def test_a_call_that_is_not_answered_is_told_as_failed_and_without_its_words() -> None:
    spans: list[Span] = []
    world = World([Counting()], script(refinement=[Unavailable(f"busy: {CANARY}"), refinement("stop")]))
    await worked_on_by_two(world, spans.append, spans.append)
    failed, answered = (span for span in spans if span.attributes.get("poweron.stage") == "refine")
    assert (failed.failed, answered.failed) == ("Unavailable", None)
    assert CANARY not in repr(spans)


async def test_each_event_names_the_span_that_it_comes_of() -> None:
    world, spans = two_steps(), list[Span]()
    id_ = await worked_on_by_two(world, spans.append, spans.append)
    told = {str(span.context): span.name for span in spans}
    assert [told[parent or ""] for parent in traceparents(world, id_)[1:]] == [
        *["workflow"],
        *["step"] * 12,
        *["task", "workflow"],
    ]


async def test_without_a_collector_no_event_names_a_span() -> None:
    world = two_steps()
    id_ = await worked_on_by_two(world, None, None)
    assert set(traceparents(world, id_)) == {None}


async def test_what_was_begun_before_a_kill_has_the_same_spans_after_it() -> None:
    gate = asyncio.Event()
    action = Counting(gate=gate)
    world, before, after = World([action]), list[Span](), list[Span]()
    id_ = await world.ask()
    killed = world.start(spans=before.append)
    await action.begun.wait()
    await killed.kill()
    gate.set()
    async with world.process(spans=after.append):
        await world.ended_for_all(id_)
    (step,) = named(after, "step")
    assert step.context == context_of(id_, (1, 1, 1, 1))
    assert {span.parent for span in before if span.attributes.get("poweron.stage") == "select"} == {step.context}
    assert [span.name for span in [*before, *after] if span.name in ("workflow", "task", "step")] == [
        *["step", "task", "workflow"]
    ]


async def test_what_a_process_could_not_write_before_it_stopped_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poweron_services.runtime.worker.DRAIN_TIMEOUT", 0.1)
    world, spans, lost = World([Counting()]), list[Span](), asyncio.Event()
    id_ = await world.ask()

    def mishap() -> str:
        if world.folded(id_)[0].phase != "review":
            return ""
        lost.set()
        return "lost"

    async with world.process(mishap=mishap, spans=spans.append):
        await lost.wait()
    assert [span.name for span in spans if span.name in ("workflow", "task", "step")] == ["step"]


async def test_the_end_of_a_cancelled_round_ends_its_task_and_its_step_too() -> None:
    gate = asyncio.Event()
    action = Counting(gate=gate)
    world, spans = World([action]), list[Span]()
    id_ = await world.ask()
    async with world.process(spans=spans.append):
        await action.begun.wait()
        await world.tell(id_, cancellation())
        await world.ended_for_all(id_)
    assert [(span.name, span.failed) for span in spans if span.name in ("workflow", "task", "step")] == [
        ("step", None),
        ("task", None),
        ("workflow", "round_cancelled"),
    ]
    assert [span.failed for span in spans if span.name.startswith("execute_tool")] == ["cancelled"]


async def test_the_workflow_is_linked_to_what_it_was_asked_in() -> None:
    spans: list[Span] = []
    world, id_ = World([Counting()]), workflow_id("/tests", "1")
    opening = envelop(
        requested("1", documents=()),
        workflow_id=id_,
        source="/poweron/intake/other",
        time="2026-11-21T00:00:00.000Z",
        traceparent=UPSTREAM,
    )
    await world.log.append(EVENTS, [Message(id_.encode(), codec.encode(opening))])
    async with world.process(spans=spans.append):
        await world.ended_for_all(id_)
    (root,) = named(spans, "workflow")
    assert root.link == Context.read(UPSTREAM)


@pytest.mark.parametrize("attributes", [{"traceparent": UPSTREAM}, {}])
def test_the_answer_to_a_request_stands_in_the_trace_of_whoever_asked(attributes: dict[str, str]) -> None:
    spans: list[Span] = []
    value = codec.dumps(
        {"specversion": "1.0", "type": "poweron.request.workflow.v1", "source": "/tests", "id": "1"}
        | {"data": {"prompt": "What?"}}
        | attributes
    )
    received = codec.decode_request(value, {} if attributes else {"traceparent": UPSTREAM.encode()})
    id_, upstream = workflow_id("/tests", "1"), Context.read(UPSTREAM)

    def answer() -> str | None:
        telemetry.bind_request(1_000, received)
        with telemetry.answer_span(id_, received.identity, requested("1"), spans.append) as told:
            return told.traceparent

    first, again = (contextvars.copy_context().run(answer) for _ in range(2))
    assert first == again == str(spans[0].context)
    assert upstream is not None
    assert spans[0].context.trace_id == upstream.trace_id
    assert spans[0].parent == upstream
    assert spans[0].link == context_of(id_, (1, 0, 0, 0))


@pytest.mark.parametrize("said", [f"{UPSTREAM}-more", UPSTREAM.upper(), 7, "00-" + "0" * 32 + UPSTREAM[35:]])
def test_a_trace_that_is_none_hinders_no_request(said: object) -> None:
    event = {"specversion": "1.0", "type": "poweron.request.workflow.v1", "source": "/tests", "id": "1"}
    value = codec.dumps({**event, "data": {"prompt": "What?"}, "traceparent": said})
    assert codec.decode_request(value, {"traceparent": b"\xff"}).traceparent is None


# --- what is not told ---------------------------------------------------------------------------------


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.req("S27")
async def test_no_span_and_no_log_line_holds_what_the_workflow_is_about(tmp_path: Path) -> None:
    spans: list[Span] = []
    telemetry.configure("debug", telemetry.LogFile(tmp_path / "log"))
    await worked_on_by_two(two_steps(), spans.append, spans.append)
    assert len(spans) == 15
    assert CANARY not in repr(spans)
    assert CANARY not in (tmp_path / "log").read_text()


@pytest.mark.req("B-03")
@pytest.mark.req("S24")
async def test_each_iteration_has_a_line_with_its_place_its_decision_and_its_reason(tmp_path: Path) -> None:
    telemetry.configure("info", telemetry.LogFile(tmp_path / "log"))
    world = two_steps()
    id_ = await worked_on_by_two(world, None, None)
    lines = lines_of(tmp_path / "log")
    decided = [recorded for recorded, _ in world.records(id_) if "refinement" in recorded.envelope.type]
    told = ["event", "round", "task", "attempt", "step", "action", "decision", "reason", "input_tokens", "event_id"]
    assert [[line[name] for name in told] for line in lines if line["event"] == "iteration_ended"] == [
        ["iteration_ended", 1, 1, 1, number, "test.pure", decision, "The total is there.", 30, recorded.envelope.id]
        for number, decision, recorded in zip((1, 2), ("continue", "stop"), decided, strict=True)
    ]
    assert [line["event"] for line in lines] == [
        *["iteration_ended"] * 2,
        *["task_ended", "round_ended"],
    ]
    assert {line["workflow_id"] for line in lines} == {id_}
    assert lines[-1]["steps"] == 2
    assert lines[-1]["ending"] == "completed"


class Talking(Counting):
    """An action that logs."""

    async def __call__(self, order: Any) -> Done:
        structlog.get_logger().info("an action says something")
        return await super().__call__(order)


@pytest.mark.req("S24")
async def test_a_line_from_inside_an_action_or_a_model_call_names_where_it_happened(tmp_path: Path) -> None:
    telemetry.configure("debug", telemetry.LogFile(tmp_path / "log"))
    world = World([Talking()])
    id_ = await worked_on_by_two(world, None, None)
    head = {type(recorded.envelope.event).__name__: recorded.envelope.id for recorded, _ in world.records(id_)}
    place = {"workflow_id": id_, "round": 1, "task": 1, "attempt": 1, "step": 1}
    said, planned, *_, ended = (
        line for line in lines_of(tmp_path / "log") if line["event"] in ("an action says something", "model_answered")
    )
    if said["event"] == "model_answered":
        said, planned = planned, said
    (said,) = (line for line in lines_of(tmp_path / "log") if line["event"] == "an action says something")
    assert said.items() >= (place | {"event_id": head["ActionStarted"]}).items()
    assert planned["template"].startswith("planner")
    assert planned["round"] == 1
    assert "task" not in planned
    assert ended["template"].startswith("message")
    assert "step" not in ended


# --- the collector ------------------------------------------------------------------------------------


class Collector:
    """A collector of traces, as far as taking spans goes."""

    def __init__(self) -> None:
        self.place = ""
        self.spans: list[Any] = []
        self.resources: list[Any] = []

    def take(self, body: bytes) -> None:
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append({each.key: each.value.string_value for each in sent.resource.attributes})
            self.spans += [span for scope in sent.scope_spans for span in scope.spans]


@contextmanager
def collecting() -> Generator[Collector, None, None]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body, known = self.rfile.read(int(self.headers["Content-Length"])), self.path == "/v1/traces"
            if known:
                collector.take(body)
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: the tests' own output is read by people."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    collector.place = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()


async def test_a_collector_gets_the_whole_tree_of_two_processes() -> None:
    with collecting() as collector:
        async with (
            exporting(collector.place, resource={"poweron.roles": "planner"}) as first,
            exporting(f"{collector.place}/", resource={"poweron.roles": "refiner"}) as second,
        ):
            id_ = await worked_on_by_two(two_steps(), first, second)
    by_id = {span.span_id: span for span in collector.spans}
    parents = [(span.name, by_id[span.parent_span_id].name) for span in collector.spans if span.parent_span_id]
    assert sorted(set(parents)) == [
        ("chat", "step"),
        ("chat", "task"),
        ("chat", "workflow"),
        ("execute_tool test.pure", "step"),
        ("step", "task"),
        ("task", "workflow"),
    ]
    assert len(collector.spans) == 15
    assert {span.trace_id.hex() for span in collector.spans} == {id_.replace("-", "")}
    assert {each["poweron.roles"] for each in collector.resources} == {"planner", "refiner"}
    assert {each["service.name"] for each in collector.resources} == {"poweron"}
    assert CANARY not in repr(collector.spans)


async def test_the_variables_of_opentelemetry_override_our_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "claims-desk")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,poweron.roles=all")
    with collecting() as collector:
        async with exporting(collector.place, resource={"poweron.roles": "planner"}) as sink:
            await worked_on_by_two(two_steps(), sink, sink)
    resource = collector.resources[0]
    assert resource["service.name"] == "claims-desk"
    assert resource["deployment.environment"] == "test"
    assert resource["poweron.roles"] == "all"


async def test_an_address_for_spans_alone_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.place}/v1/traces")
        async with exporting("http://127.0.0.1:9", resource={}) as sink:
            await worked_on_by_two(two_steps(), sink, sink)
    assert collector.spans


async def test_a_collector_that_is_unavailable_costs_a_log_line_and_hinders_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = telemetry.LogFile(tmp_path / "home" / "poweron.log")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    monkeypatch.setattr("poweron_services.telemetry.otlp.FLUSH_TIMEOUT", 0.5)
    running = set(threading.enumerate())
    telemetry.configure("warning", file)
    async with exporting("http://127.0.0.1:9", resource={}) as sink:
        world = two_steps()
        await worked_on_by_two(world, sink, sink)
        before_the_end = time.monotonic()
    assert time.monotonic() - before_the_end < 5
    for left in {each for each in threading.enumerate() if not each.name.startswith("asyncio")} - running:
        left.join(10)  # it tries on, and draws lots for when: other tests would meet it
    assert "spans_dropped" in [json.loads(line)["event"] for line in file.path.read_text().splitlines()]


@pytest.mark.req("S27")
async def test_a_secret_in_the_address_or_the_headers_of_a_collector_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with collecting() as collector:
        place = collector.place.replace("://", f"://u:{CANARY}@")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{place}/none?key={CANARY}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{CANARY},{CANARY}")
        monkeypatch.setattr(logging.getLogger("urllib3"), "level", logging.DEBUG)
        telemetry.configure("debug", telemetry.LogFile(tmp_path / "log"))
        async with exporting(place, resource={}) as sink:
            await worked_on_by_two(two_steps(), sink, sink)
    told = (tmp_path / "log").read_text()
    assert "Header format invalid!" in told
    assert "Failed to export" in told
    assert CANARY not in told


async def test_a_collector_without_the_libraries_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(Refused, match=r"Install poweron-services\[otel\], or unset the variable"):
        async with exporting("http://127.0.0.1:9", resource={}):
            pass


def test_nobody_loads_the_libraries_who_names_no_collector() -> None:
    code = "import sys, poweron_services.wiring; print('opentelemetry.sdk' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
