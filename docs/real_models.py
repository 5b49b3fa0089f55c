"""Sends 40 requests to real language models and writes the results to `docs/measured/real-models.md`.

    uv run docs/real_models.py builtin qwen=openai:qwen@http://127.0.0.1:18811/v1

Every answer is saved as soon as it arrives, so an interrupted run continues where it stopped. `--release` names the
release that `--poweron` runs, so that one page can show two releases. The documents are those of the repository and,
for some requests, samples that a clone does not have: such requests are left out, and the page says how many were made.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

HOUSE = Path(__file__).resolve().parent.parent
TABLE = HOUSE / "docs" / "measured" / "requests.jsonl"
PAGE = HOUSE / "docs" / "measured" / "real-models.md"
FOLDERS = (
    HOUSE / "docs" / "examples",
    HOUSE / "tests" / "examples",
    Path(os.environ.get("POWERON_SAMPLES", HOUSE.parent / "shared" / "samples")),
)
READABLE = {".md", ".txt", ".csv", ".html", ".json"}
NOT_SAID = (
    "do not say", "does not say", "don't say", "not mention", "not state", "not specif", "not provide", "not contain",
    "not include", "not found", "no information", "not available", "not given", "cannot be", "could not", "unable",
    "not possible", "no answer", "nicht", "keine", "come closest", "am nächsten",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """A line of the table; `|` separates texts of which one suffices."""

    line: int
    kind: str
    language: str
    prompt: str
    documents: tuple[str, ...] = ()
    follows: int | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] | None = None
    formats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The result of a request."""

    release: str
    model: str
    line: int
    workflow: str
    status: str
    code: str | None
    right: bool
    missed: tuple[str, ...]
    answers: int
    rejected: tuple[str, ...]
    tries: int
    steps: int
    tokens: int
    seconds: float
    message: str = field(repr=False)


Group = tuple[str, str]  # release and model


def requests() -> list[Request]:
    lines = enumerate(TABLE.read_text(encoding="utf-8").splitlines(), 1)
    return [Request(line, **json.loads(text)) for line, text in lines]


def found(document: str) -> Path | None:
    return next((folder / document for folder in FOLDERS if (folder / document).is_file()), None)


class Poweron:
    """Runs the commands of a release with the settings of a model."""

    def __init__(self, command: str, model: str, url: str) -> None:
        self.command = command
        place = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", "none")} if url else {}
        free = {} if model == "builtin" else {"POWERON_MODEL_PRICE": f"{model}=0,0"}
        web = {"POWERON_SEARCH": f"folder:{HOUSE / 'docs' / 'examples' / 'site'}"}
        self.environment = {**os.environ, "POWERON_MODEL": model, **place, **free, **web}

    def run(self, *arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(  # noqa: S603 - our own command
            [self.command, *arguments, "--json"], env=self.environment, capture_output=True, text=True, check=False
        )
        told = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not told:
            raise SystemExit(f"poweron {arguments[0]} ended with {done.returncode} and said: {done.stderr[-2_000:]}")
        return [json.loads(line) for line in told]


def asked(poweron: Poweron, release: str, name: str, request: Request, before: str | None) -> Result:
    """Send one request as a user would and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        documents = [argument for each in request.documents for argument in ("--document", str(found(each)))]
        follow = ["--workflow", before] if before else []
        answer = poweron.run("ask", request.prompt, *documents, *follow, "--output", folder)[-1]
        written = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in written if path.suffix in READABLE]
        missed = list(misses(request, answer, texts, {path.suffix.removeprefix(".") for path in written}))
    if "workflowId" not in answer:
        raise SystemExit(f"Line {request.line}: {answer}")
    events = poweron.run("events", answer["workflowId"])
    rounds = [each for each in events if each.get("data", {}).get("round") == answer["round"]]
    calls = [call for each in rounds for call in calls_of(each["data"])]
    return Result(
        release=release,
        model=name,
        line=request.line,
        workflow=answer["workflowId"],
        status=answer["status"],
        code=answer.get("code"),
        right=not missed,
        missed=tuple(missed),
        answers=len(calls),
        rejected=tuple(str(each["data"].get("code")) for each in rounds if "rejected" in each["type"]),
        tries=sum(call.get("tries", 1) for call in calls),
        steps=answer.get("steps", 0),
        tokens=answer.get("tokens", 0),
        seconds=answer.get("durationMs", 0) / 1000,
        message=answer.get("message", ""),
    )


def calls_of(data: dict[str, Any]) -> Iterable[dict[str, Any]]:
    one = data.get("modelCall")
    return [*([one] if one else []), *(data.get("modelCalls") or [])]


def misses(request: Request, answer: dict[str, Any], texts: Sequence[str], formats: set[str]) -> Iterator[str]:
    """Yield what the answer lacks, according to fixed rules."""
    if answer["status"] != "completed":
        yield f"it {answer['status']} ({answer.get('code')})"
    read = [answer.get("message") or "", *(texts if request.formats else ())]
    told = " ".join("\n".join(read).casefold().split())
    for wanted in request.contains:
        if not any(each.casefold() in told for each in wanted.split("|")):
            yield f"without {wanted!r}"
    for wanted in request.formats:
        if wanted not in formats:
            yield f"no {wanted}"
    if request.lacks is not None:
        if not any(each in told for each in NOT_SAID):
            yield "it does not say that nothing is said of it"
        yield from (f"it says {each!r}" for each in request.lacks if each.casefold() in told)


def kept(folder: Path) -> list[Result]:
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [Result(**json.loads(line)) for line in lines]


def measure(folder: Path, release: str, command: str, model: str, lines: set[int]) -> None:
    """Send the requests that this model has not answered yet."""
    name, _, rest = model.rpartition("=")
    spec, _, url = rest.partition("@")
    name = name or spec
    poweron = Poweron(command, spec, url)
    have = {each.line: each for each in kept(folder) if (each.release, each.model) == (release, name)}
    for request in requests():
        if request.line in have or (lines and request.line not in lines):
            continue
        if None in map(found, request.documents) or (request.follows and request.follows not in have):
            continue
        before = have[request.follows].workflow if request.follows else None
        result = asked(poweron, release, name, request, before)
        have[request.line] = result
        with (folder / f"{release}-{name.replace(':', '-')}.jsonl").open("a") as file:
            file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
        said = "right" if result.right else "; ".join(result.missed)
        print(f"{name} {request.line:>2} {result.seconds:>6.1f} s  {result.status}  {said}", flush=True)


def page(results: Sequence[Result]) -> str:
    """Return the page, with a row per release and model, and the right answers of each by kind of request."""
    groups: dict[Group, list[Result]] = {}
    for each in results:
        groups.setdefault((each.release, each.model), []).append(each)
    rows = [row(f"{release} | {model}", ours) for (release, model), ours in groups.items()]
    return "\n".join([HEAD, *rows, "", *by_kind(groups), "", *codes(groups), ""])


HEAD = """# Real models

`uv run docs/real_models.py` wrote this page: each model was asked the requests of [requests.jsonl](requests.jsonl) one
after the other. An answer is right where its message, or a file that was asked for, holds what the table names; by
rule, no model judges.
A model that was asked fewer than 40 was stopped before its end, for the sake of time: the first ones of each kind came
first. Small models run beside other work here, so seconds are an upper bound.

| release | model | requests | completed | right | answers | rejected | retries | tokens | seconds, median |
|---|---|---|---|---|---|---|---|---|---|"""


def row(name: str, results: Sequence[Result]) -> str:
    answers, rejected = sum(each.answers for each in results), sum(len(each.rejected) for each in results)
    completed, right = (sum(each.status == "completed" for each in results), sum(each.right for each in results))
    cells = [
        str(len(results)),
        f"{completed} ({completed / len(results):.0%})",
        f"{right} ({right / len(results):.0%})",
        str(answers),
        f"{rejected} ({rejected / max(1, answers):.1%})",
        str(rejected + sum(each.tries - each.answers for each in results)),
        f"{sum(each.tokens for each in results):,}",
        f"{median(each.seconds for each in results):.1f}",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def by_kind(groups: Mapping[Group, Sequence[Result]]) -> Iterator[str]:
    kinds = {each.line: each.kind for each in requests()}
    yield "Right, by kind of request:"
    yield ""
    names = list(dict.fromkeys(kinds.values()))
    yield f"| release | model | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    for (release, model), ours in groups.items():
        cells = []
        for name in names:
            of = [each.right for each in ours if kinds[each.line] == name]
            cells.append(f"{sum(of)} of {len(of)}")
        yield f"| {release} | {model} | {' | '.join(cells)} |"


def codes(groups: Mapping[Group, Sequence[Result]]) -> Iterator[str]:
    yield "Why answers were rejected and rounds failed:"
    yield ""
    for (release, model), ours in groups.items():
        rejected = Counter(code for each in ours for code in each.rejected)
        failed = Counter(str(each.code) for each in ours if each.status != "completed")
        told = [f"{code} {count}" for code, count in rejected.most_common()]
        ended = [f"{code} {count}" for code, count in failed.most_common()]
        yield f"- {release}, {model}: rejected: {', '.join(told) or 'none'}; failed: {', '.join(ended) or 'none'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="builtin, or NAME=PROVIDER:MODEL@URL")
    parser.add_argument("--kept", type=Path, default=HOUSE / ".real-models", help="the folder of the answers so far")
    parser.add_argument("--release", default="this")
    parser.add_argument("--poweron", default=shutil.which("poweron") or str(Path(sys.executable).with_name("poweron")))
    parser.add_argument("--lines", default="", help="only these lines of the table, with commas between")
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    lines = {int(each) for each in options.lines.split(",") if each}
    for model in options.models:
        measure(options.kept, options.release, options.poweron, model, lines)
    if not options.no_page:
        PAGE.write_text(page(kept(options.kept)), encoding="utf-8")


if __name__ == "__main__":
    main()
