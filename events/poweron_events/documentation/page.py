"""`docs/events.md`: every event with its fields and an example, for people to read."""

import json
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from poweron_events import topics
from poweron_events.codec import encode, encode_request
from poweron_events.codes import CODES
from poweron_events.documentation.examples import EXAMPLES, SHA256, SOURCE, WORKFLOW
from poweron_events.documentation.glossary import AUTHORS
from poweron_events.documentation.schemas import DEAD_LETTER, PROGRESS, Json, json_schemas
from poweron_events.envelope import Cause, envelop, source
from poweron_events.event import Event
from poweron_events.outcome import AnswerRejected, RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.request import MAX_INLINE_DOCUMENT, NAMESPACE, RequestRefused, RequestWorkflow
from poweron_events.reservation import CallReserved
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS

TIME: Final = "2026-11-21T00:00:01.000Z"

_PAGE: Final = f"""\
# The events

<!-- Made by `uv run python -m poweron_events.documentation`; a test compares. -->

Everything that PowerOn does is an event on the topic `{topics.EVENTS.name}`, under the workflow's id as key.
Whoever wants work done sends a request to `{topics.REQUESTS.name}`.
A record that nobody can read is kept on `{topics.DEAD_LETTERS.name}`, with the reason.
How far long work is, is told on `{topics.PROGRESS.name}` for an hour; nothing depends on that.

A record's value is a CloudEvent 1.0 in structured mode.
Its JSON is canonical (sorted keys, no spaces, UTF-8), because hashes are over the bytes as they stand.
`subject`, `correlationid` and the record's key are the workflow id.
`id` is uuid5 of `{NAMESPACE}` and `workflow id|round|task|attempt|step|type|try`: the same work has the same id.
What an event does not have is 0.
An event that names a `request` has that one's `source|id` in place of the try, `{CallReserved.TYPE}` its `reservation`.
`{AnswerRejected.TYPE}` has its `type|stage` in place of the type.
`causationid` and `causationhash` name the accepted event that was acted upon.
The first event in offset order that fits is *accepted*; any other is *superseded* and stays in the log without effect.
Times that count are the broker's; `time` is the writer's clock.

Fields marked *free text* hold what a person or a model wrote.
Scores are whole numbers from 0 to 1000, money is in nano-dollars, durations are in ms.
Readers ignore fields that they do not know; writers write no others than these.
"""


_CLIENT: Final = f"""
## A client of your own

A request is a CloudEvent 1.0.
In structured mode all of it is the record's value.
In binary mode the attributes are headers with the prefix `ce_`, and the value is the data alone.
The pair of `source` and `id` makes it one request, however often it is sent.
The workflow that it opens has the id uuid5 of `{NAMESPACE}` and `source|id`.
It is the key of all its events, which are in one partition, in their order.
Any key will do for a request; that id keeps requests about one workflow in order.
A cancellation overtakes those that still wait.
Records are compressed with Zstandard, so a reader needs that codec (`pip install "aiokafka[zstd]"`).
The Kafka that `poweron up` starts lets in only who has its password.
`poweron status` prints the lines that set these variables for it.

```python
import asyncio, json, os, uuid
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

KAFKA = {{
    "bootstrap_servers": os.environ.get("POWERON_KAFKA", "localhost:9092"),
    "security_protocol": os.environ.get("POWERON_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT"),
    "sasl_mechanism": os.environ.get("POWERON_KAFKA_SASL_MECHANISM", "PLAIN"),
    "sasl_plain_username": os.environ.get("POWERON_KAFKA_SASL_USERNAME"),
    "sasl_plain_password": os.environ.get("POWERON_KAFKA_SASL_PASSWORD"),
}}
PREFIX = os.environ.get("POWERON_KAFKA_PREFIX", "")
REQUESTS, EVENTS = PREFIX + "{topics.REQUESTS.name}", PREFIX + "{topics.EVENTS.name}"
SOURCE, ID = "/crm/offers", os.environ.get("OFFER", "4715")
WORKFLOW = str(uuid.uuid5(uuid.UUID("{NAMESPACE}"), f"{{SOURCE}}|{{ID}}"))
HEADERS = {{"ce_specversion": "1.0", "ce_type": "{RequestWorkflow.TYPE}", "ce_source": SOURCE, "ce_id": ID}}
ENDS = {{{", ".join(f'"{end.TYPE}"' for end in (RoundCompleted, RoundFailed, RoundCancelled, RequestRefused))}}}

async def main() -> None:
    async with (
        AIOKafkaProducer(**KAFKA) as requests,
        AIOKafkaConsumer(EVENTS, **KAFKA, auto_offset_reset="earliest") as events,
    ):
        data = json.dumps({{"prompt": "Write a greeting."}}).encode()
        headers = [(name, value.encode()) for name, value in HEADERS.items()]
        await requests.send_and_wait(REQUESTS, data, headers=headers)
        async for record in events:
            if record.key == WORKFLOW.encode():
                event = json.loads(record.value)
                print(event["type"], event["data"].get("message", ""))
                if event["type"] in ENDS:
                    return

asyncio.run(main())
```
"""

_CODES: Final = """
## Codes

Why something stopped, failed or was rejected, beside the sentence that says it to people: count these, branch on these.
The set is open: a newer release, or an action from elsewhere, may write others.
"""


def events_page() -> str:
    """Return the page: all events and requests, each with its fields and an example."""
    examples = {type(example): example for example in EXAMPLES}
    schemas = json_schemas()
    parts: dict[str, Json] = {}
    for schema in schemas.values():
        parts.update(schema.get("$defs", {}))
    sections = [
        _PAGE,
        _CLIENT,
        f"\n## Requests: what anyone may send to `{topics.REQUESTS.name}`\n",
        *(_section(event, schemas[event.TYPE], examples[event]) for event in REQUESTS.values()),
        f"\n## Events: what PowerOn writes to `{topics.EVENTS.name}`\n",
        *(_section(event, schemas[event.TYPE], examples[event]) for event in WORKFLOW_EVENTS.values()),
        f"\n## Dead letters: what is kept on `{topics.DEAD_LETTERS.name}`\n",
        _titled(f"`{DEAD_LETTER}`", schemas[DEAD_LETTER]),
        f"\n## Progress: what is told on `{topics.PROGRESS.name}`\n",
        _titled(f"`{PROGRESS}`", schemas[PROGRESS]),
        _codes(),
        "\n## Values: what stands inside the fields above\n",
        *(_titled(name, parts[name]) for name in sorted(parts)),
    ]
    return "".join(sections)


def _codes() -> str:
    rows = [f"| `{code}` | {explained.meaning} | {explained.remedy} |" for code, explained in sorted(CODES.items())]
    return "\n".join([_CODES, "| code | what it means | what to do |", "|---|---|---|", *rows]) + "\n"


def _section(event: type[Event], schema: Json, example: Event) -> str:
    authors = " or ".join(AUTHORS.get(event.__name__, ("anyone",)))
    by = f"Written by {'' if authors == 'anyone' else 'the ' if authors != 'intake' else ''}{authors}"
    record = json.dumps(orjson.loads(_example_record(example)), indent=2, ensure_ascii=False)
    return (
        f"\n### {event.__name__}\n\n`{event.TYPE}`\n\n{schema['description']}\n{by}.\n\n{_table(schema)}"
        f"\n```json\n{record}\n```\n"
    )


def _titled(title: str, schema: Json) -> str:
    return f"\n### {title}\n\n{schema['description']}\n\n{_table(schema)}"


def _example_record(example: Event) -> bytes:
    if example.TYPE in REQUESTS:
        return encode_request(example, source=SOURCE, request_id="4711", time=TIME)  # type: ignore[arg-type] # just asked
    author = AUTHORS[type(example).__name__][0]
    cause = None if author == "intake" else Cause("01900000-0000-5000-8000-000000000001", SHA256, 41)
    envelope = envelop(
        example,  # type: ignore[arg-type] # every example that is no request is an event
        workflow_id=WORKFLOW,
        source=source(author, "host-7-1a2b3c4d"),
        time=TIME,
        cause=cause,
    )
    return encode(envelope)


def _table(schema: Json) -> str:
    rows = [
        f"| `{field}` | {_kind(value)} | {_need(field, value, schema)} | {value['description']} |"
        for field, value in schema.get("properties", {}).items()
    ]
    return "\n".join(["| field | type | given | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _need(field: str, value: Json, schema: Json) -> str:
    if field in schema.get("required", ()):
        return "always"
    default = value.get("default")
    if default in (None, "", [], {}) or isinstance(default, dict):
        return "optional"
    return f"else `{json.dumps(default)}`"


def _kind(value: Json) -> str:
    """Describe in words what a field holds."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value or "oneOf" in value:
        kinds = [_kind(one) for one in value.get("anyOf") or value["oneOf"]]
        return " or ".join(kinds)
    if "const" in value or "enum" in value:
        return " or ".join(f"`{one}`" for one in value.get("enum", [value.get("const")]))
    return _KINDS[value.get("type", "any")](value)


def _text_kind(value: Json) -> str:
    words = ["free text" if value.get("freeText") else "text"]
    words += [f"at most {value['maxLength']} characters"] if "maxLength" in value else []
    words += ["64 hex digits"] if value.get("pattern", "").endswith("{64}$") else []
    words += [f"base64 of at most {MAX_INLINE_DOCUMENT} bytes"] if value.get("format") == "base64" else []
    return ", ".join(words)


def _number_kind(value: Json) -> str:
    most = value.get("maximum")
    return f"whole number from {value.get('minimum', 0)}" + (
        f" to {most}" if most is not None and most < 10**10 else ""
    )


def _list_kind(value: Json) -> str:
    most = f", at most {value['maxItems']}" if "maxItems" in value else ""
    return f"list of {_kind(value['items'])}{most}"


def _object_kind(value: Json) -> str:
    inner = value.get("additionalProperties")
    return f"{_kind(inner)}, by name" if isinstance(inner, dict) and inner else "any values, by name"


def _plain(word: str) -> Callable[[Json], str]:
    return lambda _: word


_KINDS: Final[Mapping[str, Callable[[Json], str]]] = {
    "string": _text_kind,
    "integer": _number_kind,
    "array": _list_kind,
    "object": _object_kind,
    "boolean": _plain("true or false"),
    "null": _plain("null"),
    "any": _plain("any value"),
}
