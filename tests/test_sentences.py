"""Code decides by codes: nothing compares, searches or parses a text that was written for people.

Read from the syntax of every module: a text for people is a field or variable that holds one (`TEXTS`), the text of
an error (`str(error)`), or a constant that reads like a sentence. Documents, prompts and what others say are not ours.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("events/poweron_events", "projections/poweron_projections", "services/poweron_services")

TEXTS = {
    "reason", "error", "detail", "message", "summary", "note", "notes", "finding", "findings", "hint", "sentence",
    "improvement", "improvements", "stopped", "stopped_because", "trouble", "problem", "refusal", "why",
}  # fmt: skip
"""Names of what is said to people."""

SEARCHING = {
    "startswith", "endswith", "partition", "rpartition", "removeprefix", "removesuffix", "split", "find", "index",
    "search", "match", "fullmatch", "findall", "count",
}  # fmt: skip

TAKING_APART = {"partition", "rpartition", "split", "find", "index"}

ALLOWED = {
    (
        "decider/model_reasons.py",
        "reason_for_models",
    ): "release 0.2 wrote the detail below the first line of the reason, and no code",
    ("text/format_wishes.py", "_wishes"): "what the user asks for stands in the user's own sentences",
    ("documents_child/webpage.py", "is_too_deep"): "the parser of web pages tells nesting in words only",
    ("telemetry/logs.py", "_log_loop_error"): "aiokafka reports a connection that it has closed itself in words only",
    ("embedded/kafka_server.py", "start"): "Kafka tells a taken port in words only",
    ("embedded/server_process.py", "failure"): "servers tell a full disk in words only",
}
"""Where it is done on purpose, and why."""

_SENTENCE = re.compile(r"[A-Za-z]{2,}(?:[^A-Za-z]* [A-Za-z]{2,}){2,}")  # three words


def _modules() -> Iterator[Path]:
    return (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


def _said(node: ast.expr) -> bool:
    """Whether an expression is a text for people."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in TEXTS
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return name in TEXTS or name.endswith("error")
        case ast.Subscript(value=value, slice=place):
            return _said(value) and not (isinstance(place, ast.Constant) and isinstance(place.value, str))
        case ast.BoolOp(values=[first, *_]):
            return _said(first)
        case _:
            return False


def _words(node: ast.expr) -> bool:
    """Whether an expression is a constant, or holds one, that has letters: punctuation is form, not meaning."""
    inside = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return any(re.search(r"[A-Za-z]", text) for text in inside)


def _sentence(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_SENTENCE.search(node.value))


def _decides(node: ast.AST) -> bool:
    """Whether this compares, searches or parses a text for people."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [left, *others]
            plain = all(isinstance(op, ast.Is | ast.IsNot) for op in ops)
            empty = any(isinstance(side, ast.Constant) and side.value in ("", None) for side in sides)
            said = any(map(_said, sides)) and not all(isinstance(op, ast.Gt | ast.Lt | ast.GtE | ast.LtE) for op in ops)
            return not plain and not empty and (said or any(map(_sentence, sides)))
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=arguments) if name in SEARCHING:
            if name in TAKING_APART or any(map(_said, arguments)):
                return _said(owner) or any(map(_said, arguments))
            return _said(owner) and (any(map(_words, arguments)) or not _constant(arguments))
        case ast.MatchValue(value=value):
            return _sentence(value)
        case _:
            return False


def _constant(arguments: list[ast.expr]) -> bool:
    return all(isinstance(argument, ast.Constant | ast.Tuple) for argument in arguments)


def _deciding(path: str, tree: ast.Module) -> Iterator[str]:
    """Where a module decides by what is said, as `path:line function`."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in ast.walk(tree):
        if _decides(node):
            line = getattr(node, "lineno", 0) or getattr(getattr(node, "value", None), "lineno", 0)
            around = [each for each in functions if each.lineno <= line <= (each.end_lineno or 0)]
            name = max(around, key=lambda each: each.lineno).name if around else ""
            if not any(path.endswith(place) and name == function for place, function in ALLOWED):
                yield f"{path}:{line} {name}"


def test_nothing_compares_searches_or_parses_what_is_said_to_people() -> None:
    found = [
        place
        for path in _modules()
        for place in _deciding(str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_what_is_allowed_is_still_done() -> None:
    for place, function in ALLOWED:
        path = next(path for path in _modules() if str(path).endswith(place))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        (allowed,) = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == function]
        assert any(map(_decides, ast.walk(allowed)))


PLANTED = [
    'def stops(reason): return reason.startswith("The round was cancelled")',
    "def stops(workflow): return workflow.current.reason == TIME_IS_OVER",
    'def is_full(error): return "No space left" in str(error)',
    "def is_denied(observation): return any(note.startswith(DENIED) for note in observation.notes)",
    'def asks(text): return text == "Nothing may be used."',
    'def first(rejected): return rejected.reason.split("\\n")[0] if rejected.reason.count("x y") else ""',
    "def is_new(failure, before): return str(failure.error) != before",
    'def shown(error): return re.search(r"time", str(error))',
]
HARMLESS = [
    'def ends(reason): return reason.removesuffix(".")',
    "def asked(reason): return reason is not None",
    'def told(reason): return reason or "none"',
    'def is_budget(stop): return stop.code == "token_budget"',
    "def long(reason): return len(reason) > 3",
]


@pytest.mark.parametrize("code", PLANTED)
def test_a_planted_decision_by_a_sentence_is_found(code: str) -> None:
    assert list(_deciding("planted.py", ast.parse(code)))


@pytest.mark.parametrize("code", HARMLESS)
def test_what_only_shows_a_sentence_is_none(code: str) -> None:
    assert list(_deciding("harmless.py", ast.parse(code))) == []
