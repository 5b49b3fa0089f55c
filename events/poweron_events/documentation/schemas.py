"""JSON Schemas of everything on the wire, with the meaning of every field."""

import inspect
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from poweron_events.dead_letter import DeadLetter
from poweron_events.documentation.glossary import meaning
from poweron_events.event import Model
from poweron_events.progress import StepProgress
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS

Json = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DEAD_LETTER: Final = "poweron.deadletter.v1"
PROGRESS: Final = "poweron.progress.v1"
ANY_VALUE: Final = "Any JSON value."


class _Untitled(GenerateJsonSchema):
    """A generator that omits titles, which only repeat the name of the field."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False


def json_schemas() -> dict[str, Json]:
    """Return the schema of every event's and request's data, of dead letters and of progress, by wire type."""
    models: dict[str, type[Model]] = {**REQUESTS, **WORKFLOW_EVENTS, DEAD_LETTER: DeadLetter, PROGRESS: StepProgress}
    return {name: _json_schema(name, model) for name, model in models.items()}


def _json_schema(name: str, model: type[Model]) -> Json:
    schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    for part in (schema, *schema.get("$defs", {}).values()):
        part["description"] = joined(part.get("description", ANY_VALUE))
        for field, value in part.get("properties", {}).items():
            value["description"] = meaning(part["title"], field)
    return {"$schema": DIALECT, "$id": f"{name}.json", **schema}


def sentence(model: type[Model]) -> str:
    """Return the first sentence of a model's docstring."""
    return joined(inspect.getdoc(model) or "").partition(". ")[0].rstrip(".") + "."


def joined(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())
