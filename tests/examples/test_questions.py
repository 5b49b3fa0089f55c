"""Questions to documents of many kinds, answered by the built-in model from what was extracted."""

import pytest
from questions import MORE_QUESTIONS, MORE_UNANSWERABLE, QUESTIONS, UNANSWERABLE, Ask, Examined

from poweron_services.connectors.document_reader import extract
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.prompts import ProcessPrompt, SourceText, Template

TEMPLATE = Template("process.v1", "")


class Reading:
    """Answers questions; each document is extracted once."""

    def __init__(self) -> None:
        self._texts: dict[str, SourceText] = {}

    async def answer(self, ask: Ask) -> str:
        prompt = ProcessPrompt(
            template=TEMPLATE,
            ai_prompt=ask.question,
            custom_instructions="",
            language=None,
            output_format="markdown",
            documents=(await self._text(ask),),
        )
        return (await BuiltinModel().complete(prompt)).text

    async def wrong(self, asks: list[Ask]) -> list[Examined]:
        """The questions whose answer lacks a fact."""
        examined = [Examined(ask, await self.answer(ask)) for ask in asks]
        return [each for each in examined if not each.is_right]

    async def _text(self, ask: Ask) -> SourceText:
        if ask.document not in self._texts:
            extracted = await extract(ask.path.read_bytes(), ask.document)
            self._texts[ask.document] = SourceText(f"docItem:1:{ask.document}", ask.document, extracted.markdown())
        return self._texts[ask.document]


def _at_hand(asks: tuple[Ask, ...]) -> list[Ask]:
    found = [ask for ask in asks if ask.path is not None]
    if len(found) < len(asks) // 4:
        pytest.skip("the sample documents are not here; POWERON_SAMPLES names their folder")
    return found


@pytest.fixture(scope="module")
def reading() -> Reading:
    return Reading()


@pytest.mark.req("C-04")
async def test_at_least_seventeen_of_twenty_questions_are_answered_right(reading):
    asks = _at_hand(QUESTIONS)
    wrong = await reading.wrong(asks)
    assert len(wrong) <= len(asks) * 3 / 20, wrong


@pytest.mark.req("C-04")
async def test_what_the_documents_do_not_hold_is_said_to_be_missing(reading):
    assert await reading.wrong(_at_hand(UNANSWERABLE)) == []


async def test_nine_of_ten_questions_of_every_kind_are_answered_right(reading):
    asks = _at_hand(MORE_QUESTIONS)
    wrong = await reading.wrong(asks)
    assert len(wrong) <= len(asks) / 10, wrong


async def test_nine_of_ten_questions_without_an_answer_are_recognised(reading):
    asks = _at_hand(MORE_UNANSWERABLE)
    wrong = await reading.wrong(asks)
    assert len(wrong) <= len(asks) / 10, wrong
