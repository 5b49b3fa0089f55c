"""The page about the architecture: what it names exists, it leaves nothing out, and who looks for something finds it."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HOUSE = Path(__file__).parent.parent
PAGE = HOUSE / "docs" / "architecture.md"
SERVICES = HOUSE / "services" / "poweron_services"
DISTRIBUTIONS = [HOUSE / "events", HOUSE / "projections", HOUSE / "services"]
LAYERS = "Inside the services everything leans downwards"

LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.]+(/[\w.]+)+|\w+\.(py|md|sql|toml|json)")
MODULE = re.compile(r"\bpoweron_(?:events|projections|services)(?:\.\w+)*")
NAME = re.compile(r"[A-Za-z_]\w*")


class Question(NamedTuple):
    """What somebody asks, under which heading they look, for which words, and the file to which these must lead."""

    asked: str
    heading: str
    words: tuple[str, ...]
    file: str


TEN_THINGS = [
    Question(
        "Where is decided whether an event is accepted or superseded?",
        "The way of a workflow",
        ("decides whether the event is accepted or superseded",),
        "events/poweron_events/fold/evolve.py",
    ),
    Question(
        "Where do a new action's name and schema go?",
        "A new action",
        ("Name", "schema"),
        "events/poweron_events/catalog.py",
    ),
    Question(
        "Which module alone knows aiokafka?", "Events", ("alone", "aiokafka"), "events/poweron_events/log/kafka.py"
    ),
    Question(
        "Where is a request judged without waiting?",
        "The way of a workflow",
        ("Judged", "without waiting"),
        "services/poweron_services/intake/judgement.py",
    ),
    Question(
        "Where are rows and offset written in one transaction?",
        "The way of a workflow",
        ("rows and offset in one transaction",),
        "projections/poweron_projections/rows.py",
    ),
    Question(
        "Where is decided whether the loop goes on?",
        "The way of a workflow",
        ("should_continue", "decides whether the loop goes on"),
        "services/poweron_services/decider/rules.py",
    ),
    Question("Where are the codes?", "Events", ("the codes",), "events/poweron_events/codes.py"),
    Question(
        "Where is a prompt's template?",
        "A new prompt",
        ("template", "beside the role or action"),
        "services/poweron_services/roles/selector.v4.md",
    ),
    Question("What does an HTTP door call?", "A new door", ("calls", "ask"), "services/poweron_services/client"),
    Question(
        "Where are servers of this machine started?",
        "A new door",
        ("Servers of this machine", "started"),
        "services/poweron_services/embedded/pair.py",
    ),
]


def section(text: str, heading: str) -> str:
    """What stands under a heading, down to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def leads_to(line: str) -> set[Path]:
    return {(PAGE.parent / target.split("#")[0]).resolve() for _, target in LINK.findall(line)}


def finds(text: str, question: Question) -> bool:
    """Whether one line under the heading holds all words and leads to the file."""
    lines = section(text, question.heading).splitlines()
    return any(
        all(word in line for word in question.words) and HOUSE / question.file in leads_to(line) for line in lines
    )


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named_in_code() -> Iterator[tuple[str, str]]:
    """What stands in code beside the links of a line, and the line."""
    prose = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    for line in prose.splitlines():
        for code in CODE.findall(LINK.sub("", line)):
            yield code, line


def sources(path: Path) -> str:
    files = path.rglob("*.py") if path.is_dir() else [path]
    return "\n".join(file.read_text() for file in files)


def contract() -> list[set[str]]:
    contracts = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["name"] == LAYERS)
    return [{name.strip() for name in layer.split("|")} for layer in layers]


@pytest.mark.parametrize("question", TEN_THINGS, ids=[question.asked for question in TEN_THINGS])
def test_who_has_only_the_page_finds_it(question: Question) -> None:
    assert (HOUSE / question.file).exists()
    assert finds(PAGE.read_text(), question)


@pytest.mark.parametrize("question", TEN_THINGS, ids=[question.asked for question in TEN_THINGS])
def test_nothing_is_found_on_a_page_that_says_it_elsewhere_or_leads_elsewhere(question: Question) -> None:
    page = PAGE.read_text()
    name = Path(question.file).name
    assert not finds(page.replace(f" {question.heading}\n", " Something else\n"), question)
    assert not finds(page.replace(question.words[0], "…"), question)
    assert not finds(page.replace(f"/{name})", "/elsewhere)"), question)


def test_every_link_leads_somewhere() -> None:
    lost = []
    for _, target in LINK.findall(PAGE.read_text()):
        path, _, anchor = target.partition("#")
        page = (PAGE.parent / path).resolve() if path else PAGE
        if not page.exists() or (anchor and anchor not in anchors(page)):
            lost.append(target)
    assert lost == []


def test_a_link_leads_to_what_it_is_called() -> None:
    called = [(label.strip("`"), target) for label, target in LINK.findall(PAGE.read_text()) if label.startswith("`")]
    assert called
    assert [link for link in called if not f"/{link[1]}".endswith(f"/{link[0]}")] == []


def test_every_file_and_module_that_is_named_exists() -> None:
    paths = {code for code, _ in named_in_code() if PATH.fullmatch(code)}
    modules = {name.replace(".", "/") for name in MODULE.findall(PAGE.read_text())}
    places = [place / name for name in modules for place in DISTRIBUTIONS]
    known = {place for place in places if place.exists() or place.with_suffix(".py").exists()}
    assert [path for path in paths if not (HOUSE / path).exists()] == []
    assert {name for name in modules if not any(place / name in known for place in DISTRIBUTIONS)} == set()


def test_every_name_stands_in_a_file_to_which_its_line_leads() -> None:
    wrong = [
        (name, line)
        for name, line in named_in_code()
        if NAME.fullmatch(name) and leads_to(line)
        if not any(re.search(rf"\b{name}\b", sources(path)) for path in leads_to(line))
    ]
    assert wrong == []


def test_the_layers_are_those_of_the_contract() -> None:
    rows = [line.split("|")[1] for line in section(PAGE.read_text(), "Services").splitlines() if line.startswith("| [")]
    shown = [{label.strip("`").removesuffix(".py") for label, _ in LINK.findall(row)} for row in rows]
    assert shown == contract()


def test_every_package_and_module_of_the_services_has_its_place() -> None:
    there = {path for path in SERVICES.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - leads_to(section(PAGE.read_text(), "Services")) == {SERVICES / "__init__.py"}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "services/README.md"])
def test_who_begins_elsewhere_is_led_to_the_page(page: str) -> None:
    begin = HOUSE / page
    links = [target.partition("#") for _, target in LINK.findall(begin.read_text())]
    headings = [heading for path, _, heading in links if (begin.parent / path).resolve() == PAGE]
    assert headings
    assert {*filter(None, headings)} <= anchors(PAGE)
