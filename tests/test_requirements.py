"""The page of requirements: it lists what the specification asks for, and says of each whether tests prove it."""

import ast
import re
from collections import Counter
from functools import cache

from test_house import HOUSE, files, parsed

ROW = re.compile(r"^\| ([A-Z]-?\d+) \| (.+) \| (holds|partly|later) \|$", re.MULTILINE)
COUNTS = {"M": 8, "L": 10, "A": 3, "P": 9, "D": 4, "C": 9, "R": 3, "H": 4, "B": 3, "X": 6, "E": 17}
ROWS = ROW.findall((HOUSE / "docs" / "requirements.md").read_text(encoding="utf-8"))
STATES = {name: state for name, _, state in ROWS}


@cache
def proven() -> set[str]:
    """The ids that a test or a class of tests is marked with; a marker anywhere else proves nothing."""
    return {
        str(argument.value)
        for path in files("*.py")
        if path.is_relative_to(HOUSE / "tests") and "mark.req(" in path.read_text()
        for node in parsed(path).body
        for test in (node, *(node.body if isinstance(node, ast.ClassDef) else ()))
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if test.name.lower().startswith("test")
        for marker in test.decorator_list
        if isinstance(marker, ast.Call) and ast.unparse(marker.func) == "pytest.mark.req"
        for argument in marker.args
        if isinstance(argument, ast.Constant)
    }


def test_the_page_lists_every_id_once_in_its_order() -> None:
    listed = [name for name, _, _ in ROWS]
    assert [name for name, count in Counter(listed).items() if count > 1] == []
    ours = [name for name in listed if "-" in name]
    assert ours == [f"{group}-{number:02}" for group, count in COUNTS.items() for number in range(1, count + 1)]
    safety = [int(name[1:]) for name in listed if "-" not in name]
    assert safety == sorted(safety)


def test_every_row_says_a_sentence_and_a_state() -> None:
    page = (HOUSE / "docs" / "requirements.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and not line.startswith(("| id", "|---"))]
    assert len(rows) == len(ROWS)
    assert [name for name, sentence, _ in ROWS if not sentence.endswith(".")] == []
    assert [
        name for name, sentence, state in ROWS if (state == "partly") != (";" in sentence and "later." in sentence)
    ] == []


def test_what_holds_is_proven_by_a_test_and_what_comes_later_by_none() -> None:
    claimed = proven()
    assert sorted(name for name, state in STATES.items() if state != "later" and name not in claimed) == []
    assert sorted(name for name, state in STATES.items() if state == "later" and name in claimed) == []


def test_every_id_that_a_test_names_stands_on_the_page() -> None:
    assert sorted(proven() - STATES.keys()) == []
