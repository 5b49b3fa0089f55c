"""What code fills in where neither the request nor the model says it, and what it does not let a model ask for."""

from typing import Any

import pytest

from builders import CALL, Told, requested
from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.round_events import TaskPlan, TasksPlanned
from poweron_services.decider.defaults import defaults, language, overruled
from poweron_services.text.freshness import time_range

FOREIGN = ActionSpec("elsewhere.act", {"type": "object", "properties": {}}, "pure", 1_000)


def task(
    task_type: Any = "lookup",
    criterion: str = "The total is named",
    objective: str = "Find it",
    spoken: str | None = "de",
    **fields: Any,
) -> Any:
    plan = TaskPlan(objective=objective, success_criteria=(criterion,), task_type=task_type, **fields)
    told = Told().tell(requested(user_language=spoken))
    return told.tell(TasksPlanned(round=1, tasks=(plan,), model_call=CALL)).workflow


@pytest.mark.req("D-02")
@pytest.mark.parametrize(
    ("task_type", "depth"),
    [("analysis", "advanced"), ("report", "advanced"), ("lookup", "basic"), ("transform", "basic")],
)
def test_the_web_is_searched_and_read_deep_only_where_the_task_needs_it(task_type: str, depth: str) -> None:
    assert defaults(CATALOG["web.search"], task(task_type)) == {"searchDepth": depth, "language": "de"}
    assert defaults(CATALOG["web.scrape"], task(task_type)) == {
        "searchDepth": depth,
        "extractDepth": depth,
        "language": "de",
    }
    assert defaults(CATALOG["web.crawl"], task(task_type)) == {"extractDepth": depth}


@pytest.mark.req("D-02")
@pytest.mark.parametrize(
    ("spoken", "filled"), [("fr", "fr"), ("pt-BR", "pt-BR"), (None, None), ("German", None), ("de; drop", None)]
)
def test_the_web_is_searched_in_the_users_language(spoken: str | None, filled: str | None) -> None:
    assert defaults(CATALOG["web.search"], task(spoken=spoken)).get("language") == filled


FRESH = [
    ("The price as of today is named", "day"),
    ("Der heutige Kurs steht da", "day"),
    ("Le cours d\u2019aujourd\u2019hui est indiqué", "day"),
    ("Le notizie di oggi", "day"),
    ("Las noticias de hoy", "day"),
    ("As notícias de hoje", "day"),
    ("Het weer van vandaag", "day"),
    ("Everything from the last 24 hours", "day"),
    ("What was announced this week", "week"),
    ("Meldungen der letzten sieben Tage", "week"),
    ("Ce qui a changé cette semaine", "week"),
    ("Cosa è cambiato questa settimana", "week"),
    ("Lo que cambió esta semana", "week"),
    ("Wat deze week veranderde", "week"),
    ("Changes of the past two weeks", "month"),
    ("Changes of the last 30 days", "month"),
    ("The latest price is named", "month"),
    ("The current exchange rate is named", "month"),
    ("The list is up to date", "month"),
    ("Who currently leads the company", "month"),
    ("Latest figures are compared", "month"),
    ("Der aktuelle Preis steht da", "month"),
    ("Aktuelle Preise sind genannt", "month"),
    ("Die neuesten Zahlen", "month"),
    ("Le prix actuel est indiqué", "month"),
    ("Les plus récentes données", "month"),
    ("Il prezzo attuale è indicato", "month"),
    ("El precio actual está indicado", "month"),
    ("O preço atual é indicado", "month"),
    ("De huidige prijs staat erin", "month"),
    ("Three months back: the last 3 months", "year"),
    ("The growth of this year", "year"),
    ("Das Wachstum dieses Jahres", "year"),
    ("La croissance de cette année", "year"),
    ("La crescita di quest'anno", "year"),
    ("El crecimiento de este año", "year"),
    ("De groei van dit jaar", "year"),
    ("Today's price and the trend of this year", "year"),  # the longest, so that nothing is missed
    ("News of the last two weeks of trading", "month"),
    ("Studies of the past year on the last day of the lease", "year"),
    ("The latest news of this week", "week"),  # what is said in units is more exact
]
NOT_FRESH = [
    "The total is named",
    "The development of the last 10 years is shown",  # longer than any range
    "Holdings of Current Ltd are listed",
    "The report names USA Today as its source",
    "The article “The latest in tax law” is quoted",
    'The film "This Week" is dated',
    "Current Group is described",
    "The balance of the current account is named",
    "Current assets and current liabilities are summed up",
    "The direct current is given in ampere",
    "It ends on 3 May at the latest",
    "The actual cost is compared with the estimate",
    "Undercurrents and currencies are explained",
    "The last page and the last name are given",
    "Die Aktualisierung der Aktuare ist erklärt",
    "Figures of 2024 are named",
    "The last day of the contract is named",
    "The last year of the table is compared with the first",
    "The last three months of a lease are explained",
    "Der letzte Tag des Vertrags ist genannt",
    "The latest possible date is named",
    "The latest date of delivery is named",
    "The electrical current is stated",
    "The losses by eddy current are listed",
    "See https://example.com/latest for the form",
]


@pytest.mark.req("D-02")
@pytest.mark.parametrize(("criterion", "span"), FRESH)
def test_the_time_is_limited_as_the_criteria_say(criterion: str, span: str) -> None:
    assert time_range([criterion]) == span
    assert defaults(CATALOG["web.search"], task(criterion=criterion))["timeRange"] == span
    assert defaults(CATALOG["web.scrape"], task(criterion=criterion))["timeRange"] == span


@pytest.mark.req("D-02")
@pytest.mark.parametrize("criterion", NOT_FRESH)
def test_the_time_is_not_limited_where_no_criterion_asks_for_what_is_new(criterion: str) -> None:
    assert time_range([criterion]) is None
    assert "timeRange" not in defaults(CATALOG["web.search"], task(criterion=criterion))


@pytest.mark.parametrize("filled", ["\u201e", '"', "last ", "x", "the current "])
def test_a_criterion_of_any_length_is_read_at_once(filled: str) -> None:
    time_range([filled * (60_000 // len(filled))] * 10)


@pytest.mark.req("D-02")
def test_a_time_that_nothing_asks_for_is_overruled() -> None:
    given = {"query": "roof", "timeRange": "day"}
    assert overruled(CATALOG["web.search"], given, task()) == {"timeRange"}
    assert overruled(CATALOG["web.scrape"], given, task()) == {"timeRange"}
    assert overruled(CATALOG["web.search"], given, task(criterion="The latest price is named")) == frozenset()
    assert overruled(CATALOG["web.search"], given, task(objective="Find today's price")) == frozenset()


@pytest.mark.req("D-03")
@pytest.mark.parametrize(
    ("formats", "filled"),
    [
        ((), []),
        (("docx",), []),
        (("markdown", "html", "pdf"), []),
        (("json",), ["json"]),
        (("md", "csv"), ["csv"]),
        (("JSON", ".csv", "text/csv"), ["json", "csv"]),
        (("application/json",), ["json"]),
        (("a JSON-like text",), []),
    ],
)
def test_machine_readable_output_only_where_the_task_demands_it(formats: Any, filled: list[str]) -> None:
    assert defaults(CATALOG["ai.process"], task(expected_formats=formats)) == {"expectedDocumentFormats": filled}


@pytest.mark.req("D-03")
@pytest.mark.parametrize(
    ("asked", "formats", "is_overruled"),
    [
        (["json"], (), True),
        ("JSON", (), True),
        (["markdown", "csv"], ("json",), True),
        (["json"], ("json",), False),
        (["csv"], ("json", "csv"), False),
        (["markdown"], (), False),
        (["markdown"], ("json",), False),
        ([], (), False),
        (None, (), False),
        ([{"a": 1}, 5], (), False),  # left to the check of types
    ],
)
def test_a_format_for_machines_that_the_task_does_not_demand_is_overruled(
    asked: Any, formats: Any, is_overruled: bool
) -> None:
    given = {"aiPrompt": "Add it up", "expectedDocumentFormats": asked}
    found = overruled(CATALOG["ai.process"], given, task(expected_formats=formats))
    assert found == ({"expectedDocumentFormats"} if is_overruled else frozenset())


@pytest.mark.parametrize(
    ("objective", "title"),
    [
        ("Compare both offers.", "Compare both offers"),
        ("  Compare\t both offers:\n- price\n- time", "Compare both offers"),
        ("word " * 40, "word " * 18 + "word…"),
        ("x" * 300, "x" * 99 + "…"),
        (" \n ", None),
    ],
)
def test_a_report_is_named_after_the_tasks_objective(objective: str, title: str | None) -> None:
    found = defaults(CATALOG["document.generateReport"], task(objective=objective)).get("title")
    assert found == title


def test_actions_without_defaults_of_their_own_get_those_of_the_catalog() -> None:
    assert defaults(CATALOG["document.extract"], task()) == {}
    assert defaults(FOREIGN, task()) == {}
    assert overruled(FOREIGN, {"timeRange": "day"}, task()) == frozenset()


@pytest.mark.parametrize("action", CATALOG)
@pytest.mark.parametrize("task_type", ["lookup", "analysis", "report", "transform"])
def test_defaults_are_parameters_of_their_action(action: str, task_type: str) -> None:
    filled = defaults(CATALOG[action], task(task_type, criterion="The latest price", expected_formats=("json",)))
    assert set(filled) <= set(CATALOG[action].business_parameters)


@pytest.mark.req("D-01")
def test_the_users_language_is_that_of_the_request_else_of_the_requester() -> None:
    assert language(Told().tell(requested(user_language="fr", requester={"language": "de"})).workflow) == "fr"
    assert language(Told().tell(requested(requester={"language": "de"})).workflow) == "de"
    assert language(Told().tell(requested()).workflow) is None
