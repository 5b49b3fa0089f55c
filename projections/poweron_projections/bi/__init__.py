"""The schema `bi`: views for dashboards, none of which contains free text.

The views are in their own schema beside the live one and run with their owner's rights, so their readers need no
access to the rows. A rebuild exchanges the tables and therefore recreates the views.
"""

import logging
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, get_args

from poweron_events.codes import ForkStopCode
from poweron_projections.connection import BI_ROLE, LIVE, Connection, schema_of

log = logging.getLogger(__name__)

VERSION: Final = 2
"""The value of `bi.version`."""

FORK_STOPS: Final = str(get_args(ForkStopCode))
"""Codes, as an SQL list: a fork that stops with one of them may not run its next action, and has not failed."""

FORK: Final = "workflow_id IN (SELECT workflow_id FROM workflows WHERE forked_from IS NOT NULL)"
"""An SQL expression: whether a row belongs to a fork."""

PERIODS: Final = {"day": 86_400, "hour": 3_600}  # seconds

_VIEW: Final = re.compile(r"^-- ([^\n]+)\nCREATE VIEW \{bi\}\.(\S+) AS\n(.+?);( -- [^\n]+)?$", re.MULTILINE | re.DOTALL)
_COLUMN: Final = re.compile(r"(\w+)[,;]? -- (.+)$", re.MULTILINE)
_ROLE: Final = """
SELECT named, quote_ident(rolname)
  FROM (SELECT current_setting($1, TRUE)) AS setting (named)
  LEFT JOIN pg_roles ON rolname = named
"""
_COLUMNS: Final = """
SELECT relname, attname, col_description(attrelid, attnum)
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
 WHERE relnamespace = to_regnamespace($1) AND relkind = 'v' AND attnum > 0
"""


@dataclass(frozen=True, slots=True)
class BiView:
    """One view: its meaning, and each of its columns."""

    name: str
    comment: str
    columns: tuple[tuple[str, str], ...]
    statement: str

    def statements(self, schema: str) -> list[str]:
        """Return the statements that create it with its comments."""
        name = f"{schema}.{self.name}"
        columns = [f"COMMENT ON COLUMN {name}.{column} IS {_quoted(comment)}" for column, comment in self.columns]
        made = f"CREATE VIEW {name} AS\n{self.statement.replace('{bi}', schema)}"
        return [made, f"COMMENT ON VIEW {name} IS {_quoted(self.comment)}", *columns]


@cache
def views() -> tuple[BiView, ...]:
    """Return all views, in the order of their documentation."""
    rows, periods = (_script(name) for name in ("rows.sql", "periods.sql"))
    counted = [
        _filled(
            periods,
            {
                "period": period,
                "seconds": str(seconds),
                "ms": str(seconds * 1_000),
                "fork_stops": FORK_STOPS,
                "fork": FORK,
            },
        )
        for period, seconds in PERIODS.items()
    ]
    return tuple(view for script in (rows, *counted) for view in _read(script))


def schema_beside(live: str) -> str:
    """Return the schema of the views over the rows of this schema."""
    return "bi" if live == LIVE else f"{live}_bi"


async def keep(connection: Connection, *, anew: bool = False) -> None:
    """Create the views if the caller wants new ones or this release's are missing; let the configured role read them.

    Runs inside a transaction that the caller commits. The connection uses the schema of the tables.
    """
    schema = schema_beside(await schema_of(connection))
    if anew or not await _are_there(connection, schema):
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        dropped = ", ".join(f"{schema}.{view.name}" for view in views())
        made = [statement for view in views() for statement in view.statements(schema)]
        await connection.execute(";\n".join([f"DROP VIEW IF EXISTS {dropped} CASCADE", *made]))
    named, role = await connection.fetchrow(_ROLE, BI_ROLE) or (None, None)
    if role:
        names = ", ".join(f"{schema}.{view.name}" for view in views())
        await connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {names} TO {role}")
    elif named:
        log.warning("bi_role_missing", extra={"role": named})


async def _are_there(connection: Connection, schema: str) -> bool:
    """Return whether every view has every column, each with its meaning in this release."""
    found = {tuple(row) for row in await connection.fetch(_COLUMNS, schema)}
    return all((view.name, *column) in found for view in views() for column in view.columns)


def _script(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def _filled(script: str, values: dict[str, str]) -> str:
    """Fill in the names in braces; `{bi}` and the braces of expressions remain."""
    return re.sub(r"\{(period|seconds|ms|fork_stops|fork)\}", lambda found: values[found[1]], script)


def _read(script: str) -> list[BiView]:
    return [_view(*found.groups()) for found in _VIEW.finditer(script)]


def _view(comment: str, name: str, body: str, last: str | None) -> BiView:
    columns = tuple(_COLUMN.findall(f"{body};{last or ''}"))
    return BiView(name, comment, columns, body)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
