"""The rules of the house: what every file has in common, whatever it is about."""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOUSE = Path(__file__).parent.parent
MAX_FUNCTION = 60  # lines
USUAL_FUNCTION = 20  # lines that nine of ten functions have at most
MAX_FILE = 500
MAX_MODULE = 600  # a file of the three packages, if it is one thing
PACKAGES = ("events/poweron_events", "projections/poweron_projections", "services/poweron_services")
SHARED_NAMES = {
    "client": "asking from outside: `poweron_events.client` over the log alone, `poweron_services.client` for our doors",
}
OF_THEIR_TIME = ("docs/decisions/", "docs/measured/", "services/poweron_services/", "tests/")
"""Records of their day, and prompts, which never change once a model has seen them."""
TABLES = {"tests/examples/questions.py"}  # one row after the other, to be looked up rather than read
REQUIREMENT = re.compile(r"[MLAPDCRHBXE]-\d{2}|S\d{1,2}")
REGISTRIES = [
    ".".join(name)
    for name in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("crates", "io"),
        ("npmjs", "org"),
        ("golang", "org"),
        ("maven", "org"),
        ("maven", "apache", "org"),
        ("debian", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
    )
]


def files(pattern: str = "*") -> list[Path]:
    """The files under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", pattern], cwd=HOUSE, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return [path for name in listed.split("\0") if name and (path := HOUSE / name).is_file()]


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, parsed(path)) for path in files("*.py") if path.read_text().strip()]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def named(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def test_everybody_imports_only_whom_they_may() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    linted = subprocess.run([linter, "--no-cache"], cwd=HOUSE, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout


def test_no_file_names_a_package_registry() -> None:
    naming = {
        f"{named(path)} names {host}"
        for path in files()
        for host in REGISTRIES
        if re.search(rf"\b{re.escape(host)}\b".encode(), path.read_bytes())
    }
    assert naming == set()


def test_every_requirement_that_a_test_names_is_one_of_the_specification() -> None:
    said = [
        (named(path), name)
        for path in files("*.py")
        if path.is_relative_to(HOUSE / "tests")
        for names in re.findall(r"pytest\.mark\.req\(([^)]*)\)", path.read_text())
        for name in re.findall(r"[^\s,\"']+", names)
    ]
    assert said
    assert [(path, name) for path, name in said if not REQUIREMENT.fullmatch(name)] == []


def test_every_module_opens_with_a_sentence_that_says_what_it_is() -> None:
    assert [named(path) for path, module in modules() if not ast.get_docstring(module)] == []


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{named(path)}: {function.name}, {lines} lines"
        for path, module in modules()
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > MAX_FUNCTION
    ]
    assert long == []


def test_no_module_is_too_long_to_be_read_at_once() -> None:
    own = set(packaged())
    lines = {named(path): len(path.read_text().splitlines()) for path in files("*.py") if path not in own}
    assert {name: count for name, count in lines.items() if count > MAX_FILE and name not in TABLES} == {}


def packaged() -> list[Path]:
    return [path for path in files("*.py") if named(path).startswith(tuple(f"{package}/" for package in PACKAGES))]


def test_nine_functions_of_ten_are_a_handful_of_lines() -> None:
    lengths = sorted(
        (function.end_lineno or 0) - function.lineno + 1
        for path in packaged()
        for function in ast.walk(parsed(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert lengths[len(lengths) * 9 // 10] <= USUAL_FUNCTION


def test_no_file_of_the_packages_is_longer_than_600_lines() -> None:
    lines = {named(path): len(path.read_text().splitlines()) for path in packaged()}
    assert lines
    assert {name: count for name, count in lines.items() if count > MAX_MODULE} == {}


def namesakes(paths: list[str]) -> dict[str, list[str]]:
    """Modules and packages that bear the same name; the three distributions and `__main__` have theirs by rule."""
    bearers: dict[str, list[str]] = {}
    for path in paths:
        place = path.removesuffix("/__init__.py").removesuffix(".py")
        if place not in PACKAGES and not place.endswith("/__main__"):
            bearers.setdefault(place.rpartition("/")[2], []).append(place)
    return {name: places for name, places in bearers.items() if len(places) > 1}


def test_no_two_modules_bear_the_same_name() -> None:
    paths = [named(path) for path in packaged()]
    assert namesakes(paths).keys() == SHARED_NAMES.keys()


def test_namesakes_are_found_across_distributions_and_between_a_package_and_a_module() -> None:
    own = ["services/poweron_services/intake/__init__.py", "services/poweron_services/intake/intake.py"]
    below = ["services/poweron_services/roles/execution.py", "events/poweron_events/execution.py"]
    ends = ["services/poweron_services/__init__.py", "services/poweron_services/intake/__main__.py"]
    assert namesakes([*own, *below, *ends]).keys() == {"intake", "execution"}


OF_THE_FIELD = {
    "embedding": "a text as a vector",
    "meaning": "a noun",
    "rendering": "of pages",
    "scripted": "the model `scripted:FILE`",
    "setting": "a noun",
    "speed": "a noun",
    "unprivileged": "a user without rights",
    "wiring": "of the parts of a process",
}
"""Words that end like participles or gerunds, and why they name a module."""


def test_modules_are_named_by_nouns() -> None:
    words = {word for path in packaged() for word in path.stem.split("_")}
    assert {word for word in words if re.fullmatch(r"\w{3,}(?:ed|ing)", word)} == OF_THE_FIELD.keys()


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in packaged():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(named(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def listed_words() -> re.Pattern[str]:
    """The first column of the table of words in docs/style.md."""
    rows = re.findall(r"^\| `(.+?)` \|", (HOUSE / "docs" / "style.md").read_text(), re.MULTILINE)
    return re.compile(rf"\b(?:{'|'.join(row.replace(chr(92) + '|', '|') for row in rows)})\b", re.IGNORECASE)


def documentation(path: Path) -> Iterator[tuple[int, str]]:
    """The comments and docstrings of a module, each with its line."""
    text = path.read_text()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_code_holds_no_word_that_the_style_replaces() -> None:
    listed = listed_words()
    assert listed.search("rows are made anew")
    found = [
        f"{named(path)}:{line}: {word}"
        for path in packaged()
        for line, text in documentation(path)
        for word in dict.fromkeys(match[0] for match in listed.finditer(text))
    ]
    assert found == []


def test_pages_hold_no_word_that_the_style_replaces() -> None:
    listed = listed_words()
    pages = [*files("*.md"), *files("docs/*.md"), *files("docs/how-to/*.md")]
    own = {"docs/style.md", "CHANGELOG.md"}  # the table of words; releases of the past
    found = [
        f"{named(page)}: {match[0]}"
        for page in pages
        if named(page) not in own and not named(page).startswith(OF_THEIR_TIME)
        for match in listed.finditer(re.sub(r"(?ms)^ *```.*?^ *```|`[^`\n]*`", "", page.read_text()))
    ]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")
    kinds = {".py", ".md", ".sql", ".toml", ".yaml", ".yml", ""}
    assert [named(path) for path in files() if path.suffix in kinds and later.search(path.read_text())] == []


def test_everything_that_uv_installs_has_its_exact_version_written_down() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())
    pins = [Requirement(pin) for pin in project["tool"]["uv"]["constraint-dependencies"]]
    pinned = {(canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")) for pin in pins}
    packages = tomllib.loads((HOUSE / "uv.lock").read_text())["package"]  # laid by `uv run`, for every platform
    installed = {(each["name"], each["version"]) for each in packages if "registry" in each["source"]}
    assert installed == pinned, "run `make pins`"


@pytest.mark.parametrize("folder", ["events", "projections", "services"])
def test_all_distributions_carry_one_version(folder: str) -> None:
    whole = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]
    part = tomllib.loads((HOUSE / folder / "pyproject.toml").read_text())["project"]
    assert (part["version"], part["license"], part["requires-python"]) == (
        whole["version"],
        whole["license"],
        whole["requires-python"],
    )
