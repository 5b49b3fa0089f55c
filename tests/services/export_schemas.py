"""What others require of the events and documents that are exported to them, as JSON Schemas.

The names, types and numbers are those of OCSF 1.9.0 (class API Activity with the profiles `ai_operation`,
`security_control` and `trace`) and of W3C PROV-JSON, as far as an export uses them. Nothing else may be in it.
"""

from typing import Any

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
NUMBER: dict[str, Any] = {"type": "integer"}


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object with these members and no others."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": [*required],
        "additionalProperties": False,
    }


def one_of(*values: Any) -> dict[str, Any]:
    return {"enum": [*values]}


# --- OCSF -------------------------------------------------------------------------------------------------

_SERVICE = closed({"name": TEXT}, version=TEXT)
_MODEL = closed({"name": TEXT, "ai_provider": TEXT}, version=TEXT, uid=TEXT)
_AGENT = closed(
    {"uid": TEXT}, instance_uid=TEXT, name=TEXT, type=TEXT, type_id=one_of(0, 1, 2, 3, 4, 99), version=TEXT,
    ai_model=_MODEL,
)  # fmt: skip
_USER = closed(
    {"name": TEXT}, uid=TEXT, type_id=one_of(0, 1, 2, 3, 4, 99),
    groups={"type": "array", "items": closed({"name": TEXT})},
)  # fmt: skip
_METADATA = closed(
    {"version": {"const": "1.9.0"}, "product": closed({"name": TEXT}, vendor_name=TEXT, version=TEXT)},
    profiles={"const": ["ai_operation", "security_control", "trace"]}, uid=TEXT, original_event_uid=TEXT,
    correlation_uid=TEXT, event_code=TEXT, sequence=NUMBER, log_name=TEXT, logged_time=NUMBER,
)  # fmt: skip
_MESSAGE = closed(
    {"service": _SERVICE}, uid=TEXT, ai_role_id=one_of(0, 1, 2, 3, 4, 5, 6, 99), ai_role=TEXT,
    prompt_tokens=NUMBER, completion_tokens=NUMBER, total_tokens=NUMBER,
)  # fmt: skip
OCSF_EVENT = closed(
    {
        "activity_id": one_of(0, 1, 2, 3, 4, 99),
        "actor": closed({"user": _USER}, application=closed({"name": TEXT}, uid=TEXT)),
        "api": closed({"operation": TEXT}, service=_SERVICE, request=closed({"uid": TEXT})),
        "category_uid": {"const": 6},
        "class_uid": {"const": 6003},
        "metadata": _METADATA,
        "severity_id": one_of(0, 1, 2, 3, 4, 5, 6, 99),
        "src_endpoint": closed({"svc_name": TEXT}, instance_uid=TEXT),
        "time": NUMBER,
        "type_uid": one_of(600300, 600301, 600302, 600303, 600304, 600399),
    },
    activity_name=TEXT, category_name=TEXT, class_name=TEXT, type_name=TEXT, severity=TEXT, message=TEXT,
    status=TEXT, status_id=one_of(0, 1, 2, 99), status_code=TEXT, count=NUMBER,
    duration=NUMBER, start_time=NUMBER, end_time=NUMBER,
    raw_data_hash=closed({"algorithm_id": one_of(3), "value": {"pattern": "^[0-9a-f]{64}$"}}, algorithm=TEXT),
    resources={
        "type": "array", "minItems": 1, "items": closed({"uid": TEXT}, name=TEXT, type=TEXT, data={"type": "object"})
    },
    trace=closed({"uid": {"pattern": "^[0-9a-f]{32}$"}}),
    ai_agent=_AGENT, ai_model=_MODEL, message_context=_MESSAGE,
    action_id=one_of(0, 1, 2, 3, 4, 99), action=TEXT, disposition_id={"enum": [*range(28), 99]}, disposition=TEXT,
    authorizations={"type": "array", "items": closed({"decision": TEXT})},
    unmapped={"type": "object"},
)  # fmt: skip

# --- PROV-JSON --------------------------------------------------------------------------------------------

_NAME = {"type": "string", "pattern": "^(?:_|[A-Za-z][A-Za-z0-9_-]*):[^ ]+$"}
_TIME = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$"}
_TYPED = closed({"$": TEXT}, type=_NAME, lang=TEXT)
_VALUE = {"anyOf": [{"type": ["string", "number", "boolean"]}, _TYPED]}
_ATTRIBUTES = {"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]}


def _element(**members: Any) -> dict[str, Any]:
    """The elements of a kind by their names: any attribute has a prefix."""
    element = {"type": "object", "properties": members, "additionalProperties": _ATTRIBUTES, "propertyNames": _NAME}
    return {"type": "object", "propertyNames": _NAME, "additionalProperties": element}


def _relation(*required: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """A relation by its ends."""
    ends = closed({f"prov:{end}": _NAME for end in required}, **{f"prov:{end}": _NAME for end in optional})
    return {"type": "object", "propertyNames": _NAME, "additionalProperties": ends}


PROV_JSON = closed(
    {
        "prefix": {"type": "object", "additionalProperties": {"type": "string", "format": "uri"}},
        "entity": _element(),
        "activity": _element(**{"prov:startTime": _TIME, "prov:endTime": _TIME}),
        "agent": _element(),
    },
    wasGeneratedBy=_relation("entity", optional=("activity",)),
    used=_relation("activity", "entity"),
    wasInformedBy=_relation("informed", "informant"),
    wasDerivedFrom=_relation("generatedEntity", "usedEntity", optional=("activity",)),
    wasAttributedTo=_relation("entity", "agent"),
    wasAssociatedWith=_relation("activity", optional=("agent",)),
    actedOnBehalfOf=_relation("delegate", "responsible", optional=("activity",)),
)
SORTS = {
    "entity": "entity", "generatedEntity": "entity", "usedEntity": "entity",
    "activity": "activity", "informed": "activity", "informant": "activity",
    "agent": "agent", "delegate": "agent", "responsible": "agent",
}  # fmt: skip
"""The kind of element at each end of a relation."""
