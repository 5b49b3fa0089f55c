"""Every log line of the product names a code of one table, and operators find each of them in one page."""

import ast
import re
import runpy
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from poweron_services.telemetry.log_events import (
    LOG_EVENTS,
    MODEL_PASSED_OVER,
    MODEL_WAITS,
    STAGE_WAITS,
    Milestone,
)

ROOT = Path(__file__).parents[1]
PACKAGES = ("events/poweron_events", "projections/poweron_projections", "services/poweron_services")
LEVELS = {level: level for level in ("debug", "info", "warning", "error", "critical")} | {"exception": "error"}
NAMED = {
    "MODEL_PASSED_OVER": [MODEL_PASSED_OVER],
    "MODEL_WAITS": [MODEL_WAITS],
    "STAGE_WAITS": [STAGE_WAITS],
    "log_event": list(get_args(Milestone)),
}
"""What stands for a code where a line is logged."""


def _logged(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The code, or what stands there, and the level of each call of `log` in a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr="log"), args=[_, event]):
                yield from ((code, level) for code in _codes(event) for level in ("info", "warning"))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=name), args=[event, *_]) if name in LEVELS:
                yield from ((code, LEVELS[name]) for code in _codes(event))


def _codes(event: ast.expr) -> list[str]:
    match event:
        case ast.Constant(value=str(code)):
            return [code]
        case ast.Attribute(attr=name):
            return NAMED.get(name, [ast.unparse(event)])
        case _:
            return [ast.unparse(event)]


def test_every_line_names_a_code_of_the_table_and_every_code_is_logged() -> None:
    found = defaultdict[str, set[str]](set)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for code, level in _logged(ast.parse(path.read_text(encoding="utf-8"))):
                found[code].add(level)
    assert {code: ", ".join(sorted(levels)) for code, levels in found.items()} == {
        code: event.levels for code, event in LOG_EVENTS.items()
    }


def test_a_planted_line_without_a_code_is_found() -> None:
    planted = 'log.warning("the log is away", error=error); log.info(f"{what} ended")'
    assert not {code for code, _ in _logged(ast.parse(planted))} & LOG_EVENTS.keys()


def test_codes_are_words_and_say_what_to_do() -> None:
    for code, event in LOG_EVENTS.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
        assert event.meaning.endswith(".")
        assert event.remedy.endswith(".")


def test_the_page_for_operators_is_the_table() -> None:
    page = (ROOT / "docs" / "log-events.md").read_text(encoding="utf-8")
    assert page == runpy.run_path(str(ROOT / "docs" / "log_events.py"))["page"]()
    assert "(../docs/log-events.md)" in (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
