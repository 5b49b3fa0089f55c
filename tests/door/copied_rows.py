"""A long workflow without its work: the rows of a short one, again and again."""

import asyncpg


async def copied_events(dsn: str, origin: str, events: int) -> str:
    """Make a workflow with that many events; return its id."""
    workflow = f"00000000-0000-4000-8000-{events:012d}"
    connection = await asyncpg.connect(dsn)
    try:
        await _copy_all(connection, origin, workflow, events)
    finally:
        await connection.close()
    return workflow


async def _copy_all(connection: asyncpg.Connection, origin: str, workflow: str, events: int) -> None:
    for table in ("workflows", "rounds", "tasks"):
        await _copy(connection, table, origin, workflow, {})
    for table, number in (("steps", "step"), ("messages", "seq"), ("documents", "seq"), ("usage", "seq")):
        changed = {number: f"{number} + 100 * n"}
        if table == "documents":
            changed["document_id"] = "CASE WHEN seq = 0 AND n > 1 THEN document_id || 'x' || n ELSE document_id END"
        await _copy(connection, table, origin, workflow, changed, max(1, events // 16))
    changed = {
        "seq": "seq + 100 * n",
        "partition": "partition + 1000",
        "log_offset": f"{events} + log_offset * 100000 + n",
    }
    await _copy(connection, "records", origin, workflow, changed, max(1, events // 16))
    await connection.execute("UPDATE workflows SET seq = $2 WHERE workflow_id = $1::uuid", workflow, events)
    await connection.execute("ANALYZE")


async def _copy(  # noqa: PLR0917 - of one copy
    connection: asyncpg.Connection, table: str, origin: str, workflow: str, changed: dict[str, str], times: int = 0
) -> None:
    found = await connection.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0", table
    )
    columns = [f'"{row["attname"]}"' for row in found]
    given = {'"workflow_id"': f"'{workflow}'::uuid", **{f'"{name}"': value for name, value in changed.items()}}
    values = ", ".join(given.get(column, f"{table}.{column}") for column in columns)
    source = f"{table}, generate_series(1, $2::int) n" if times else table
    query = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {source} WHERE workflow_id = $1::uuid"
    await connection.execute(query, origin, *([times] if times else []))
