"""Follow-ups on the real servers: a round is answered from what the rounds before it left behind."""

from pathlib import Path

import pytest
from commands import NOBODY, Shell, ended, told
from processes import ONE_STEP

from poweron_projections.verify import verify
from poweron_services.client.connect import Connections
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.prompts import (
    MessagePrompt,
    ParametersPrompt,
    PlanningPrompt,
    ProcessPrompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)
from poweron_services.models.scripted import ScriptedModel

pytestmark = [pytest.mark.system]

ESTIMATE = Path(__file__).parents[2] / "docs" / "examples" / "estimate.pdf"
KINDS = (
    PlanningPrompt,
    SelectionPrompt,
    ParametersPrompt,
    ProcessPrompt,
    RefinementPrompt,
    ReviewPrompt,
    MessagePrompt,
)


@pytest.mark.req("M-07")
@pytest.mark.req("R-01")
@pytest.mark.req("L-01")
@pytest.mark.req("D-01")
class TestWithTheBuiltinModel:
    @pytest.fixture
    def model(self) -> BuiltinModel:
        return BuiltinModel()

    async def test_a_follow_up_in_another_language_is_answered_in_that_one_from_what_was_read_in_the_round_before(
        self, shell: Shell, service: Connections
    ) -> None:
        asked = await shell("ask", "Wie hoch ist die Gesamtsumme?", "--document", ESTIMATE, "--no-serve", "--json")
        workflow = asked.lines[0]["workflowId"]
        asked = await shell("ask", "When was the vehicle ready?", "--workflow", workflow, "--no-serve", "--json")

        (answer,) = asked.lines
        assert (asked.code, answer["workflowId"], answer["round"]) == (0, workflow, 2)
        assert ("March 21, 2025" in answer["message"], answer["steps"]) == (True, 1)  # nothing is read again
        assert "requested   round 2, 0 documents" in asked.err
        assert "round 1," not in asked.err  # what was told before is not told again
        events = (await shell("events", workflow, "--json")).lines
        opened = [each["data"] for each in events if "requested" in each["type"]]
        assert [(each["userLanguage"], each["userLanguageDetected"]) for each in opened] == [("de", True), ("en", True)]
        chosen = [each["data"] for each in events if "selected" in each["type"]]
        assert chosen[-1]["requiredInputDocuments"] == ["docList:round1_task1_action1_extract"]
        (listed,) = (await shell("workflows", "--json")).lines
        assert (listed["currentRound"], listed["status"]) == (2, "completed")
        assert (await verify(service.log, service.pool)).differences == []

    @pytest.mark.req("B-02")
    @pytest.mark.req("S41")
    async def test_a_limit_of_a_follow_up_is_that_of_its_round_and_one_of_the_workflow_holds_on(
        self, shell: Shell, service: Connections
    ) -> None:
        asked = await shell("ask", "What is the grand total?", "--document", ESTIMATE, "--no-serve", "--json")
        workflow, used = asked.lines[0]["workflowId"], asked.lines[0]["tokens"]
        when = ("ask", "When was the vehicle ready?", "--workflow", workflow, "--no-serve", "--json")

        less = await shell(*when, "--max-tokens", str(used - 1), "--max-cost", "0.01")
        assert (less.code, less.lines[0]["tokens"] < used) == (0, True), less.err

        none = await shell(*when, "--max-tokens", "10", "--max-workflow-tokens", str(9 * used))
        assert (none.code, none.lines[0]["code"]) == (1, "token_budget")
        assert (
            "The round's budget of 10 tokens leaves 10 tokens, and the next call may take" in none.lines[0]["message"]
        )

        over = await shell(*when, "--max-tokens", "90000", "--max-workflow-tokens", str(used))
        assert (over.code, over.lines[0]["code"]) == (1, "token_budget")
        assert f"The workflow's budget of {used:,} tokens is used up" in over.lines[0]["message"]
        openings = (await shell("events", workflow, "--json")).lines
        limits = [each["data"]["budgets"] for each in openings if "budgets" in each["data"]]
        assert [(each.get("roundTokens"), each["workflowTokens"]) for each in limits] == [
            (None, None),
            (used - 1, None),
            (10, 9 * used),
            (90_000, used),
        ]

    @pytest.mark.req("B-02")
    async def test_a_budget_that_asks_is_extended_by_a_person_and_the_same_call_proceeds(
        self, shell: Shell, service: Connections
    ) -> None:
        given = ("--document", ESTIMATE, "--max-tokens", "10", "--on-budget", "ask", "--no-serve", "--json")
        asking = await shell.start("ask", "What is the grand total?", *given)
        workflow = (await told(asking, "Workflow ")).split()[1]
        assert "leaves 10 tokens" in await told(asking, f"{'':<14}budget")
        (question,) = [line for line in (await shell("approvals", "--json")).lines if line["workflowId"] == workflow]
        assert (question["question"], question["code"], question["steps"]) == (1, "token_budget", 0)
        assert f"{workflow}  " in (await shell("workflows")).out

        how_much = await shell("approve", workflow)
        assert (how_much.code, how_much.err.splitlines()[-1]) == (
            2,
            "Say how much more it may use: `--tokens N`, `--cost USD` or both.",
        )
        granted = await shell("approve", workflow, "--tokens", "100000", "--reason", "It is worth that.")
        assert granted.out.startswith("The larger budget is approved."), granted.err

        answered = await ended(asking)
        assert (answered.code, answered.lines[-1]["status"]) == (0, "completed")
        events = [line["type"].removeprefix("poweron.") for line in (await shell("events", workflow, "--json")).lines]
        assert events.count("budget.requested.v1") == events.count("budget.granted.v1") == 1
        assert 10 < answered.lines[-1]["tokens"] <= 100_010
        again = await shell("deny", workflow, "--reason", "Too late.")
        assert (again.code, "waits for an approval" in again.err) == (1, True)
        assert (await shell("replay", workflow)).code == 0
        assert (await verify(service.log, service.pool)).differences == []

    @pytest.mark.usefixtures("service")
    async def test_a_budget_that_is_denied_ends_the_round_as_if_it_had_not_asked(self, shell: Shell) -> None:
        given = ("--document", ESTIMATE, "--max-tokens", "10", "--on-budget", "ask", "--no-serve", "--json")
        asking = await shell.start("ask", "What is the grand total?", *given)
        workflow = (await told(asking, "Workflow ")).split()[1]
        await told(asking, f"{'':<14}budget")
        assert (await shell("deny", workflow, "--reason", "It is not.")).code == 0
        answered = await ended(asking)
        assert (answered.code, answered.lines[-1]["code"]) == (1, "token_budget")


class TestWithAScript:
    @pytest.fixture
    def model(self) -> ScriptedModel:
        first, *_ = ONE_STEP["SelectionPrompt"]
        named = ["docItem:r1d1:letter.txt", "docList:round1_task1_action1_process", "docList:round2_request"]
        lines = {**ONE_STEP, "SelectionPrompt": [first, {**first, "requiredInputDocuments": named}]}
        return ScriptedModel({kind: lines[kind.__name__] for kind in KINDS})

    @pytest.mark.req("R-01")
    @pytest.mark.req("H-01")
    async def test_a_round_reads_documents_and_results_of_the_round_before_beside_its_own(
        self, shell: Shell, service: Connections, model: ScriptedModel, tmp_path: Path
    ) -> None:
        (tmp_path / "letter.txt").write_text("The exhibition opens on May 4.")
        (tmp_path / "note.txt").write_text("It opens an hour later.")
        asked = await shell("ask", "Write it.", "--document", "letter.txt", "--no-serve", "--json", "--language", "de")
        workflow = asked.lines[0]["workflowId"]
        again = await shell(
            "ask", "Write it again.", "--document", "note.txt", "--workflow", workflow, "--no-serve", "--json"
        )

        assert again.code == 0, again.err
        *_, process = [prompt for prompt in model.asked if isinstance(prompt, ProcessPrompt)]
        assert [text.name for text in process.documents] == ["letter.txt", "answer", "note.txt"]
        assert "May 4" in process.documents[0].text
        assert process.documents[1].text == "It is written.\n"
        assert process.language == "de"
        *_, selection = [prompt for prompt in model.asked if isinstance(prompt, SelectionPrompt)]
        assert [line.label for line in selection.documents] == [
            "round2_request",
            "round1_task1_action1_process",
            "round1_request",
        ]
        assert selection.earlier.startswith("[round 1, success] It is written.")
        assert "docItem:r1d1:letter.txt" in selection.earlier
        shown = (await shell("documents", workflow, "--json")).lines
        assert [each["documentId"] for each in shown] == ["r1d1", "r1t1a1d1", "r2d1", "r2t1a1d1"]


async def test_who_cannot_follow_up_is_told_why_and_what_to_do(shell: Shell, service: Connections, model) -> None:
    unknown = await shell("ask", "?", "--workflow", NOBODY, "--no-serve")
    assert (unknown.code, unknown.err.startswith(f"There is no workflow {NOBODY}. `poweron workflows`")) == (1, True)
    model.gate.clear()
    asking = await shell.start("ask", "Write it.", "--no-serve")
    workflow = (await told(asking, "Workflow ")).split()[1]
    await told(asking, " " * 14 + "requested")
    early = await shell("ask", "And?", "--workflow", workflow, "--no-serve", "--json")
    model.gate.set()
    assert (early.code, early.lines[-1]["code"]) == (1, "round_open")
    assert early.err.startswith(f"Round 1 of workflow {workflow} is still running. `poweron watch {workflow}` follows")
    assert (await ended(asking)).code == 0
