"""What Prometheus sees of a process: what it did, in labels that cannot grow, and whether it is alive."""

import math
from collections.abc import Sequence

import pytest
from doubles import Counting, World, script
from metric_labels import LABELS
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from poweron_events import topics
from poweron_events.errors import Refused, Unavailable
from poweron_events.log import Follower
from poweron_events.log.memory import MemoryLog
from poweron_services import telemetry
from poweron_services.probes.probe_server import probes_served
from poweron_services.probes.process_probes import SILENT_AFTER, ProcessProbes
from poweron_services.settings.config import Settings
from poweron_services.telemetry.prometheus import MAX_MODELS, GaugeValue, PrometheusMeter

ANSWER = telemetry.ModelAnswer(
    stage="plan",
    provider="openai",
    model="gpt-5-mini",
    seconds=1.5,
    input_tokens=100,
    output_tokens=20,
    cached_input_tokens=40,
    reasoning_tokens=5,
    cost_nano_usd=2_500_000,
)


def scraped(meter: PrometheusMeter, figures: Sequence[GaugeValue] = ()) -> str:
    return meter.exposition(figures, "")[0].decode()


def samples(meter: PrometheusMeter, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by those of its labels, which are in alphabetical order."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(scraped(meter))
        for sample in family.samples
        if sample.name == name
    }


# --- what is counted ----------------------------------------------------------------------------------


async def test_a_process_measures_each_stage_of_its_work_and_what_models_took() -> None:
    world, meter = World([Counting()]), PrometheusMeter()
    async with world.process(meter=meter):
        await world.ended_for_all(await world.ask())
    stages = ("execute", "message", "parameterize", "plan", "refine", "review", "select")  # it observes at once
    assert samples(meter, "poweron_stage_seconds_count") == {(stage,): 1 for stage in stages}
    asked = ("message", "parameterize", "plan", "refine", "review", "select")
    assert samples(meter, "poweron_model_request_seconds_count") == {("scripted:script", stage): 1 for stage in asked}
    assert samples(meter, "poweron_model_tokens_total") == {
        ("input", "scripted:script"): 60,
        ("output", "scripted:script"): 30,
        ("cached_input", "scripted:script"): 0,
        ("reasoning", "scripted:script"): 0,
    }


async def test_a_request_that_a_model_does_not_answer_is_an_error_with_its_code() -> None:
    review = {"status": "success", "reason": "It is done."}
    world = World([Counting()], script(review=[Unavailable("busy", code="model_busy"), review]))
    meter = PrometheusMeter()
    async with world.process(meter=meter):
        await world.ended_for_all(await world.ask())
    assert samples(meter, "poweron_model_errors_total") == {("model_busy", "review"): 1}
    assert samples(meter, "poweron_model_request_seconds_count")["scripted:script", "review"] == 1


def test_what_an_answer_cost_is_counted_in_dollars() -> None:
    meter = PrometheusMeter()
    meter.model_answered(ANSWER)
    meter.model_answered(ANSWER)
    assert math.isclose(samples(meter, "poweron_model_cost_dollars_total")["openai:gpt-5-mini",], 0.005)


async def test_a_process_without_metrics_describes_no_answer() -> None:
    def described() -> telemetry.ModelAnswer:
        raise AssertionError

    telemetry.bind_meter(None)
    telemetry.count_answer(described)
    telemetry.count_failure("plan", "model_busy")


def test_two_processes_in_one_keep_numbers_of_their_own() -> None:
    first, second = PrometheusMeter(["planner"]), PrometheusMeter(["projector"])
    first.stage_done("plan", 1)
    assert samples(first, "poweron_stage_seconds_sum") == {("plan",): 1}
    assert samples(second, "poweron_stage_seconds_sum") == {}
    assert samples(first, "poweron_role_played") == {("planner",): 1}
    assert samples(second, "poweron_role_played") == {("projector",): 1}


# --- labels -------------------------------------------------------------------------------------------


def test_what_strangers_write_makes_no_new_labels() -> None:
    meter = PrometheusMeter()
    for number in range(1_000):
        meter.events_projected({(f"strange.event.{number}", "unknown"): 1, (None, "undecodable"): 1})
        meter.model_answered(ANSWER._replace(model=f"model-{number}"))
        meter.model_failed("plan", f"code_{number}")
        meter.request_answered(f"M{number}", "none", 404, 0.1)
    assert samples(meter, "poweron_events_total") == {("other", "unknown"): 1_000, ("none", "undecodable"): 1_000}
    assert len(samples(meter, "poweron_model_cost_dollars_total")) == MAX_MODELS + 1
    assert samples(meter, "poweron_model_request_seconds_count")["other", "plan"] == 1_000 - MAX_MODELS
    assert samples(meter, "poweron_model_errors_total") == {("other", "plan"): 1_000}
    assert samples(meter, "poweron_http_request_seconds_count") == {("other", "none", "4xx"): 1_000}


def test_every_metric_has_a_help_text_a_unit_and_no_forbidden_label() -> None:
    meter = PrometheusMeter(["planner"])
    meter.events_projected({("workflow.requested", "accepted"): 1})
    meter.model_answered(ANSWER)
    meter.model_failed("plan", "model_busy")
    meter.stage_done("plan", 1)
    meter.request_answered("GET", "/w/{workflow_id}", 200, 0.1)
    meter.polled("poweron.all")
    families = list(text_string_to_metric_families(scraped(meter)))
    ours = [family for family in families if family.name.startswith("poweron_")]
    assert len(ours) > 20
    assert [family.name for family in families if not family.name.startswith(("poweron_", "process_"))] == []
    assert [family.name for family in ours if not family.documentation.endswith(".")] == []
    assert {label for family in families for sample in family.samples for label in sample.labels} <= LABELS
    assert [family.name for family in ours if family.type == "histogram" and not family.name.endswith("_seconds")] == []


# --- whether it is alive ------------------------------------------------------------------------------


def probed(probes: ProcessProbes) -> TestClient:
    return TestClient(Starlette(routes=[Route("/livez", probes.livez), Route("/readyz", probes.readyz)]))


async def test_a_process_that_does_not_poll_kafka_is_not_alive() -> None:
    now = [1_000.0]
    probes = ProcessProbes()
    probes.meter = meter = PrometheusMeter(clock=lambda: now[0])
    client = probed(probes)
    assert (alive := client.get("/livez")).status_code == 200
    assert alive.text == "Alive: the event loop answers.\n"
    log = telemetry.WatchedLog(MemoryLog(), meter)
    async with log.follow(topics.EVENTS.name, "poweron.all") as follower:
        now[0] += SILENT_AFTER - 1
        assert client.get("/livez").status_code == 200
        now[0] += 2
        stuck = client.get("/livez")
        assert stuck.status_code == 503
        assert stuck.text == "Stuck: the process has not polled Kafka as poweron.all for 61 s. Restart it.\n"
        await follower.poll(0)
        assert client.get("/livez").status_code == 200
        now[0] += SILENT_AFTER + 1
    assert client.get("/livez").status_code == 200  # it follows nothing


async def test_a_poll_that_fails_because_kafka_is_away_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    meter = PrometheusMeter(clock=lambda: now[0])

    async def refuse(_: Follower, timeout: float) -> None:
        raise Unavailable("Kafka is away")

    async with telemetry.WatchedLog(MemoryLog(), meter).follow(topics.EVENTS.name, "poweron.all") as follower:
        monkeypatch.setattr(type(follower._follower), "poll", refuse)
        now[0] = 100.0
        with pytest.raises(Unavailable):
            await follower.poll(0)
        assert meter.since_polls == {"poweron.all": 0}


def test_a_process_is_ready_between_its_start_and_its_end() -> None:
    probes = ProcessProbes()
    client = probed(probes)
    assert (client.get("/readyz").status_code, client.get("/readyz").text[:9]) == (503, "Starting:")
    probes.ready()
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, "Ready.\n")
    probes.drain()
    probes.ready()  # roles that start again meanwhile
    assert (client.get("/readyz").status_code, client.get("/readyz").text[:9]) == (503, "Stopping:")


# --- where it answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["9464", "localhost", "localhost:0", "localhost:99999", "::1:9464", ":9464"])
def test_an_address_that_cannot_be_one_is_refused(place: str) -> None:
    with pytest.raises(ValidationError, match="is not HOST:PORT; write it like"):
        Settings(metrics=place)


@pytest.mark.parametrize("place", ["127.0.0.1:9464", "[::1]:9464", "metrics.example:9464"])
def test_an_address_with_a_port_is_accepted(place: str) -> None:
    assert Settings(metrics=place).metrics == place


async def test_an_address_that_is_taken_is_refused_with_what_to_do() -> None:
    probes = ProcessProbes()
    with pytest.raises(Refused, match="Name another address, or unset it"):
        async with probes_served("192.0.2.1:9464", probes):
            pass
