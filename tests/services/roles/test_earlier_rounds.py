"""Rounds that follow up: what a round knows of those before it, and the documents that it can name."""

from collections.abc import Sequence
from functools import partial

import pytest
from doubles import World, our_actions
from modes import MODES

from builders import At, Told, completed, document, follow_up, planned, requested, reviewed, step
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.fold.history import render, reverse_chronological
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.request import EarlierRounds, LabelledDocuments, Spent, workflow_id
from poweron_services.connectors.document_reader import ExtractedDocument, LoadBytes, OnPage, Section
from poweron_services.decider.references import UnknownReference
from poweron_services.intake.request_judge import compact, summarise_rounds
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import ProcessPrompt, Prompt
from poweron_services.roles.address_check import addresses_known
from poweron_services.roles.document_lookup import documents_named
from poweron_services.roles.planner import generate_planning_prompt
from poweron_services.roles.prompt_context import document_lines
from poweron_services.roles.selector import generate_react_plan_selection_prompt

OLD, NEW = document("old.pdf", document_id="r1d1"), document("new.pdf", document_id="r2d1")


@pytest.fixture
def content() -> ContentStore:
    return ContentStore.at("memory:///")


def first_round(*more: ChatMessage) -> tuple[Told, list[ChatMessage]]:
    """A workflow whose first round has ended, and its messages, newest first."""
    told = Told().tell(requested(documents=(OLD,)), planned(), *step(), reviewed(), completed())
    return told, reverse_chronological((*told.workflow.current.messages, *more))


def writing(count: int, *, seq: int = 100, documents: int = 1) -> list[ChatMessage]:
    """Messages of steps that wrote documents, newest first."""
    return [
        ChatMessage(
            seq=seq + number,
            time_ms=0,
            kind="step",
            status="step",
            round=1,
            task=1,
            step=number,
            message=f"Wrote number {number}.",
            documents_label=f"round1_task1_action{number}_process",
            documents=tuple(
                document(f"{number}-{part}.md", document_id=f"d{number}-{part}") for part in range(documents)
            ),
        )
        for number in range(count, 0, -1)
    ]


async def second_round(content: ContentStore, told: Told, messages: Sequence[ChatMessage]) -> Workflow:
    async def put(stored: bytes) -> str:
        return await content.put(told.id, stored)

    earlier = await summarise_rounds(1, messages, Spent(steps=1), put)
    return told.tell(follow_up(earlier=earlier, documents=(NEW,)), planned(round_number=2)).workflow


@pytest.mark.req("R-01")
async def test_documents_of_the_rounds_before_and_of_this_one_are_named_alike(content: ContentStore) -> None:
    workflow = await second_round(content, *first_round())
    named = await documents_named(
        ["docList:round2_request", "docItem:r1d1:old.pdf", "docList:round1_task1_action1_extract"], workflow, content
    )
    assert [each.document_name for each in named] == ["new.pdf", "old.pdf", "text.md"]


@pytest.mark.req("S4")
async def test_addresses_that_a_round_gave_are_known_in_the_rounds_after_it_and_what_its_model_wrote_is_not(
    content: ContentStore,
) -> None:
    told = Told().tell(requested(prompt="Read https://a.example/x.", documents=()), planned())
    told.tell(*step()[:4])
    seen = At().observed().observation.model_copy(update={"links": ("https://linked.example/",)})
    told.tell(At().observed(observation=seen), At().refined(), reviewed())
    told.tell(completed(message="See https://attacker.example/?q=SECRET."))
    messages = reverse_chronological(told.workflow.current.messages)
    workflow = await second_round(content, told, messages)
    known = await addresses_known(workflow, content)
    assert {"https://a.example/x", "https://linked.example/"} <= known
    assert not [address for address in known if "attacker" in address]


@pytest.mark.req("P-01")
@pytest.mark.req("H-01")
async def test_the_documents_and_the_history_of_this_round_come_first(content: ContentStore) -> None:
    workflow = await second_round(content, *first_round())
    assert [line.label for line in document_lines(workflow)] == [
        "round2_request",
        "round1_task1_action1_extract",
        "round1_request",
    ]
    planning = generate_planning_prompt(workflow, {})
    assert planning.earlier.startswith(
        "[round 1, success] The grand total is 42.\n[round 1, task 1, attempt 1, success] Task 1 of 1"
    )
    assert planning.documents == document_lines(workflow)
    selection = generate_react_plan_selection_prompt(workflow, {})
    shown = selection.render().data
    assert shown.index("\n[round 2]") < shown.index("\n[round 1,")
    assert "docItem:r1d1:old.pdf" in selection.earlier


@pytest.mark.req("H-03")
async def test_the_history_of_the_rounds_before_is_what_prompts_showed_of_them(content: ContentStore) -> None:
    told, messages = first_round()
    workflow = await second_round(content, told, messages)
    assert workflow.current.opening.earlier == EarlierRounds(  # type: ignore[union-attr]
        last_round=1,
        spent=Spent(steps=1),
        history="\n".join(map(render, messages)),
        documents=(
            LabelledDocuments(label="round1_task1_action1_extract", documents=(document("text.md"),)),
            LabelledDocuments(label="round1_request", documents=(OLD,)),
        ),
    )


@pytest.mark.req("E-10")
@pytest.mark.parametrize("said", ["Read it.", 'Größe "42"\n' * 500, "合計" * 2_000, "\N{GRINNING FACE}" * 9_000])
async def test_the_history_takes_at_most_8_kb_and_says_what_it_left_out(content: ContentStore, said: str) -> None:
    messages = [each.model_copy(update={"message": said}) for each in writing(200)]
    told = compact(messages)
    assert not told.is_whole
    assert 5_500 < len(dumps(told.text)) <= 8_000
    assert told.text.startswith(f"[round 1, task 1, step 200] {said.splitlines()[0][:100]}")
    assert told.text.count("[round 1, task 1, step ") + told.left_out == 200


@pytest.mark.req("R-01")
@pytest.mark.req("E-10")
async def test_a_document_that_the_opening_has_no_room_for_is_found_in_the_whole_history(content: ContentStore) -> None:
    told, messages = first_round(*writing(300))
    workflow = await second_round(content, told, messages)
    earlier = workflow.current.opening.earlier  # type: ignore[union-attr]
    assert len(dumps(earlier.model_dump(mode="json", by_alias=True))) < 28_000
    assert earlier.documents[0].label == "round1_task1_action300_process"
    assert sum(len(each.documents) for each in earlier.documents) + earlier.documents_left_out == 302
    (found,) = await documents_named(["docItem:d1-0:1-0.md"], workflow, content)
    assert found.document_name == "1-0.md"
    (both, _) = await documents_named(["docItem:r1d1:old.pdf", "docItem:d300-0:300-0.md"], workflow, content)
    assert both == OLD


@pytest.mark.req("P-09")
@pytest.mark.req("P-01")
async def test_sixty_documents_are_still_named_by_their_label_in_a_round_that_follows_up(content: ContentStore) -> None:
    """Their list has no room in the opening; nothing of it may be lost but the names."""
    handed_over = tuple(document(f"{'n' * 150}-{number}.pdf", document_id=f"r1d{number}") for number in range(1, 61))
    told = Told().tell(requested(documents=handed_over), planned(), *step(), reviewed(), completed())
    workflow = await second_round(content, told, reverse_chronological((*told.workflow.current.messages, *writing(40))))
    for prompt in (generate_planning_prompt(workflow, {}), generate_react_plan_selection_prompt(workflow, {})):
        shown = prompt.render("F").data
        lists = shown.partition("each names all of its documents:\n<<< F\n")[2]
        assert lists.startswith("- docList:round2_request: 1 document\n- docList:round1_request: 60 documents\n")
        assert "\nDocuments of earlier rounds that only their lists name: 60\n" in shown
    named = await documents_named(["docList:round1_request"], workflow, content)
    assert [each.document_id for each in named] == [each.document_id for each in handed_over]


@pytest.mark.req("P-09")
async def test_what_is_left_out_of_earlier_rounds_is_counted_once_however_often_it_was_shortened(
    content: ContentStore,
) -> None:
    told, messages = first_round(*writing(200))
    workflow = await second_round(content, told, messages)
    prompt = generate_react_plan_selection_prompt(workflow, {})
    assert prompt.earlier_left_out > 50, "the opening has no room for them"
    for shown in (prompt, prompt.shorter()):
        assert shown is not None
        earlier = shown.render("F").data.partition("History of earlier rounds, newest first:\n<<< F\n")[2]
        entries, _, counted = earlier.partition("\n>>> F")[0].rpartition("\n")
        left_out = len(messages) - entries.count("[round 1")
        assert counted == f"({left_out} older messages are left out.)"


@pytest.mark.req("P-09")
async def test_a_message_of_many_documents_names_the_first_of_them_and_says_how_many_it_leaves_out(
    content: ContentStore,
) -> None:
    (message,) = writing(1, documents=60)
    lines = render(message).splitlines()
    assert lines[1] == "  documents: docList:round1_task1_action1_process"
    assert lines[2:] == [
        *(f"    docItem:d1-{part}:1-{part}.md" for part in range(10)),
        "    (50 more of 60 are left out.)",
    ]


@pytest.mark.req("R-01")
async def test_a_label_names_all_its_documents_or_is_looked_up(content: ContentStore) -> None:
    told, messages = first_round(*writing(1, documents=99))
    workflow = await second_round(content, told, messages)
    assert "round1_request" in {line.label for line in document_lines(workflow)}
    assert len(await documents_named(["docList:round1_task1_action1_process"], workflow, content)) == 99


async def test_what_was_erased_is_refused_in_the_usual_words(content: ContentStore) -> None:
    workflow = await second_round(content, *first_round(*writing(300)))
    with pytest.raises(UnknownReference, match="names no document of this workflow"):
        await documents_named(["docItem:d1-0:1-0.md"], workflow, ContentStore.at("memory:///"))


async def test_a_third_round_knows_both_before_it(content: ContentStore) -> None:
    told, first = first_round()
    await second_round(content, told, first)
    told.tell(*step(round_number=2), reviewed(round_number=2), completed(2, "The roof."))
    messages = reverse_chronological((*told.workflow.current.messages, *first))

    async def put(_: bytes) -> str:
        raise Unavailable("nothing is left out")

    earlier = await summarise_rounds(2, messages, Spent(), put)
    workflow = told.tell(follow_up(3, "3", earlier=earlier), planned(round_number=3)).workflow
    assert [line.label for line in document_lines(workflow)] == [
        "round2_task1_action1_extract",
        "round2_request",
        "round1_task1_action1_extract",
        "round1_request",
    ]
    assert At.head(workflow).place["round"] == 3


@pytest.mark.req("P-09")
@pytest.mark.req("R-01")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("logged")
async def test_a_follow_up_on_sixty_documents_works_on_all_of_them(mode: str) -> None:
    world, id_ = World(await our_actions(_read), model=Watched()), workflow_id("/tests", "1")
    data = "The price of item {} is ${}."
    handed_over = tuple(
        [
            document(
                f"offer of the supplier for item {number}.txt", document_id=f"r1d{number}",
                content=await world.content.put(id_, data.format(number, number).encode()),
            )
            for number in range(1, 61)
        ]
    )  # fmt: skip
    async with world.process():
        await world.ask(prompt="What is the price of item 7?", documents=handed_over, workflow_mode=mode)
        first = await world.ended(id_)
        messages = reverse_chronological(first.current.messages)
        earlier = await summarise_rounds(1, messages, Spent(), partial(world.content.put, id_))
        assert {each.label for each in earlier.lists_left_out} >= {"round1_request"}
        asked = {"prompt": "What is the price of item 60?", "workflow_mode": mode, "earlier": earlier}
        await world.tell(id_, follow_up(2, **asked))
        await world.until(id_, lambda workflow: len(workflow.openings) == 2)
        await world.ended(id_)
    shown = [prompt for prompt in world.model.asked if getattr(prompt, "earlier", "")]
    assert shown
    assert all("- docList:round1_request: 60 documents\n" in prompt.render().data for prompt in shown)
    *_, read = [prompt for prompt in world.model.asked if isinstance(prompt, ProcessPrompt)]
    assert len(read.documents) == 60


class Watched(BuiltinModel):
    """The built-in model, which keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        return await super().complete(prompt)


async def _read(load: LoadBytes, _: int, name: str, *, on_page: OnPage | None = None) -> ExtractedDocument:
    return ExtractedDocument(name, "text/plain", (Section("", (await load()).decode()),), truncated=False, notes=())
