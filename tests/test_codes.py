"""The codes of events: each is written by somebody, and nobody writes one that the table does not explain."""

import ast
from collections.abc import Iterator
from pathlib import Path

from poweron_events.codes import CODES
from poweron_services.cli import advice

ROOT = Path(__file__).parents[1]
PACKAGES = ("events/poweron_events", "projections/poweron_projections", "services/poweron_services")
EXPLAINING = ("codes.py", "advice.py", "log_events.py", "glossary.py", "examples.py")


def _nodes() -> Iterator[ast.AST]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.name not in EXPLAINING:
                yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def test_every_code_of_the_table_is_written_somewhere() -> None:
    constants = {node.value for node in _nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert CODES.keys() - constants == set()


def test_every_code_that_is_written_stands_in_the_table() -> None:
    given = {
        node.value.value
        for node in _nodes()
        if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant)
    }
    assert len(given) > 20
    assert given - CODES.keys() == set()


def test_advice_is_worded_for_codes_that_there_are() -> None:
    assert advice._ADVICE.keys() - CODES.keys() == set()
