"""What the README says of the tables is what the database has, and its examples run."""

import re
from pathlib import Path

import pytest

from builders import typical
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_projections.connection import Pool, acquire, connect
from poweron_projections.tables import ALL
from poweron_projections.verify import catch_up

README = Path(__file__).parents[2] / "projections" / "README.md"


def described() -> dict[str, list[str]]:
    """The columns of each table and view, as the README lists them."""
    sections = re.split(r"^### ", README.read_text(), flags=re.MULTILINE)[1:]
    return {
        section.partition("\n")[0]: [
            name for name in re.findall(r"^\| (\w+) \|", section, re.MULTILINE) if name != "column"
        ]
        for section in sections
    }


async def test_the_readme_lists_the_columns_that_there_are(log: MemoryLog, pool: Pool) -> None:
    await catch_up(log, pool)
    found: dict[str, list[str]] = {}
    async with acquire(pool) as connection:
        for row in await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
        ):
            found.setdefault(row["table_name"], []).append(row["column_name"])
    assert described() == found


def test_rows_have_the_columns_of_their_tables() -> None:
    assert {table.name: list(table.columns) for table in ALL}.items() <= described().items()


async def test_the_ten_lines_work(log: MemoryLog, pool: Pool) -> None:
    await log.append(topics.EVENTS.name, typical().messages)
    await catch_up(log, pool)
    (sql,) = re.findall(r"```sql\n(.*?)```", README.read_text(), re.DOTALL)
    _, *queries, _ = sql.split(";")
    async with acquire(pool) as connection:
        found = [await connection.fetch(query) for query in queries]
    assert found[0][0]["message"] == "The grand total is 42."


async def test_the_python_example_works(log: MemoryLog, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with connect(dsn) as pool:
        await log.append(topics.EVENTS.name, typical().messages)
        await catch_up(log, pool)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    scope: dict[str, object] = {}
    exec(code, scope)
    await scope["show"](dsn)
    assert "completed What is the grand total?" in capsys.readouterr().out
