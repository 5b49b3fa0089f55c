"""What the built-in model shows is what a document says: whole sentences, all values, nothing taken back."""

import pytest
from asked import process

TASKS = "Notes.\n\n- Anna signs the lease by May 1, 2025.\n- Bob pays the rent by June 2, 2025."


@pytest.mark.parametrize("question", ["Who signs the lease and by when?", "Who signs the lease?"])
async def test_a_whole_sentence_of_a_list_is_no_label_of_the_next(question):
    assert await process(question, TASKS) == "“Anna signs the lease by May 1, 2025.” — invoice.pdf"


async def test_a_whole_sentence_of_a_list_is_quoted_whole_where_it_ends_with_a_sum():
    tasks = "Duties.\n\n- The rent paid by Bob is $950.00.\n- The deposit paid by Anna is $400.00."
    assert await process("What is the deposit paid by Anna?", tasks) == (
        "“The deposit paid by Anna is $400.00.” — invoice.pdf"
    )


@pytest.mark.parametrize("turned", [False, True])
async def test_values_that_contradict_each_other_are_all_shown(turned):
    said = ["The amount due is $412.50 by June 3, 2025.", "The amount due is $9,999.00.", "The amount due is $7."]
    answer = await process("What is the amount due?", "\n\n".join(said[::-1] if turned else said))
    assert all(f"“{sentence}” — invoice.pdf" in answer for sentence in said)


async def test_a_labelled_value_does_not_hide_the_sentence_that_contradicts_it():
    answer = await process("What is the amount due?", "Amount due: $412.50\n\nThe amount due is $9,999.00 by June 3.")
    assert "**Amount due: $412.50**" in answer
    assert "“The amount due is $9,999.00 by June 3.”" in answer


LETTER = (
    "Dear Ada,\n\nthank you for the 46 photographs that you gave us. They will be kept with the others in our archive."
)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            "Wer hat das Bild gemalt?",
            "Zu „Wer hat das Bild gemalt“ wurde nichts gefunden. Die Dokumente sind in einer anderen Sprache; ",
        ),
        ("Who was the painter of the picture?", 'The documents do not say: "Who was the painter of the picture"'),
        ("Kapitän Ahab?", 'The documents do not say: "Kapitän Ahab"'),
    ],
)
async def test_a_question_in_another_language_than_the_documents_is_told_so(question, said):
    assert (await process(question, LETTER)).startswith(said)


async def test_documents_of_unknown_language_are_taken_for_those_of_the_question():
    answer = await process("Wer hat das Bild gemalt?", LETTER, "Due: July 3")
    assert answer.startswith("Die Dokumente sagen dazu nichts: ")


async def test_an_answer_found_in_another_language_is_given_without_remark():
    answer = await process(
        "Wie hoch ist der Gesamtbetrag und was ist das?", "This is the bill of the year.\n\nTotal amount: $7.00"
    )
    assert answer.startswith("**Total amount: $7.00**")


READINGS = """# sensor.json

<!-- application/json -->

| time | temperature_c |
| --- | --- |
| 2025-05-04T12:00:00Z | 28.4 |
| 2025-05-04T15:00:00Z | 31.6 |
"""


async def test_what_an_answer_shows_already_is_not_denied_below_it():
    answer = await process("What is the highest temperature and when was it measured?", READINGS)
    assert answer == (
        "**2025-05-04T15:00:00Z, temperature_c: 31.6** — sensor.json\n\n"
        'For "when was it measured" nothing more was found than what is above.\n\n'
        "> Only words were compared, not what they mean: what is said in other words may be missed."
    )


async def test_what_is_not_about_the_answer_above_is_denied():
    answer = await process("What is the highest temperature and who pays the rent?", READINGS)
    assert 'The documents do not say: "who pays the rent"' in answer


async def test_no_half_of_a_question_is_left_without_an_answer():
    kept = "The originals will be kept in our archive at a steady temperature of 16 degrees."
    answer = await process("How many paintings were sold and at what temperature are they kept?", kept)
    assert 'The documents do not say: "How many paintings were sold"' in answer
    assert f"“{kept}” — invoice.pdf" in answer
