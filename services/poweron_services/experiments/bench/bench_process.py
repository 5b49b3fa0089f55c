"""A process of a run: `python -m poweron_services.experiments.bench.bench_process serve SECONDS ROLE…`, or `… project`.

The roles use an instant action and a model whose calls take SECONDS; `project` is the yardstick for the projector.
"""

import sys

from poweron_services import telemetry
from poweron_services.actions.registry import only
from poweron_services.experiments.bench import yardsticks
from poweron_services.experiments.bench.instant import InstantAction, InstantModel
from poweron_services.experiments.sandbox.child_process import run, serve
from poweron_services.settings.config import Settings


def main(what: str, *arguments: str) -> None:
    telemetry.configure("warning", lasting=True)
    settings = Settings()
    if what == "serve":
        seconds, *roles = arguments
        run(serve(settings, roles, InstantModel(float(seconds)), only(InstantAction())))
        return
    assert settings.named_kafka is not None
    assert settings.postgres is not None
    run(yardsticks.project(settings.named_kafka, settings.postgres.get_secret_value(), ready=_tell_ready))


def _tell_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
