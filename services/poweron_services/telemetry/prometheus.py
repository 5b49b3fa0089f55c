"""Keeps the numbers of one process for Prometheus; it alone imports `prometheus_client`.

No label holds an id, a path or text of a person: each has a small, closed set of values. Where a value comes from a
record or a provider, unknown ones share the value `other`.
"""

import platform
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from importlib.metadata import version
from typing import Final, Literal, NamedTuple, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from poweron_events.codes import CODES
from poweron_events.event import NANO
from poweron_events.fold.state import Verdict
from poweron_events.stream import WORKFLOW_EVENTS
from poweron_services.telemetry.meter import ModelAnswer

OTHER: Final = "other"
NO_EVENT: Final = "none"
MAX_MODELS: Final = 50  # models with a label of their own
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
VERDICTS: Final = frozenset({*get_args(Verdict), "undecodable"})


class MetricSpec(NamedTuple):
    """A metric: its meaning, its labels, and the buckets of a histogram."""

    kind: Literal["counter", "gauge", "histogram", "info"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS: Final[Mapping[str, MetricSpec]] = {
    "poweron_build_info": MetricSpec("info", "The release of PowerOn, and of Python.", ("release", "python")),
    "poweron_ready": MetricSpec("gauge", "1 while the process takes work, as `/readyz` says, else 0."),
    "poweron_role_played": MetricSpec("gauge", "1 for each role of this process.", ("role",)),
    "poweron_poll_age_seconds": MetricSpec("gauge", "Seconds since the process last polled Kafka.", ("group",)),
    "poweron_events_total": MetricSpec(
        "counter", "Events that this process, as a projector, wrote into the rows, by verdict.", ("type", "verdict")
    ),
    "poweron_stage_seconds": MetricSpec(
        "histogram",
        "Seconds of a stage, all tries together; execute: of an action. Waiting for people does not count.",
        ("stage",),
        (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300),
    ),
    "poweron_model_request_seconds": MetricSpec(
        "histogram",
        "Seconds of a request to a model that it answered.",
        ("model", "stage"),
        (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120),
    ),
    "poweron_model_errors_total": MetricSpec(
        "counter", "Requests to models without a usable answer, by code.", ("stage", "code")
    ),
    "poweron_model_tokens_total": MetricSpec(
        "counter",
        "Tokens of models as reported; cached_input is a part of input, reasoning a part of output.",
        ("model", "kind"),
    ),
    "poweron_model_cost_dollars_total": MetricSpec("counter", "The cost of models in US dollars.", ("model",)),
    "poweron_http_request_seconds": MetricSpec(
        "histogram",
        "Seconds from an HTTP request to the beginning of its response.",
        ("method", "route", "status"),
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    ),
    "poweron_stream_followers": MetricSpec("gauge", "Clients that follow a stream of this door."),
    "poweron_server_up": MetricSpec("gauge", "1 if the server answers this process, else 0.", ("server",)),
    "poweron_open_workflows": MetricSpec("gauge", "Workflows with an open round, by phase.", ("phase",)),
    "poweron_waiting_turns": MetricSpec("gauge", "Workflows whose next event this role writes.", ("role",)),
    "poweron_oldest_turn_seconds": MetricSpec(
        "gauge", "How long the oldest of them has had no new event; 0 if there is none.", ("role",)
    ),
    "poweron_stuck_workflows": MetricSpec("gauge", "Open workflows on which no answer has an effect any more."),
    "poweron_pending_approvals": MetricSpec("gauge", "Actions that wait for the approval of a person."),
    "poweron_overdue_approvals": MetricSpec(
        "gauge", "Those of them that were escalated, or have used more than half of their time."
    ),
    "poweron_pending_budget_questions": MetricSpec("gauge", "Rounds that ask a person for a larger budget."),
    "poweron_dead_letters": MetricSpec("gauge", "Unreadable records, 100,000 at most, by their topic.", ("topic",)),
    "poweron_consumer_group_lag_records": MetricSpec(
        "gauge", "Records that a consumer group of this process has not passed yet.", ("group",)
    ),
    "poweron_projector_lag_records": MetricSpec("gauge", "Records of poweron.events that the rows lack."),
    "poweron_ledger_lag_records": MetricSpec(
        "gauge", "Records of poweron.events that the ledger has not entered yet, as the rows show it."
    ),
    "poweron_ledger_checkpoint_age_seconds": MetricSpec(
        "gauge", "Seconds since the ledger last signed; an idle one signs every hour, one with an alarm never."
    ),
}


class GaugeValue(NamedTuple):
    """The value of a gauge, and of its label if it has one."""

    name: str
    value: float
    label: str | None = None


class PrometheusMeter(Collector):
    """A `Meter` of one process, with a registry of its own."""

    def __init__(self, roles: Collection[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._roles = roles
        self._clock = clock
        self._polled: dict[str, float] = {}
        self._figures: Sequence[GaugeValue] = ()
        self._models: set[str] = set()
        self._events = self._counter("poweron_events_total")
        self._stages = self._histogram("poweron_stage_seconds")
        self._model_seconds = self._histogram("poweron_model_request_seconds")
        self._model_errors = self._counter("poweron_model_errors_total")
        self._tokens = self._counter("poweron_model_tokens_total")
        self._cost = self._counter("poweron_model_cost_dollars_total")
        self._http = self._histogram("poweron_http_request_seconds")
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def _counter(self, name: str) -> Counter:
        return Counter(name, METRICS[name].meaning, METRICS[name].labels, registry=self.registry)

    def _histogram(self, name: str) -> Histogram:
        _, meaning, labels, buckets = METRICS[name]
        return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)

    # --- what a process counts ------------------------------------------------------------------------

    def events_projected(self, counts: Mapping[tuple[str | None, str], int]) -> None:
        for (event_type, verdict), count in counts.items():
            known = NO_EVENT if event_type is None else _known(event_type, WORKFLOW_EVENTS)
            self._events.labels(known, _known(verdict, VERDICTS)).inc(count)

    def stage_done(self, stage: str, seconds: float) -> None:
        self._stages.labels(stage).observe(seconds)

    def model_answered(self, answer: ModelAnswer) -> None:
        model = self._model(f"{answer.provider}:{answer.model}")
        self._model_seconds.labels(model, answer.stage).observe(answer.seconds)
        self._tokens.labels(model, "input").inc(answer.input_tokens)
        self._tokens.labels(model, "output").inc(answer.output_tokens)
        self._tokens.labels(model, "cached_input").inc(answer.cached_input_tokens)
        self._tokens.labels(model, "reasoning").inc(answer.reasoning_tokens)
        self._cost.labels(model).inc(answer.cost_nano_usd / NANO)

    def model_failed(self, stage: str, code: str) -> None:
        self._model_errors.labels(stage, _known(code, CODES)).inc()

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._http.labels(_known(method, METHODS), route, f"{status // 100}xx").observe(seconds)

    def polled(self, group: str) -> None:
        self._polled[group] = self._clock()

    def left(self, group: str) -> None:
        self._polled.pop(group, None)

    def _model(self, name: str) -> str:
        """Return the label of a model: a provider says which model answered, and could say anything."""
        if name not in self._models and len(self._models) < MAX_MODELS:
            self._models.add(name)
        return _known(name, self._models)

    # --- what is read ---------------------------------------------------------------------------------

    @property
    def since_polls(self) -> Mapping[str, float]:
        """The seconds since the last poll of each consumer group that the process is in."""
        now = self._clock()
        return {group: now - then for group, then in self._polled.items()}

    def exposition(self, figures: Sequence[GaugeValue], accept: str) -> tuple[bytes, str]:
        """Return all metrics and these figures in a format that the scraper accepts, and its media type."""
        self._figures = figures
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type

    def collect(self) -> Generator[Metric, None, None]:
        """Yield the gauges and the release; the registry calls this at each exposition."""
        release = {"release": version("poweron-services"), "python": platform.python_version()}
        yield InfoMetricFamily("poweron_build", METRICS["poweron_build_info"].meaning, release)
        figures = [GaugeValue("poweron_role_played", 1, role) for role in self._roles]
        figures += [
            GaugeValue("poweron_poll_age_seconds", seconds, group) for group, seconds in self.since_polls.items()
        ]
        figures += self._figures
        for name, spec in METRICS.items():
            if spec.kind == "gauge":
                family = GaugeMetricFamily(name, spec.meaning, labels=spec.labels)
                for figure in figures:
                    if figure.name == name:
                        family.add_metric([] if figure.label is None else [figure.label], figure.value)
                yield family


def _known(value: str, values: Collection[str]) -> str:
    return value if value in values else OTHER
