"""What the API of each provider takes: its rules for requests and for the schemas in them, as its documentation tells.

A request that breaks one is answered as the provider would, so that no test passes over what none would take.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from werkzeug import Request

from poweron_services.settings.config import Provider

Schema = Mapping[str, Any]

SHAPE: Final = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "const"}) | {
    "anyOf",
    "$ref",
    "$defs",
    "description",
    "title",
}
BOUNDS: Final = frozenset({"pattern", "format", "multipleOf", "minimum", "maximum", "minItems", "maxItems"}) | {
    "exclusiveMinimum",
    "exclusiveMaximum",
}
LOOSE: Final = SHAPE | BOUNDS | {"default", "minLength", "maxLength", "allOf", "oneOf", "examples", "uniqueItems"}
"""The words of JSON Schema that everybody knows; others, such as our own, mean nothing to a provider."""


class Broken(Exception):
    """A rule of the provider is broken; the sentence is the provider's."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


def check(provider: Provider, request: Request) -> None:
    """Take the request, or raise the rule that it breaks."""
    asked: dict[str, Any] = request.get_json()
    _RULES[provider](request, asked)


# --- schemas ---------------------------------------------------------------------------------------------


def nodes(schema: Any, path: str = "") -> Iterator[tuple[str, Schema, int]]:
    """Every schema within a schema, with its path and the objects that it is nested in."""
    yield from _nodes(schema, path, 0)


def _nodes(schema: Any, path: str, depth: int) -> Iterator[tuple[str, Schema, int]]:
    if not isinstance(schema, dict):
        return
    yield path, schema, depth
    inside = depth + (schema.get("type") == "object")
    for word in ("properties", "$defs"):
        for name, inner in schema.get(word, {}).items():
            yield from _nodes(inner, f"{path}/{word}/{name}", inside)
    for word in ("items", "additionalProperties"):
        yield from _nodes(schema.get(word), f"{path}/{word}", inside)
    for word in ("anyOf", "allOf", "oneOf"):
        for at, inner in enumerate(schema.get(word, ())):
            yield from _nodes(inner, f"{path}/{word}/{at}", inside)


def loose(schema: Schema) -> None:
    """A schema that is only shown to the model: no provider refuses what it does not know, and no model gains by it."""
    _only(schema, LOOSE)


def _only(schema: Schema, words: Collection[str]) -> None:
    for path, node, _ in nodes(schema):
        if unknown := sorted(set(node) - set(words)):
            raise Broken(f"In context={path or '()'}, {unknown[0]!r} is not permitted.")


@dataclass(frozen=True)
class StrictRules:
    """The rules of OpenAI's strict mode; those of Azure are the same with less of everything."""

    words: frozenset[str]
    most_properties: int
    deepest: int
    most_enum_values: int

    def __call__(self, schema: Schema) -> None:
        if schema.get("type") != "object" or "anyOf" in schema:
            raise Broken("schema must be a JSON Schema of 'type: \"object\"'.")
        _only(schema, self.words)
        for path, node, depth in nodes(schema):
            _closed(path, node)
            if depth > self.deepest:
                raise Broken(f"{depth} levels of nesting exceeds limit of {self.deepest}.")
        every = [node for _, node, _ in nodes(schema)]
        if sum(len(node.get("properties", ())) for node in every) > self.most_properties:
            raise Broken(f"Schema exceeds limit of {self.most_properties} properties.")
        if sum(len(node.get("enum", ())) for node in every) > self.most_enum_values:
            raise Broken(f"Schema exceeds limit of {self.most_enum_values} enum values.")


def _closed(path: str, node: Schema) -> None:
    """What each schema must be in strict mode."""
    where = f"In context={path or '()'}"
    if not {"type", "anyOf", "$ref", "const"} & set(node):
        raise Broken(f"{where}, schema must have a 'type' key.")
    first_keys(where, [each for each in node.get("anyOf", ()) if each.get("type") == "object"])
    if "$ref" in node and len(node) > 1:
        raise Broken(f"{where}, $ref cannot have keywords {set(node) - {'$ref'}}.")
    if node.get("type") == "array" and not isinstance(node.get("items"), dict):
        raise Broken(f"{where}, array schema missing items.")
    if node.get("type") == "object":
        if node.get("additionalProperties") is not False:
            raise Broken(f"{where}, 'additionalProperties' is required to be supplied and to be false.")
        if missing := sorted(set(node.get("properties", ())) ^ set(node.get("required", ()))):
            raise Broken(f"{where}, 'required' must include every key in properties. Missing {missing[0]!r}.")


def first_keys(where: str, alternatives: list[Schema]) -> None:
    """Objects of which one is chosen must be told apart by their first member: by its name, or by its value."""
    firsts = [next(iter(each.get("properties", {"": {}}).items())) for each in alternatives]
    known: list[tuple[str, frozenset[Any]]] = []
    for name, member in firsts:
        values = frozenset(member.get("enum", ()))
        if any(name == other and not (values and others and values.isdisjoint(others)) for other, others in known):
            raise Broken(f"{where}, Objects provided via 'anyOf' must not share identical first keys.")
        known.append((name, values))


openai_strict: Final = StrictRules(SHAPE | BOUNDS, most_properties=5_000, deepest=10, most_enum_values=1_000)
azure_strict: Final = StrictRules(SHAPE, most_properties=100, deepest=5, most_enum_values=500)

MOST_OPTIONAL: Final = 24
MOST_UNIONS: Final = 16


def anthropic_strict(schema: Schema) -> None:
    """Anthropic's structured outputs: closed objects without bounds, few optional fields, few unions."""
    _only(schema, SHAPE | {"allOf", "default", "format", "minItems"})
    optional = unions = 0
    for path, node, _ in nodes(schema):
        if not {"type", "anyOf", "allOf", "$ref", "enum", "const"} & set(node):
            raise Broken(f"output_config.format.schema{path}: Schema type is missing")
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            raise Broken(f"For 'object' type, 'additionalProperties' must be explicitly set to false ({path})")
        if node.get("minItems", 0) not in (0, 1):
            raise Broken(f"For 'array' type, 'minItems' values other than 0 or 1 are not supported ({path})")
        optional += len(set(node.get("properties", ())) - set(node.get("required", ())))
        unions += sum("anyOf" in inner for inner in node.get("properties", {}).values())
    if optional > MOST_OPTIONAL or unions > MOST_UNIONS:
        raise Broken(f"Schemas contains too many optional parameters ({optional}) or unions ({unions})")


# --- requests --------------------------------------------------------------------------------------------

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
CHAT_FIELDS: Final = frozenset({"model", "messages", "stream", "max_completion_tokens", "max_tokens", "tools"}) | {
    "tool_choice",
    "response_format",
    "parallel_tool_calls",
    "store",
    "n",
    "stop",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
}
RESPONSES_FIELDS: Final = frozenset({"model", "input", "instructions", "stream", "max_output_tokens", "tools"}) | {
    "tool_choice",
    "text",
    "parallel_tool_calls",
    "store",
    "include",
    "reasoning",
    "truncation",
}
MESSAGES_FIELDS: Final = frozenset({"model", "messages", "system", "stream", "max_tokens", "tools", "tool_choice"}) | {
    "output_config",
    "thinking",
}
LEAST_OUTPUT: Final = 16  # tokens that the Responses API wants to be allowed


def _bearer(request: Request) -> None:
    if not request.headers.get("Authorization", "").startswith("Bearer "):
        raise Broken("You didn't provide an API key.", 401)


def _fields(asked: Schema, known: Collection[str], sentence: str) -> None:
    if unknown := sorted(set(asked) - set(known)):
        raise Broken(sentence.format(unknown[0]))


def _chat(asked: Schema, strict: Callable[[Schema], None]) -> None:
    """A request for a chat completion, with the schema of its tool or of its answer."""
    _fields(asked, CHAT_FIELDS, "Unrecognized request argument supplied: {}")
    *before, last = [each["role"] for each in asked["messages"]]
    if last != "user" or set(before) - {"system", "developer"}:
        raise Broken("Invalid value for 'role'.")
    for tool in asked.get("tools") or ():
        _function(tool["function"], strict, told=tool["function"].get("strict"))
    if asked.get("tool_choice") not in (None, "auto", "none", "required"):
        raise Broken("Invalid value for 'tool_choice'.")
    if asked.get("tool_choice") and not asked.get("tools"):
        raise Broken("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
    form = asked.get("response_format") or {"type": "text"}
    _format(form["type"], form.get("json_schema", {}), str(asked["messages"]), strict)


def _function(function: Schema, strict: Callable[[Schema], None], told: bool | None) -> None:
    if not NAME.fullmatch(function["name"]):
        raise Broken("Invalid 'tools[0].function.name': string does not match pattern.")
    (strict if told else loose)(function["parameters"])


def _format(kind: str, told: Schema, messages: str, strict: Callable[[Schema], None]) -> None:
    if kind == "json_object" and "json" not in messages.lower():
        raise Broken("'messages' must contain the word 'json' in some form, to use 'json_object'.")
    if kind == "json_schema":
        if not NAME.fullmatch(told["name"]):
            raise Broken("Invalid 'name': string does not match pattern.")
        (strict if told.get("strict") else loose)(told["schema"])


def _openai(request: Request, asked: Schema) -> None:
    _bearer(request)
    _chat(asked, openai_strict)


def _responses(request: Request, asked: Schema) -> None:
    _bearer(request)
    _fields(asked, RESPONSES_FIELDS, "Unknown parameter: '{}'.")
    if asked.get("store") is not False:
        raise Broken("Zero data retention: 'store' must be false.")  # what an organisation may ask for, and we want
    if asked.get("max_output_tokens", LEAST_OUTPUT) < LEAST_OUTPUT:
        raise Broken("Invalid 'max_output_tokens': integer below minimum value.")
    for tool in asked.get("tools") or ():
        _function(tool, openai_strict, told=tool.get("strict", True))  # strict unless it says otherwise
    form = asked.get("text", {}).get("format") or {"type": "text"}
    _format(form["type"], form, str(asked["input"]), openai_strict)


def _azure(request: Request, asked: Schema) -> None:
    by_version = "/deployments/" in request.path  # and not the first version, which is asked as OpenAI is
    if by_version and not request.headers.get("api-key"):
        raise Broken("Access denied due to invalid subscription key or wrong API endpoint.", 401)
    if by_version and not request.args.get("api-version"):
        raise Broken("Resource not found", 404)
    if not by_version:
        _bearer(request)
    _chat(asked, azure_strict)


def _mistral(request: Request, asked: Schema) -> None:
    _bearer(request)
    _fields(asked, CHAT_FIELDS - {"max_completion_tokens", "store"}, "Extra inputs are not permitted: {}")
    if asked.get("tool_choice") not in (None, "auto", "none", "any", "required"):
        raise Broken("Input should be 'auto', 'none', 'any' or 'required'", 422)
    for tool in asked.get("tools") or ():
        _function(tool["function"], openai_strict, told=tool["function"].get("strict"))


def _ollama(_: Request, asked: Schema) -> None:
    # It takes any field and acts on those it knows, which a limit on the answer must be.
    _fields(asked, CHAT_FIELDS - {"max_completion_tokens"}, "nothing comes of {}")
    for tool in asked.get("tools") or ():
        _function(tool["function"], loose, told=False)
    form = asked.get("response_format") or {"type": "text"}
    _format(form["type"], form.get("json_schema", {}), "json", loose)  # becomes the grammar of the answer


def _anthropic(request: Request, asked: Schema) -> None:
    if not request.headers.get("x-api-key"):
        _bearer(request)
    if not request.headers.get("anthropic-version"):
        raise Broken("anthropic-version: header is required")
    _fields(asked, MESSAGES_FIELDS, "{}: Extra inputs are not permitted")
    if asked.get("max_tokens", 0) < 1:
        raise Broken("max_tokens: Field required")
    if [each["role"] for each in asked["messages"]] != ["user"]:
        raise Broken("messages: first message must use the user role")
    if asked.get("tool_choice", {"type": "auto"})["type"] not in ("auto", "any", "tool", "none"):
        raise Broken("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    for tool in asked.get("tools") or ():
        if tool["input_schema"].get("type") != "object":
            raise Broken("tools.0.custom.input_schema.type: Input should be 'object'")
        (anthropic_strict if tool.get("strict") else loose)(tool["input_schema"])
    form = asked.get("output_config", {}).get("format")
    if form is not None:
        anthropic_strict(form["schema"])


_RULES: Final[Mapping[Provider, Callable[[Request, Schema], None]]] = {
    "openai": _openai,
    "openai-responses": _responses,
    "azure": _azure,
    "mistral": _mistral,
    "anthropic": _anthropic,
    "ollama": _ollama,
}
