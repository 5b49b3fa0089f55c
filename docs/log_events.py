"""Writes `docs/log-events.md` from the table of log events: `uv run docs/log_events.py`."""

from pathlib import Path

from poweron_services.telemetry.log_events import LOG_EVENTS

PAGE = Path(__file__).with_name("log-events.md")

_HEAD = """\
# The log lines

<!-- Made by `uv run docs/log_events.py`; a test compares. -->

Each line is a JSON object; its `event` is one of these, or the text of a library.
Count them and alert on them; the other fields say which workflow and why.
What events say on Kafka stands in [the events](events.md), how to run PowerOn in [the runbook](../deploy/README.md).

| `event` | level | meaning | what to do |
|---|---|---|---|
"""


def page() -> str:
    """Return the page of all log events with level, meaning and remedy, for operators."""
    rows = (
        f"| `{name}` | {each.levels} | {each.meaning} | {each.remedy} |\n" for name, each in sorted(LOG_EVENTS.items())
    )
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
