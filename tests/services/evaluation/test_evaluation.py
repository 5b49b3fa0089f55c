"""An evaluation is code alone: a table is read, answers of the log are judged, and what nobody can say is said."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import Shell

from builders import Told, completed, document, planned, refused, requested, reviewed, step
from poweron_events.client import Heard
from poweron_events.codec import encode, read
from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.envelope import envelop
from poweron_events.errors import Refused
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.round_events import RoundCompleted, RoundFailed, StageFailed, Totals
from poweron_events.topics import PARTITIONS, partition_of
from poweron_services.evaluation.run_file import ExpectedFacts, RunAnswer, StoredRun, keep, read_run, read_table
from poweron_services.evaluation.score_report import report_json, report_markdown
from poweron_services.evaluation.scores import JudgedAnswer, judged, misses, partings, scores, verdict
from poweron_services.evaluation.workflow_answer import RecordedAnswer, recorded_answer

RUN = StoredRun(run_id="r", table="q.jsonl", began="2026-11-21T00:00:00.000Z", worker="here-1", models=("a", "b"))
ANSWER = RecordedAnswer(
    workflow_id="w",
    status="completed",
    message="The grand total is $1,980.84.",
    texts=["Labour costs\n$ 1,200."],
    erased=[],
    totals=Totals(steps=2, input_tokens=100, output_tokens=20, cost_nano_usd=3_000),
    duration_ms=1_500,
    actions=["document.extract", "ai.process", "document.extract"],
    models=["builtin/extractive"],
    workers=frozenset({"here-1-abcd"}),
)


def history(*events: Any) -> list[Heard]:
    told = Told().tell(*events)
    home, workflow, found = partition_of(told.id.encode(), PARTITIONS), Workflow(told.id), list[Heard]()
    for offset, value in enumerate(told.values):
        record = read(value, key=told.id.encode(), partition=home, offset=offset, time_ms=offset * 1_000)
        workflow, judged_ = evolve(workflow, record)
        found.append(Heard(record, judged_, workflow))
    return found


def expecting(**facts: Any) -> ExpectedFacts:
    return ExpectedFacts.model_validate(facts)


def missed(answer: RecordedAnswer = ANSWER, **facts: Any) -> list[str]:
    return [each.expectation for each in misses(expecting(**facts), answer)]


def changed(**fields: Any) -> RecordedAnswer:
    from dataclasses import replace

    return replace(ANSWER, **fields)


# --- the table ------------------------------------------------------------------------------------------


def table(folder: Path, *lines: Any) -> Path:
    path = folder / "q.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else orjson.dumps(line).decode() for line in lines))
    return path


def test_documents_are_looked_for_beside_the_table_and_empty_lines_count_as_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    path = table(tmp_path, "", {"prompt": "What?", "documents": ["a.txt"], "expect": {"contains": "a"}}, "")
    (request,) = read_table(path)
    assert (request.line, request.documents, request.expect.contains) == (2, [tmp_path / "a.txt"], ("a",))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "Line 2 of"),
        ({"prompt": " ", "expect": {}}, "prompt"),
        ({"prompt": "What?"}, "expect is missing"),
        ({"prompt": "What?", "expect": {"contain": "a"}}, "expect.contain is not a known field"),
        ({"prompt": "What?", "expect": {"status": "done"}}, "expect.status"),
        ({"prompt": "What?", "expect": {"maxSteps": 0}}, "expect.maxSteps"),
        ({"prompt": "What?", "documents": ["gone.pdf"], "expect": {}}, "gone.pdf"),
        ({"prompt": "What?", "documents": ["."], "expect": {}}, "names a document that is no file"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_by_its_number(tmp_path: Path, line: Any, says: str) -> None:
    with pytest.raises(Refused, match="Line 2 of") as refusal:
        read_table(table(tmp_path, {"prompt": "What?", "expect": {}}, line))
    assert says in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe{"])
def test_a_table_without_requests_or_without_text_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "q.jsonl").write_bytes(content)
    with pytest.raises(Refused, match=r"q\.jsonl"):
        read_table(tmp_path / "q.jsonl")


# --- the judgement --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"contains": "grand TOTAL is $1,980.84"},
        {"contains": ["labour costs $ 1,200", "total"]},
        {"maxSteps": 2},
        {"actions": ["document.extract", "document.extract"]},
        {"actions": ["document.extract", "ai.process"], "status": "completed"},
    ],
)
def test_an_answer_that_holds_what_is_expected_is_right(facts: dict[str, Any]) -> None:
    assert missed(**facts) == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"contains": ["$1,980.85"]}, ["contains"]),
        ({"contains": ["total", "tax", "tip"]}, ["contains", "contains"]),
        ({"status": "failed"}, ["status"]),
        ({"maxSteps": 1}, ["maxSteps"]),
        ({"actions": ["ai.process", "ai.process"]}, ["actions"]),
        ({"status": "refused", "maxSteps": 1, "actions": ["web.search"]}, ["status", "maxSteps", "actions"]),
    ],
)
def test_every_expectation_that_is_not_met_is_named(facts: dict[str, Any], expected: list[str]) -> None:
    assert missed(**facts) == expected
    assert verdict(misses(expecting(**facts), ANSWER)) == "wrong"


def test_a_failed_answer_is_wrong_unless_it_is_expected_to_fail() -> None:
    assert missed(changed(status="failed"), contains="total") == ["status"]
    assert missed(changed(status="failed"), status="failed") == []


def test_what_may_have_stood_in_an_erased_document_is_inconclusive_and_what_stands_elsewhere_is_right() -> None:
    erased = changed(erased=["answer.md"])
    assert verdict(misses(expecting(contains="tip"), erased)) == "inconclusive"
    assert verdict(misses(expecting(contains="total"), erased)) == "right"
    assert verdict(misses(expecting(contains="tip", maxSteps=1), erased)) == "wrong"


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("What is the population of Zurich?", "I cannot answer “What is the population of Zurich?”."),
        ("Read the estimate. What does labour in Zurich cost?", "Sorry: what does labour in  ZURICH cost"),
        ("How many people live in Zurich", "Nothing was found. The question was: How many people live in Zurich?"),
    ],
)
def test_an_answer_that_only_repeats_the_question_does_not_contain_what_is_expected(prompt: str, message: str) -> None:
    refusal = changed(prompt=prompt, message=message, texts=[])
    assert missed(refusal, contains="Zurich") == ["contains"]
    assert missed(changed(prompt=prompt, message=f"{message} Zurich has 447,082."), contains="Zurich") == []


# --- the answer in the log ------------------------------------------------------------------------------


async def test_an_answer_is_read_from_the_log_and_from_the_text_documents_of_its_end() -> None:
    content = ContentStore.at("memory:///")
    id_ = Told().id
    name = await content.put(id_, b"Labour costs")
    kept = document("answer.md", mime_type="text/markdown", content=name)
    end = RoundCompleted(
        round=1, message="Done.", documents=(kept, document("gone.md", mime_type="text/markdown")), totals=Totals()
    )
    found = await recorded_answer(history(requested(), planned(), *step(1), reviewed(), end), content)
    assert (found.status, found.message, found.texts, found.erased) == (
        *("completed", "Done."),
        *(["Labour costs"], ["gone.md"]),
    )
    assert (found.actions, found.models, found.workers) == (
        *(["document.extract"], ["builtin/extractive"]),
        frozenset({"1"}),
    )
    assert (found.totals.steps, found.duration_ms) == (1, 9_000)


async def test_a_follow_up_changes_nothing_of_the_answer_before_it() -> None:
    from builders import follow_up

    whole = [requested(), planned(), *step(1), reviewed(), completed()]
    content = ContentStore.at("memory:///")
    before = await recorded_answer(history(*whole), content)
    assert await recorded_answer(history(*whole, follow_up()), content) == before


async def test_a_refusal_is_an_answer_and_an_open_round_is_none() -> None:
    content = ContentStore.at("memory:///")
    assert (await recorded_answer(history(refused()), content)).status == "refused"
    assert (await recorded_answer(history(requested(), planned()), content)).status == "open"


# --- the run --------------------------------------------------------------------------------------------


def kept(line: int = 1, model: str = "a", **fields: Any) -> RunAnswer:
    given = {"fingerprint": "f", "repetition": 1, "workflow_id": "w"}
    return RunAnswer(line=line, model=model, **{**given, **fields})


def judge(answer: RecordedAnswer | None = ANSWER, *, line: int = 1, model: str = "a", **facts: Any) -> JudgedAnswer:
    return judged(RUN, kept(line, model), expecting(**facts), answer)


def test_what_another_process_worked_on_is_inconclusive() -> None:
    found = judge(changed(workers=frozenset({"here-1-abcd", "here-12-abcd"})))
    assert (found.verdict, "here-12-abcd" in (found.trouble or "")) == ("inconclusive", True)


@pytest.mark.parametrize("code", ["model_unavailable", "model_access_denied", "stage_timeout", "search_timeout"])
def test_what_was_not_answered_for_trouble_of_the_service_is_inconclusive(code: Code) -> None:
    found = judge(changed(status="failed", code=code, message="It failed."), contains="total")
    assert (found.verdict, code in (found.trouble or "")) == ("inconclusive", True)
    assert judge(changed(status="failed", code=code), status="failed").verdict == "right"
    assert judge(changed(status="failed", code="judged_by_model"), contains="total").verdict == "wrong"


async def test_the_code_of_a_failure_is_read_from_the_log() -> None:
    content = ContentStore.at("memory:///")
    failure = StageFailed(
        round=1, task=0, attempt=0, step=0, stage="plan", error="Nobody answers.", code="model_unavailable", tries=3
    )
    end = RoundFailed(
        round=1, message="It failed.", totals=Totals(), reason="Nobody answers.", code="model_unavailable"
    )
    found = await recorded_answer(history(requested(), failure, end), content)
    assert (found.status, found.code, found.prompt) == ("failed", "model_unavailable", "What is the grand total?")


def test_what_has_no_end_in_the_log_is_inconclusive_for_the_reason_that_is_known() -> None:
    assert judge(None).verdict == judge(changed(status="open")).verdict == "inconclusive"
    late = kept(trouble="The rows do not hold it", code="rows_behind")
    assert judged(RUN, late, expecting(), None).trouble == "The rows do not hold it"
    assert judged(RUN, late, expecting(), ANSWER).verdict == "right"  # it came after all


def test_a_share_counts_only_what_could_be_judged() -> None:
    answers = [judge(), judge(contains="tip"), judge(None)]
    (score, other) = scores(RUN, answers)
    assert (score.share, score.tokens, score.cost_nano_usd, score.mean_ms, score.mean_steps) == (
        *(0.5, 240, 6_000),
        *(1_500, 2.0),
    )
    assert (other.share, other.mean_ms) == (None, 0)


def test_models_part_where_one_has_more_right_than_the_other() -> None:
    answers = [judge(), judge(model="b", contains="tip"), judge(line=2), judge(line=2, model="b"), judge(line=3)]
    (parting,) = partings(scores(RUN, answers))
    assert (parting.line, dict(parting.right)) == (1, {"a": (1, 1), "b": (0, 1)})


def test_the_table_of_scores_is_markdown_and_says_what_was_missed_and_where_the_models_part() -> None:
    answers = [judge(), judge(model="b", contains="tip", maxSteps=1), judge(None, line=2)]
    told = report_markdown(scores(RUN, answers))
    assert "| a | 1 of 1 | 100% | 1 | $0.0000 | 120 | 1.5 s | 2.0 |" in told
    assert "- line 1, b, w: 'tip' is not in the message or a document." in told
    assert "- line 1, b, w: it took 2 steps, where at most 1 may be taken." in told
    assert "- line 2, a, w: inconclusive. The log holds no end of this workflow." in told
    assert "- line 1: a 1 of 1, b 0 of 1" in told


def test_the_json_of_a_run_has_every_answer() -> None:
    told = report_json(RUN, scores(RUN, [judge(), judge(model="b", contains="tip")]))
    assert [(each["model"], each["verdict"]) for each in told["answers"]] == [("a", "right"), ("b", "wrong")]
    assert told["partings"] == [{"line": 1, "right": {"a": 1, "b": 0}}]
    assert orjson.loads(orjson.dumps(told)) == told


def test_a_run_is_kept_beside_its_table_and_found_by_its_id_and_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    run = RUN.model_copy(update={"answers": (kept(),)})
    place = keep(path, run)
    assert (place.name, read_run(path, "r"), read_run(path, str(place))) == ("q.run-r.json", run, run)
    assert [each.name for each in tmp_path.iterdir()] == ["q.run-r.json"]
    with pytest.raises(Refused, match="There is no run"):
        read_run(path, "other")
    with pytest.raises(Refused, match="There is no run"):
        read_run(path, "../other")
    path.write_text("{}")
    with pytest.raises(Refused, match="not the file of a run"):
        read_run(path, str(path))


def test_a_run_that_was_stopped_before_its_first_answer_is_not_judged(tmp_path: Path) -> None:
    keep(tmp_path / "q.jsonl", RUN.model_copy(update={"answers": ()}))
    with pytest.raises(Refused, match="stopped before its first answer"):
        read_run(tmp_path / "q.jsonl", "r")


async def test_a_source_without_slashes_does_no_harm() -> None:
    told = Told()
    value = encode(envelop(requested(), workflow_id=told.id, source="somebody", time="2026-11-21T00:00:00.000Z"))
    home = partition_of(told.id.encode(), PARTITIONS)
    record = read(value, key=told.id.encode(), partition=home, offset=0, time_ms=0)
    workflow, accepted = evolve(Workflow(told.id), record)
    found = await recorded_answer([Heard(record, accepted, workflow)], ContentStore.at("memory:///"))
    assert found.status == "open"


# --- the command, before anything is started ------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--model", "builtin", "--recorded", "r"], "leave out --model"),
        (["--recorded", "r"], "There is no run 'r'"),
    ],
)
async def test_what_cannot_be_run_is_said_before_any_server_is_started(
    tmp_path: Path, options: list[str], says: str
) -> None:
    path = table(tmp_path, {"prompt": "What?", "expect": {}})
    shell = Shell({"POWERON_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": ""}, tmp_path)
    ended = await shell("evaluate", path, *options)
    assert (ended.code, says in ended.err.replace("\n", " ")) == (2, True), ended.err
    assert not (tmp_path / "home" / "servers").exists()


async def test_a_run_whose_lines_ask_for_something_else_now_is_not_judged(tmp_path: Path) -> None:
    path = table(tmp_path, {"prompt": "What?", "expect": {}})
    keep(path, RUN.model_copy(update={"answers": (kept(),)}))
    ended = await Shell({"POWERON_HOME": str(tmp_path / "home")}, tmp_path)("evaluate", path, "--recorded", "r")
    assert (ended.code, "Line 1 of" in ended.err) == (2, True)
