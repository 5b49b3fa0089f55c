"""Writes the table of `docs/metrics.md` from the metrics: `uv run docs/metrics_page.py`."""

from pathlib import Path
from typing import Final

from poweron_services.telemetry.prometheus import METRICS

PAGE: Final = Path(__file__).with_name("metrics.md")
BEGIN: Final = "| metric | type | labels | meaning |\n|---|---|---|---|\n"
END: Final = "\n<!-- The table is written by `uv run docs/metrics_page.py`; a test compares it. -->"


def written(page: str) -> str:
    """Return the page with a row for each metric."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = (
        f"| `{name}` | {spec.kind} | {' '.join(f'`{label}`' for label in spec.labels)} | {spec.meaning} |\n"
        for name, spec in METRICS.items()
    )
    return before + BEGIN + "".join(rows) + END + after


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
