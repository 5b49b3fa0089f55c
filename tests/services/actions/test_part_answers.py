"""Tasks that need everything that long documents say: each part is asked for, and the answers are put together."""

import asyncio
import re
from typing import Final

import orjson
import pytest
from long_documents import Reader, Shelf, built_in, code, fact, long_document, process, short

from poweron_events.errors import Refused
from poweron_services.decider.rules import BudgetUsedUp, Stop
from poweron_services.models.chat_model import Completion, TooLong
from poweron_services.models.prompts import NOTHING, ProcessPrompt, Prompt

USED_UP: Final = "The task's budget of 9 tokens is used up: 9 tokens."


@pytest.mark.req("C-04")
async def test_for_a_task_that_needs_everything_each_part_is_asked_and_the_answers_are_put_together() -> None:
    model = Reader()
    asked = await process(short(), model, "List all codes.", window=30_000)
    parts = [prompt for prompt in model.asked if prompt.extent == "part"]
    assert [(prompt.part, prompt.parts) for prompt in parts] == [(n, len(parts)) for n in range(1, len(parts) + 1)]
    assert len(parts) > 3
    (last,) = [prompt for prompt in model.asked if prompt.extent == "answers"]
    assert [NOTHING in document.text for document in last.documents] == [False, False]
    assert asked.text == f"The museum code is {code('museum')} (page 17)\n\nThe ferry code is {code('ferry')} (page 55)"
    (coverage,) = asked.done.coverage
    assert (coverage.places, coverage.places_shown) == (60, 60)
    assert coverage.characters == coverage.characters_shown
    assert asked.done.notes == ()
    told = [step for step in asked.progress if step[0] == "parts_answered"]
    assert told == [("parts_answered", done, len(parts)) for done in range(len(parts) + 1)]


@pytest.mark.req("C-04")
async def test_everything_that_stands_in_the_documents_is_shown_in_some_part_and_once() -> None:
    model = Reader()
    await process(short(), model, "Summarise it.", window=30_000)
    shown = " ".join(d.text for prompt in model.asked if prompt.extent == "part" for d in prompt.documents)
    for section in short().documents["long.pdf"].sections:
        assert all(shown.count(sentence) >= 1 for sentence in section.text.split(". "))
    assert shown.count(fact("museum")) == shown.count(fact("ferry")) == 1


@pytest.mark.req("C-04")
async def test_basic_processing_is_one_call_whatever_the_task() -> None:
    model = Reader()
    asked = await process(short(), model, "List all codes.", window=30_000, processingMode="basic")
    assert [prompt.extent for prompt in model.asked] == ["excerpts"]
    assert asked.done.notes[0].startswith("Not everything was read for this answer: ")


@pytest.mark.req("C-04")
async def test_the_built_in_model_lists_what_all_parts_say() -> None:
    asked = await process(short(), built_in(), "List all: which codes are named?", window=30_000)
    assert code("museum") in asked.text
    assert code("ferry") in asked.text
    assert "page 17" in asked.text


@pytest.mark.req("C-04")
async def test_a_part_that_the_model_does_not_take_is_halved() -> None:
    model = Reader(takes=12_000)
    asked = await process(short(), model, "List all codes.", window=30_000)
    assert code("museum") in asked.text
    assert code("ferry") in asked.text
    assert asked.done.coverage[0].places_shown == 60


@pytest.mark.req("C-04")
async def test_eight_parts_are_asked_for_side_by_side() -> None:
    class Slow(Reader):
        asking = most = 0
        eight = asyncio.Event()

        async def complete(self, prompt: Prompt) -> Completion:
            self.asking += 1
            self.most = max(self.most, self.asking)
            if self.asking >= 8:
                self.eight.set()
            await asyncio.sleep(0)
            await self.eight.wait()
            self.asking -= 1
            return await super().complete(prompt)

    model = Slow()
    async with asyncio.timeout(20):
        await process(short(), model, "List all codes.", window=10_000)
    assert max(prompt.parts for prompt in model.asked) > 8
    assert model.most == 8


@pytest.mark.req("C-04", "L-10")
async def test_of_more_than_two_hundred_parts_as_many_are_read_from_all_over_and_the_rest_is_told() -> None:
    model = Reader()
    shelf = Shelf({"long.pdf": long_document("long.pdf", 250, {})})
    asked = await process(shelf, model, "Summarise it.", window=2_000)
    parts = [prompt for prompt in model.asked if prompt.extent == "part"]
    assert len(parts) == 200
    pages = [int(page) for part in parts for page in re.findall(r"## page (\d+)\n", part.documents[0].text)]
    assert (pages[0], pages[-1] > 245, pages == sorted(pages)) == (1, True, True)
    (coverage,) = asked.done.coverage
    assert 0 < coverage.characters_shown < coverage.characters
    assert asked.done.notes[0].startswith("Not everything was read for this answer: ")


class Poor(Reader):
    """A budget holds so many of its calls."""

    left = 3

    async def complete(self, prompt: Prompt) -> Completion:
        if not self.left:
            raise BudgetUsedUp(Stop("token_budget", USED_UP))
        completion = await super().complete(prompt)
        self.left -= 1
        return completion


@pytest.mark.req("B-02")
async def test_where_a_budget_holds_no_more_what_was_answered_is_given_and_the_rest_is_told() -> None:
    asked = await process(short(), Poor(), "List all codes.", window=30_000)
    assert code("museum") in asked.text
    assert "> Not everything was read for this answer: " in asked.text
    assert asked.done.coverage[0].places_shown < 60
    assert any(note.startswith("A budget did not hold more: 3 of ") for note in asked.done.notes)


class Prudish(Reader):
    """It will not answer the parts that speak of a museum, or any."""

    any_part = False

    async def complete(self, prompt: Prompt) -> Completion:
        assert isinstance(prompt, ProcessPrompt)
        if prompt.extent == "part" and (self.any_part or any(fact("museum") in text.text for text in prompt.documents)):
            raise Refused("It would not answer.", code="answer_refused")
        return await super().complete(prompt)


@pytest.mark.req("L-10")
async def test_a_part_that_the_model_will_not_answer_is_told_and_the_others_are_answered() -> None:
    asked = await process(short(), Prudish(), "List all codes.", window=30_000)
    assert code("ferry") in asked.text
    assert code("museum") not in asked.text
    assert any(re.match(r"1 of \d+ parts were not answered\. It would not answer\.", note) for note in asked.done.notes)
    assert asked.done.coverage[0].places_shown < 60
    refusing = Prudish()
    refusing.any_part = True
    with pytest.raises(Refused, match="It would not answer"):
        await process(short(), refusing, "List all codes.", window=30_000)


@pytest.mark.req("B-02")
async def test_a_budget_that_holds_no_part_is_why_there_is_no_answer() -> None:
    poor = Poor()
    poor.left = 0
    with pytest.raises(BudgetUsedUp):
        await process(short(), poor, "List all codes.", window=30_000)


@pytest.mark.req("B-02")
async def test_a_half_of_a_part_that_was_answered_before_the_budget_ended_is_given_and_counts_as_read() -> None:
    poor = Poor(takes=12_000)
    poor.left = 1
    shelf = Shelf({"long.pdf": long_document("long.pdf", 60, {1: fact("museum")})})
    asked = await process(shelf, poor, "List all codes.", window=30_000)
    assert asked.text.startswith(f"The museum code is {code('museum')} (page 1)\n\n> Not everything was read ")
    assert 0 < asked.done.coverage[0].places_shown < 10
    assert asked.done.notes[1] == f"A budget did not hold more: 0 of 5 parts were answered whole. {USED_UP}"


# --- put together by rule -----------------------------------------------------------------------------

STAND: Final = "The answers from the parts were not combined; they follow one another."
NOTED: Final = f"{STAND} {USED_UP}"


class Unjoined(Reader):
    """Answers the parts that name a code in some form; a budget does not hold putting the answers together."""

    form = "{line}"

    def said(self, prompt: ProcessPrompt, shown: str) -> str:
        if prompt.extent == "answers":
            raise BudgetUsedUp(Stop("token_budget", USED_UP))
        found = re.fullmatch(
            r"(?P<line>The \w+ code is (?P<code>\S+) \(page (?P<page>\d+)\))", super().said(prompt, shown)
        )
        return self.form.format(**found.groupdict()) if found else NOTHING


MUSEUM: Final = f"The museum code is {code('museum')} (page 17)"
FERRY: Final = f"The ferry code is {code('ferry')} (page 55)"
HTML: Final = "<section>\n{}\n</section>"
BY_RULE: Final = {
    "markdown": ("markdown", "- **{line}**", f"- **{MUSEUM}**\n\n- **{FERRY}**\n\n> {STAND}\n"),
    "plain text": ("text", "**{line}**", f"{MUSEUM}\n\n{FERRY}\n\n{STAND}\n"),
    "JSON of notes": ("json", "{line}", [MUSEUM, FERRY]),
    "JSON of lists": (
        "json",
        '```json\n[{{"code": "{code}"}}]\n```',
        [{"code": code("museum")}, {"code": code("ferry")}],
    ),
    "CSV": (
        "csv",
        "```csv\ncode,page\n{code},{page}\n```",
        f"code,page\n{code('museum')},17\n{code('ferry')},55\n",
    ),
    "HTML": (
        "html",
        "<p>{line}</p><table><tr><td>open",
        *[
            "\n".join(
                HTML.format(f"<p>{line}</p><table><tbody><tr><td>open</td></tr></tbody></table>")
                for line in (MUSEUM, FERRY)
            )
            + f"\n<p>{STAND}</p>"
        ],
    ),
    "HTML of notes": (
        "html",
        "**{line}**",
        "\n".join(HTML.format(f"<p><strong>{line}</strong></p>") for line in (MUSEUM, FERRY)) + f"\n<p>{STAND}</p>",
    ),
}


@pytest.mark.req("B-02", "C-04")
@pytest.mark.parametrize("wish", BY_RULE)
async def test_where_a_budget_holds_all_parts_but_no_more_their_answers_are_given_in_the_format_asked_for(
    wish: str,
) -> None:
    wanted, form, given = BY_RULE[wish]
    model = Unjoined()
    model.form = form
    asked = await process(short(), model, "List all codes.", window=30_000, expectedDocumentFormats=[wanted])
    (document,) = asked.done.result.documents
    text = asked.text.partition("<body>\n")[2].partition("\n</body>")[0] if wanted == "html" else asked.text
    assert (orjson.loads(text) if wanted == "json" else text) == given
    assert document.document_name == f"answer.{ {'markdown': 'md', 'text': 'txt'}.get(wanted, wanted) }"
    assert asked.done.notes == (NOTED,)
    assert asked.done.coverage[0].places_shown == 60


@pytest.mark.req("B-02", "L-10")
@pytest.mark.parametrize("form", ["- {line}", "{line}, said by all", "code,{page}\n{code},1"])
async def test_answers_that_are_no_rows_under_one_header_are_given_as_text_and_it_is_said(form: str) -> None:
    model = Unjoined()
    model.form = form
    asked = await process(short(), model, "List all codes.", window=30_000, expectedDocumentFormats=["csv"])
    (document,) = asked.done.result.documents
    assert (document.document_name, document.mime_type) == ("answer.md", "text/markdown")
    answers = [
        form.format(line=MUSEUM, code=code("museum"), page=17),
        form.format(line=FERRY, code=code("ferry"), page=55),
    ]
    said = f"{STAND} They are text, because they make no valid CSV."
    assert asked.text == f"{answers[0]}\n\n{answers[1]}\n\n> {said}\n"
    assert asked.done.notes == (f"{said} {USED_UP}",)


@pytest.mark.req("B-02")
async def test_the_answers_of_both_halves_of_a_part_stand_under_one_header() -> None:
    model = Unjoined(takes=12_000)
    model.form = "code,page\n{code},{page}"
    shelf = Shelf({"long.pdf": long_document("long.pdf", 60, {1: fact("museum"), 8: fact("ferry")})})
    asked = await process(shelf, model, "List all codes.", window=30_000, expectedDocumentFormats=["csv"])
    assert asked.text == f"code,page\n{code('museum')},1\n{code('ferry')},8\n"


@pytest.mark.req("L-10")
@pytest.mark.parametrize("said", ["{", "refused"])
async def test_what_was_answered_is_given_where_the_model_does_not_put_it_together(said: str) -> None:
    class Failing(Unjoined):
        def said(self, prompt: ProcessPrompt, shown: str) -> str:
            if prompt.extent == "answers" and said == "refused":
                raise Refused("It would not answer.", code="answer_refused")
            return said if prompt.extent == "answers" else super().said(prompt, shown)

    asked = await process(short(), Failing(), "List all codes.", window=30_000, expectedDocumentFormats=["json"])
    assert orjson.loads(asked.text) == [MUSEUM, FERRY]
    (note,) = asked.done.notes
    assert note.startswith(STAND)


# --- put together over several levels -----------------------------------------------------------------


class Wordy(Reader):
    """Finds a thousand words in each part, of which it keeps every tenth; it may take less of them than of a part."""

    takes_of_answers = 10**9

    async def complete(self, prompt: Prompt) -> Completion:
        shown = len(str(prompt.render()))
        if isinstance(prompt, ProcessPrompt) and prompt.extent == "answers" and shown > self.takes_of_answers:
            raise TooLong(f"The prompt has {shown} characters.")
        return await super().complete(prompt)

    def said(self, prompt: ProcessPrompt, shown: str) -> str:
        if prompt.extent == "part":
            return " ".join(f"word-{prompt.part}-{number}" for number in range(1_000))
        words = re.findall(r"word-\d+-\d+", shown)
        return " ".join(words[::10])

    def parts(self) -> list[int]:
        return [prompt.part for prompt in self.asked if prompt.extent == "part"]

    def shown_again(self) -> set[str]:
        """The words that were shown to be put together."""
        together = [str(prompt.render()) for prompt in self.asked if prompt.extent == "answers"]
        return {word for shown in together for word in re.findall(r"word-\d+-\d+", shown)}


@pytest.mark.req("C-04")
@pytest.mark.parametrize("takes", [10**9, 9_000, 4_000])
async def test_answers_that_are_too_long_together_are_put_together_in_levels_and_none_is_shortened(takes: int) -> None:
    model = Wordy()
    model.takes_of_answers = takes
    asked = await process(short(), model, "Summarise it.", window=15_000)
    parts = model.parts()
    assert parts == [*range(1, len(parts) + 1)]
    assert len(model.shown_again()) == len(parts) * 1_000
    together = [prompt for prompt in model.asked if prompt.extent == "answers"]
    assert max(len(str(prompt.render())) for prompt in together) < min(takes, 17_000)
    assert asked.done.notes == ()
    assert asked.text.startswith("word-1-0 ")


@pytest.mark.req("C-04")
async def test_only_a_group_that_a_model_does_not_take_is_split() -> None:
    class Choosy(Wordy):
        async def complete(self, prompt: Prompt) -> Completion:
            shown = str(prompt.render())
            if (
                isinstance(prompt, ProcessPrompt)
                and prompt.extent == "answers"
                and re.search(r"word-1-3\b.*word-2-3\b", shown, re.DOTALL)
            ):
                raise TooLong("The prompt has too many tokens.")
            return await super().complete(prompt)

    model, plain = Choosy(), Wordy()
    for one in (model, plain):
        await process(short(), one, "Summarise it.", window=30_000)
    assert model.parts() == plain.parts()
    assert len(model.shown_again()) == len(model.parts()) * 1_000
    assert len(model.asked) == len(plain.asked) + 1


@pytest.mark.req("C-04", "L-10")
async def test_answers_that_get_no_shorter_are_given_as_they_are() -> None:
    class Echo(Wordy):
        def said(self, prompt: ProcessPrompt, shown: str) -> str:
            return super().said(prompt, shown) if prompt.extent == "part" else " ".join(re.findall(r"word-\S+", shown))

    model = Echo()
    asked = await process(short(), model, "Summarise it.", window=15_000, expectedDocumentFormats=["json"])
    parts = len(model.parts())
    assert [len(one.split()) for one in orjson.loads(asked.text)] == [1_000] * parts
    assert len(model.asked) < 3 * parts
    assert asked.done.notes == (f"{STAND} They do not get short enough for the model.",)
