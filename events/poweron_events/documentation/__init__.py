"""The written form of the contracts: JSON Schemas, AsyncAPI and `docs/events.md`, all generated from the models.

`uv run python -m poweron_events.documentation` writes the files; a test compares them with the generated text.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from poweron_events.documentation.asyncapi import asyncapi, json_schemas
from poweron_events.documentation.page import events_page

ROOT: Final = Path(__file__).parents[3]


def files() -> dict[str, str]:
    """Return every generated file by its path in the repository."""
    schemas = {f"events/schemas/{name}.json": _pretty(schema) for name, schema in json_schemas().items()}
    return {**schemas, "events/asyncapi.json": _pretty(asyncapi()), "docs/events.md": events_page()}


def write(root: Path = ROOT) -> None:
    """Write all files below a folder, and delete schemas that no longer have a model."""
    for path in list(obsolete(root)):
        path.unlink()
    for name, text in files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def obsolete(root: Path = ROOT) -> Iterator[Path]:
    """Yield the schemas in the folder that no longer have a model."""
    known = {root / path for path in files()}
    yield from (path for path in (root / "events" / "schemas").glob("*.json") if path not in known)


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
