"""Two tables joined on their rows: every cell that differs, and only those; rows that one side alone has."""

from typing import Any

import pytest
from asked import TEMPLATE, ask
from hypothesis import given
from hypothesis import strategies as st

from poweron_services.models.builtin.comparison import joined
from poweron_services.models.builtin.sources import SourcePlace, SourceTable, records
from poweron_services.models.prompts import ProcessPrompt, SourceText

OLD = """# old.csv

<!-- text/csv -->

| article | price | stock | supplier |
| --- | --- | --- | --- |
| Oak table | $1,420.00 | 5 | Brandt |
| Pine shelf | $89.50 | 12 | Moss |
| Desk lamp | $34.00 | 40 | Brandt |
| Rug | $120.00 | 3 | Hale |
"""
NEW = """# new.csv

<!-- text/csv -->

| Supplier | Article | Price |
| --- | --- | --- |
| Brandt | desk lamp | $34.0 |
| Brandt | Oak table | $1,450.00 |
| Hale | Pine shelf | $89.50 |
| Moss | Stool | $59.00 |
"""


def table(rows: dict[str, int], place: str) -> SourceTable:
    cells = tuple((name, str(value)) for name, value in rows.items())
    return SourceTable(SourcePlace(place, ""), tuple(records(("Item", "Count"), cells)), frozenset())


async def compared(*texts: str) -> str:
    documents = tuple(SourceText(f"docItem:{number}", "d", text) for number, text in enumerate(texts))
    fields: dict[str, Any] = {"custom_instructions": "", "language": "en", "output_format": "markdown"}
    return await ask(ProcessPrompt(template=TEMPLATE, ai_prompt="Compare the lists", documents=documents, **fields))


@pytest.mark.req("C-06")
async def test_every_column_that_both_have_is_compared_whatever_the_order_and_the_case() -> None:
    answer = await compared(OLD, NEW)
    assert "| Oak table | $1,420.00 | $1,450.00 | +$30.00 |" in answer
    assert "3 rows are in all tables by their article; 2 of them differ." in answer
    below = answer.partition("## What differs")[2]
    lines = [line for line in below.splitlines() if line.startswith("| ")][2:]
    assert lines == ["| Pine shelf | supplier | Moss | Hale | \N{EN DASH} |"]
    assert "| Rug | $120.00 |" in answer
    assert "| Stool | $59.00 |" in answer


async def test_three_tables_stand_side_by_side() -> None:
    answer = await compared(OLD, NEW, NEW.replace("new.csv", "later.csv").replace("$89.50", "$92.00"))
    assert "| Pine shelf | $89.50 | $89.50 | $92.00 |" in answer
    assert "| Pine shelf | supplier | Moss | Hale | Hale |" in answer


NAMES = st.text("abcdefgh", min_size=3, max_size=5)
SIDES = st.dictionaries(NAMES, st.integers(0, 99), min_size=2, max_size=8)


@given(one=SIDES, other=SIDES)
def test_rows_are_shared_differing_or_alone_and_nothing_else(one: dict[str, int], other: dict[str, int]) -> None:
    found = joined([table(one, "a"), table(other, "b")], str)
    both = one.keys() & other.keys()
    if not both:
        assert found is None
        return
    assert found is not None
    assert found.shared == len(both)
    assert {row[0] for row in found.differing} == {name for name in both if one[name] != other[name]}
    assert all(int(row[4]) == other[row[0]] - one[row[0]] for row in found.differing)
    assert set(found.alone[0]) == one.keys() - both
    assert set(found.alone[1]) == other.keys() - both


def test_rows_of_one_name_join_nothing() -> None:
    twice = SourceTable(
        SourcePlace("a", ""), tuple(records(("Item", "Count"), (("nut", "1"), ("nut", "2")))), frozenset()
    )
    assert joined([twice, table({"nut": 1, "bolt": 2}, "b")], str) is None
