"""A role process for scenarios: `python -m poweron_services.experiments.chaos.scenario_worker JOURNAL ROLE…`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from poweron_services import telemetry
from poweron_services.actions.registry import only
from poweron_services.experiments.chaos.scenarios import Journal, ScenarioModel, scenario_actions
from poweron_services.experiments.sandbox.child_process import run, serve
from poweron_services.settings.config import Settings


def main(journal: Path, roles: Sequence[str]) -> None:
    settings = Settings()
    telemetry.configure(settings.log_level)
    run(serve(settings, roles, ScenarioModel(), only(*scenario_actions(Journal(journal)).values())))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
