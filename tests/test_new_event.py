"""A new event type-checks only once every module that reads events handles it."""

import re
import sys
from pathlib import Path

import mypy.api

HOUSE = Path(__file__).parent.parent
STREAM = HOUSE / "events" / "poweron_events" / "stream.py"
READERS = (
    "events/poweron_events/client.py",
    "events/poweron_events/fold/evolve.py",
    "events/poweron_events/fold/history.py",
    "projections/poweron_projections/documents.py",
    "projections/poweron_projections/steps.py",
    "services/poweron_services/client/event_words.py",
    "services/poweron_services/fork/event_copies.py",
    "services/poweron_services/fork/original.py",
    "services/poweron_services/trace_export/event_kinds.py",
)
PLANTED = """
class Planted(RoundEvent):
    \"\"\"An event that no module handles.\"\"\"


"""


def test_an_event_without_arms_is_a_type_error_in_every_module_that_reads_events(tmp_path: Path) -> None:
    text = STREAM.read_text().replace("import Event\n", "import Event, RoundEvent\n", 1)
    text = text.replace("WorkflowEvent = (", f"{PLANTED}WorkflowEvent = (\n    Planted |", 1)
    planted = tmp_path / "stream.py"
    planted.write_text(text)

    printed, errors, _ = mypy.api.run(
        [
            f"--config-file={HOUSE / 'pyproject.toml'}",
            f"--python-executable={sys.executable}",
            f"--cache-dir={tmp_path / 'cache'}",
            "--follow-imports=silent",
            "--shadow-file",
            str(STREAM),
            str(planted),
            *(str(HOUSE / reader) for reader in READERS),
        ]
    )

    assert errors == ""
    missing = set(re.findall(r"^(\S+?):\d+: error: .*\bPlanted\b", printed, re.MULTILINE))
    assert {str(Path(name).resolve().relative_to(HOUSE)) for name in missing} == set(READERS), printed
