"""Filters such as `status=failed` or `age>2h`, which choose workflows from the rows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from poweron_events.codes import CODES
from poweron_events.errors import Refused
from poweron_events.fold.state import Phase
from poweron_projections.connection import Pool, acquire
from poweron_projections.entries import WorkflowStatus
from poweron_projections.table_spec import text

MANY: Final = 20  # values, which a sentence does not list any more
MAX_LENGTH: Final = 200  # characters of a condition
_CONDITION: Final = re.compile(r"\s*(?P<key>[a-z]+)\s*(?P<sign>!=|>=|<=|=|>|<)\s*(?P<value>.*?)\s*", re.DOTALL)
_AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)
_AGE: Final = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_OF_ROUNDS: Final = "EXISTS (SELECT FROM rounds WHERE rounds.workflow_id = workflows.workflow_id AND {})"
_OF_STEPS: Final = "EXISTS (SELECT FROM steps WHERE steps.workflow_id = workflows.workflow_id AND {})"
_OF_USAGE: Final = "EXISTS (SELECT FROM usage WHERE usage.workflow_id = workflows.workflow_id AND {})"
_REPEATED: Final = "EXISTS (SELECT FROM workflows later WHERE later.restarted_from = workflows.workflow_id::text)"
_TESTS: Final = {
    "status": "workflows.status = ANY({}::text[])",
    "code": "workflows.stopped_by = ANY({}::text[])",
    "phase": "workflows.phase = ANY({}::text[])",
    "model": _OF_USAGE.format("usage.model = ANY({}::text[])"),
    "action": _OF_STEPS.format("steps.action = ANY({}::text[])"),
    "actor": _OF_ROUNDS.format("rounds.actor ->> 'id' = ANY({}::text[])"),
    "source": _OF_ROUNDS.format("rounds.request_source = ANY({}::text[])"),
    "restarted": f"CASE WHEN {_REPEATED} THEN 'yes' ELSE 'no' END = ANY({{}}::text[])",
}
"""The SQL test of each key; `{}` is the parameter with its values."""
_KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "status": get_args(WorkflowStatus),
    "phase": get_args(Phase),
    "code": tuple(CODES),
    "restarted": ("yes", "no"),
}
"""The values of keys that have a fixed set: a misspelt one would match nothing, or everything if it is negated."""
_UNLIKELY: Final = re.compile(r"^[=!<>~]|\b(?:and|or|not)\b|[()'\"]", re.IGNORECASE)
"""What looks like more of a condition than a value."""
_TEXTS: Final = "to_tsvector('simple', left(rounds.prompt, 50000) || ' ' || left(COALESCE(rounds.message, ''), 50000))"
"""What is searched for words; an index in `migrations` has the same expression."""
KEYS: Final = (*_TESTS, "age")
_EXAMPLE: Final = "A condition looks like `status=failed,cancelled`, `model!=gpt-5` or `age>2h`."


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: an SQL test with one parameter."""

    test: str
    value: Any

    @classmethod
    def parse(cls, condition: str, now_ms: int) -> "Condition":
        """Read a condition; ages are counted back from `now_ms`.

        Raises:
            Refused: it cannot be understood; the sentence says how one looks.
        """
        if len(condition) > MAX_LENGTH:
            raise Refused(f"A condition may have {MAX_LENGTH} characters, not {len(condition):,}.")
        found = _CONDITION.fullmatch(condition)
        if found is None:
            raise Refused(f"{condition!r} is not a condition. {_EXAMPLE}")
        key, sign, value = found["key"], found["sign"], found["value"]
        if key not in KEYS:
            raise Refused(f"{key!r} cannot be compared; {', '.join(KEYS[:-1])} and {KEYS[-1]} can.")
        if not value:
            raise Refused(f"{condition!r} has no value. {_EXAMPLE}")
        return _age(condition, sign, value, now_ms) if key == "age" else _one_of(condition, key, sign, value)

    @classmethod
    def one_of(cls, key: str, values: Sequence[str]) -> "Condition":
        """Return the condition that the value of this key is one of these."""
        return cls(_TESTS[key], [text(value) for value in values])

    @classmethod
    def opened(cls, sign: Literal["<", ">"], time_ms: int) -> "Condition":
        """Return the condition that a workflow was opened before or after a time."""
        return cls(f"workflows.opened_ms {sign} {{}}::bigint", time_ms)

    @classmethod
    def stuck(cls) -> "Condition":
        """Return the condition that no role works on a workflow any more."""
        return cls("workflows.stuck = {}::boolean", value=True)

    @classmethod
    def among(cls, workflow_ids: Sequence[str]) -> "Condition":
        """Return the condition that a workflow is one of these."""
        return cls("workflows.workflow_id = ANY({}::uuid[])", list(workflow_ids))

    @classmethod
    def words(cls, query: str) -> "Condition":
        """Return the condition that a prompt or a final answer contains words, written as in a search engine."""
        return cls(_OF_ROUNDS.format(f"{_TEXTS} @@ websearch_to_tsquery('simple', {{}}::text)"), text(query))


def _one_of(condition: str, key: str, sign: str, value: str) -> Condition:
    if sign not in ("=", "!="):
        raise Refused(f"{condition!r}: {key} can only be compared by = and !=; only age has an order.")
    values = [text(part.strip()) for part in value.split(",")]
    if not all(values):
        raise Refused(f"{condition!r} has an empty value between its commas.")
    known = _KNOWN.get(key)
    for part in values:
        if known is not None and part not in known:
            listed = f"it is one of {', '.join(known)}" if len(known) < MANY else "docs/events.md lists them"
            raise Refused(f"{part!r} cannot be the {key}; {listed}.")
        if _UNLIKELY.search(part):
            raise Refused(f"{condition!r}: {part!r} cannot be the value of {key}. {_EXAMPLE}")
    test = _TESTS[key]
    return Condition(test if sign == "=" else f"({test}) IS NOT TRUE", values)


def _age(condition: str, sign: str, value: str, now_ms: int) -> Condition:
    found = _AGE.fullmatch(value)
    if sign not in (">", "<") or found is None:
        raise Refused(f"{condition!r} is no age; write `age>30m` or `age<7d`, with s, m, h or d.")
    since_ms = now_ms - int(found["number"]) * _SECONDS[found["unit"]] * 1_000
    return Condition.opened("<" if sign == ">" else ">", since_ms)


@dataclass(frozen=True, slots=True)
class Matches:
    """The workflows that a filter matches, oldest first."""

    workflow_ids: Sequence[str]
    count: int
    """How many match, also beyond those that are listed."""


Among = Literal["open", "paused", "under an older policy", "all"]
"""The workflows to choose from: those with an open round, those of which a round is paused, those with an open round
whose rules are not those of the newest policy, or all."""
_AMONG: Final[dict[Among, str]] = {
    "open": "is_open",
    "paused": "paused_ms IS NOT NULL",
    "under an older policy": """is_open AND phase NOT IN ('closing', 'draining')
        AND (SELECT COALESCE(max(number), 0) FROM policies) >
        COALESCE((SELECT policy_number FROM rounds WHERE (rounds.workflow_id, rounds.round)
                                                       = (workflows.workflow_id, workflows.round)), 0)""",
    "all": "status <> 'no_workflow'",
}


async def matching(pool: Pool, conditions: Sequence[Condition], *, limit: int, among: Among = "all") -> Matches:
    """Return the workflows for which all conditions hold, at most `limit` of them.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    tests = [condition.test.format(f"${number}") for number, condition in enumerate(conditions, start=2)]
    query = f"""
SELECT workflow_id, COUNT(*) OVER () AS count FROM workflows
 WHERE {" AND ".join([_AMONG[among], *tests])} ORDER BY opened_ms, workflow_id LIMIT $1
"""  # noqa: S608 - the tests are ours, only their values are given
    async with acquire(pool) as connection:
        found = await connection.fetch(query, limit, *(condition.value for condition in conditions))
    return Matches([str(row["workflow_id"]) for row in found], found[0]["count"] if found else 0)


def parse_all(filters: Sequence[str], now_ms: Callable[[], int]) -> list[Condition]:
    """Read conditions; one text may hold several, joined by ` and `.

    Raises:
        Refused: one of them cannot be understood.
    """
    now = now_ms()
    return [Condition.parse(part, now) for given in filters for part in _AND.split(given.strip())]
