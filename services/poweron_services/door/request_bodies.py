"""The bodies of commands: the requests of the log without the fields that the door sets, and their OpenAPI schemas."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, Field, JsonValue, create_model, model_validator

from poweron_events.event import MAX_NANO_USD, NANO, Base64, FreeText, JsonValues, Model, Sha256, Tokens
from poweron_events.request import MAX_PROMPT, MAX_REASON, MAX_STEPS, RequestRound, RequestWorkflow
from poweron_services.client.approve import Decision
from poweron_services.client.verbs import MAX_WORKFLOWS
from poweron_services.door.form_parser import FORM
from poweron_services.door.json_responses import JSON
from poweron_services.door.query_parameters import UUID

PROMPT: Final = {"prompt": "When does the museum open?", "maxSteps": 5}
SET_BY_DOOR: Final = ("actor", "requester", "documents", "forked_from")


def _without(name: str, kind: type[Model], *left_out: str) -> type[Model]:
    """Return a model with the fields of another one, except those that are left out."""
    fields: dict[str, Any] = {
        field: (info.annotation, info) for field, info in kind.model_fields.items() if field not in left_out
    }
    return create_model(name, __base__=Model, __doc__=kind.__doc__, **fields)


WorkflowBody: Final = _without("WorkflowBody", RequestWorkflow, *SET_BY_DOOR, "restarted_from")
RoundBody: Final = _without("RoundBody", RequestRound, *SET_BY_DOOR, "workflow_id", "after_round")

Reason = Annotated[FreeText, Field(default="", max_length=MAX_REASON)]


class ReasonBody(Model):
    """Why something is requested."""

    reason: Reason


class ApprovalBody(Model):
    """A person's answer to an action, with the hash of the parameters that it is about, or to a budget question."""

    decision: Decision
    reason: Reason
    parameters_sha256: Sha256 | None = None
    """The hash that was shown with the action; left out in the answer to a budget question."""
    changes: JsonValues | None = Field(default=None, alias="set")
    """Other values of parameters, which others have to approve."""
    tokens: Tokens = 0
    cost_usd: float = Field(default=0, ge=0, le=MAX_NANO_USD / NANO)


class BatchBody(Model):
    """A verb for many workflows: those that are named, or those for which all conditions hold."""

    verb: Literal["pause", "resume", "restart", "cancel"]
    ids: tuple[Annotated[str, Field(pattern=UUID)], ...] = Field(default=(), min_length=1, max_length=MAX_WORKFLOWS)
    where: tuple[Annotated[str, Field(max_length=1_000)], ...] = Field(default=(), min_length=1, max_length=20)
    reason: Reason

    @model_validator(mode="after")
    def _chosen_one_way(self) -> Self:
        if bool(self.ids) == bool(self.where):
            raise ValueError("name workflows by `ids` or choose them with `where`, one of the two")
        return self


class ForkBody(Model):
    """Where a fork begins, and what changes from there."""

    at: int = Field(ge=0, le=2**31 - 1)
    model: str | None = Field(default=None, min_length=1, max_length=300)
    """The model that decides from there on; one that is configured."""
    prompt: FreeText | None = Field(default=None, min_length=1, max_length=MAX_PROMPT, pattern=r"\S")
    """Another request, if the tasks are not planned up to `at`."""
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS)
    live: bool = False
    answer: FreeText | None = Field(default=None, max_length=MAX_PROMPT)
    """What to answer to the next decision instead of a model; the fork records it as edited, and by whom."""
    parameters: JsonValues | None = None
    """The parameters to set instead of those that a model would, if the next decision sets them."""


class RedriveBody(Model):
    """The bytes to send instead of those of the dead letter, as base64; left out to send those again."""

    raw: Base64 | None = None


class AcceptedJson(BaseModel):
    """A request that is in the log."""

    workflowId: str | None  # noqa: N815 - the name in JSON
    requestId: str  # noqa: N815 - the name in JSON
    links: dict[str, str]


def described(
    body: type[Model],
    example: Mapping[str, Any],
    outcome: type[BaseModel] | None = None,
    *,
    files: bool = False,
    is_accepted: bool = True,
) -> dict[str, Any]:
    """Return what describes a command in the OpenAPI document: its body and its responses.

    Without `is_accepted`, a command is never answered before its outcome is known; without `outcome`, always.
    """
    schema: dict[str, JsonValue] = {"$ref": f"#/components/schemas/{body.__name__}"}
    content: dict[str, Any] = {JSON: {"schema": schema, "example": example}}
    if files:
        content[FORM] = _form(schema, example)
    responses = dict[int | str, dict[str, Any]]()
    if is_accepted:
        responses[202] = {"model": AcceptedJson, "description": "The request is in the log.", "headers": _LOCATION}
    if outcome is not None:
        responses[200] = {
            "model": outcome,
            "description": "The outcome, if `Prefer: wait` asked for it and it came in time.",
        }
    is_required = bool(body.model_json_schema().get("required"))
    return {
        "responses": responses,
        "openapi_extra": {"requestBody": {"required": is_required, "content": content}},
    }


def body_schemas() -> dict[str, Any]:
    """Return the schema of each body by its name."""
    bodies = (WorkflowBody, RoundBody, ReasonBody, ApprovalBody, ForkBody, RedriveBody)
    schemas = {body.__name__: _schema_of(body) for body in bodies}
    whole = _schema_of(BatchBody)
    ways = {"NamedBatch": ("ids", "where"), "MatchingBatch": ("where", "ids")}
    for title, (wanted, other) in ways.items():
        properties = {name: schema for name, schema in whole["properties"].items() if name != other}
        schemas[title] = {**whole, "title": title, "properties": properties, "required": [*whole["required"], wanted]}
    refs = [{"$ref": f"#/components/schemas/{title}"} for title in ways]
    return {**schemas, "BatchBody": {"oneOf": refs, "description": BatchBody.__doc__}}


def _schema_of(body: type[Model]) -> Any:
    return _inlined(body.model_json_schema(by_alias=True, mode="validation"))


_LOCATION: Final = {"Location": {"description": "The workflow.", "schema": {"type": "string"}}}


def _form(schema: JsonValue, example: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema": {
            "type": "object",
            "required": ["request"],
            "additionalProperties": False,
            "properties": {
                "request": schema,
                "file": {
                    "type": "array",
                    "maxItems": 100,
                    "items": {"type": "string", "format": "binary"},
                    "description": "Documents, up to 100 of 200 MB each, one part for each.",
                },
            },
        },
        "encoding": {
            "request": {"contentType": JSON},
            "file": {"contentType": "application/octet-stream"},
        },
        "example": {"request": dict(example)},
    }


def _inlined(schema: dict[str, Any]) -> Any:
    """Return the schema with each reference replaced by its definition; none of ours is recursive."""
    definitions = schema.pop("$defs", {})

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(each) for each in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            name = str(part["$ref"]).rpartition("/")[2]
            part = {**definitions[name], **{key: value for key, value in part.items() if key != "$ref"}}
        return {key: resolve(value) for key, value in part.items() if key != "freeText"}

    return resolve(schema)
