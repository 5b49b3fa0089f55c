"""Writes `docs/bi.md` from the comments of the views: `uv run docs/bi_page.py`."""

from pathlib import Path

from poweron_projections.bi import VERSION, BiView, views

PAGE = Path(__file__).with_name("bi.md")

_HEAD = f"""\
# The views that dashboards count with

<!-- Made by `uv run docs/bi_page.py` from the comments of the views; a test compares. -->

They stand in the schema `bi` of PowerOn's Postgres; this is version {VERSION}, as `bi.version` says.
New views and columns do not change the version; a column that goes or counts something else does.
Nothing in them is free text: no prompt, no reason, no message, no name of a document.
Times are those of the broker, as `timestamptz`; money is in US dollars; milliseconds end in `_ms`.

The role that `POWERON_BI_ROLE` names may read them and nothing else:

```sql
CREATE ROLE dashboards LOGIN PASSWORD 'choose one';
```

On the Postgres that PowerOn starts itself, the role `poweron` may not make roles, but `postgres` may.
It is reached through the same socket, in a folder that only you can enter; `poweron status` tells where:

```sh
psql "$(uv run poweron status | sed -n 's/^postgres *//p' | sed 's/poweron@/postgres@/')" \\
  -c "CREATE ROLE dashboards LOGIN PASSWORD 'choose one'"
```

Where the role does not exist, the log says `bi_role_missing` and nobody is given anything.
Make it then, and start the process that plays the projector again.
A rebuild makes the views and the rights of this role again.
What others built upon the views, and rights that were given by hand, go with the old ones.

Dashboards for Grafana are in [`deploy/grafana`](../deploy/grafana/README.md).
`poweron bi export` writes the views of rows as Parquet, `poweron bi report` a page to hand on.

Every view whose name ends in `_by_day` is there as `_by_hour` too, with `hour` in place of `day`.
"""


def page() -> str:
    """Return the page with all views and columns, for analysts."""
    return _HEAD + "".join(_section(view) for view in views() if not view.name.endswith("_by_hour"))


def _section(view: BiView) -> str:
    rows = "".join(f"| `{name}` | {comment} |\n" for name, comment in view.columns)
    return f"\n## `bi.{view.name}`\n\n{view.comment}\n\n| column | meaning |\n|---|---|\n{rows}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
