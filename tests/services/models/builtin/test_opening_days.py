"""On which days of the week something is open, as sentences say it."""

import pytest

from poweron_services.models.builtin.page_search import asked_day, is_open

MONDAY = 0


@pytest.mark.parametrize(
    "said",
    [
        "The museum is open every day, Mondays too, from 10 a.m. to 5 p.m. On Thursdays it closes at 8 p.m.",
        "The museum is open on Mondays and Saturdays from 1 p.m. to 5 p.m.",
        "Open on Mondays from 9 a.m. to 4 p.m. and from Wednesday to Sunday. It is closed on Tuesdays.",
        "The café opens at 7 a.m. on every day but Tuesday.",
        "Opening hours: Mon\u2013Fri 9\u201317",
        "Hours: weekdays and Saturday 10-16; on weekdays until 18; open Monday",
        "Day: Monday; Hours: 10:00 \u2013 18:00",
        "Open on Mondays: yes, 10 a.m. to 5 p.m.",
        "Täglich außer dienstags geöffnet",
    ],
)
def test_open_on_mondays(said: str) -> None:
    assert is_open(said, MONDAY) is True


@pytest.mark.parametrize(
    "said",
    [
        "The museum is open from Tuesday to Sunday, 10 am to 6 pm.",
        "It can be climbed from Wednesday to Sunday; it is closed on Mondays and Tuesdays.",
        "The museum opens from Thursday to Sunday, 10 a.m. to 5 p.m., and is closed from Monday to Wednesday.",
        "Open daily except Mondays",
        "Day: Monday; Hours: closed",
        "Open on Mondays: no",
        "The others close on Mondays.",
        "Geöffnet Di\u2013So 10\u201317 Uhr, montags geschlossen",
    ],
)
def test_closed_on_mondays(said: str) -> None:
    assert is_open(said, MONDAY) is False


@pytest.mark.parametrize(
    "said",
    [
        "The museum stays open longer on Thursdays.",
        "Steam trains run on Mondays at 10:30 a.m.",
        "It is closed on December 24.",
        "The door is open.",
    ],
)
def test_what_says_nothing_of_mondays(said: str) -> None:
    assert is_open(said, MONDAY) is None


def test_below_a_heading_about_opening_a_time_is_one_of_opening() -> None:
    assert is_open("Monday, Wednesday and Friday 10\u201316", MONDAY) is None
    assert is_open("Monday, Wednesday and Friday 10\u201316", MONDAY, of_hours=True) is True


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Which museums open on Mondays", (0, True)),
        ("Which museums are closed on Sundays", (6, False)),
        ("Welche Museen haben montags geöffnet", (0, True)),
        ("Which museums are open", None),
        ("Which trains run on Sundays", None),
        ("Which museums open on Mondays or Tuesdays", None),
    ],
)
def test_a_question_about_opening_names_one_day(question: str, asked: tuple[int, bool] | None) -> None:
    assert asked_day(question) == asked
