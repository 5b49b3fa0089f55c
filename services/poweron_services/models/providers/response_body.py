"""The body of a provider's answer: read and decompressed within a limit, with harmless slips corrected.

Client libraries fail on a `model` that is null or a token count that is text, although the answer is there. Such fields
are corrected before a library reads the body. If a body cannot be corrected, the error says why.
"""

import json
import zlib
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from math import ceil, isfinite
from typing import Any, Final, cast

import httpx2

MAX_BODY: Final = 4_000_000  # bytes, also after decompression
CHUNK: Final = 65_536  # bytes that are decompressed at a time
PLAIN: Final = frozenset({"", "identity"})
COMPRESSED: Final = frozenset({"gzip", "x-gzip", "deflate"})
STATUSES: Final = {
    "authentication_error": 401,
    "billing_error": 402,
    "context_length_exceeded": 400,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "3051": 400,
}
"""The statuses for the codes and types of errors, for an error that comes with a status of success."""


class ResponseTooLarge(httpx2.TransportError):
    """The answer is longer than `MAX_BODY`."""


class UnreadableResponse(httpx2.TransportError):
    """The answer cannot be decompressed, or has the wrong form; the text says why."""


async def read_body(response: httpx2.Response) -> bytes:
    """Read the whole body, decompressed.

    Raises:
        ResponseTooLarge: it is longer than `MAX_BODY`.
        UnreadableResponse: it is compressed in a way that was not requested, or is damaged.
    """
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in PLAIN | COMPRESSED:
        raise UnreadableResponse(f"it is compressed by {encoding[:20]!r}, which was not asked for")
    stream = cast("httpx2.AsyncByteStream", response.stream)
    raw = await _bounded(stream)
    await stream.aclose()
    if encoding in PLAIN or not raw:
        return raw
    try:
        return _decompress(raw, encoding)
    except zlib.error:
        raise UnreadableResponse(f"it is not the {encoding} that it is said to be") from None


async def _bounded(chunks: AsyncIterable[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_BODY:
            raise ResponseTooLarge(f"longer than {MAX_BODY} bytes")
    return bytes(body)


def _decompress(raw: bytes, encoding: str) -> bytes:
    """Decompress gzip or deflate; some servers send deflate without the header of zlib."""
    has_header = raw[0] & 0x0F == zlib.DEFLATED
    bits = zlib.MAX_WBITS | 16 if encoding != "deflate" else zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
    decoder, body, left = zlib.decompressobj(bits), bytearray(), raw
    while not decoder.eof and (left or not body):
        body += (piece := decoder.decompress(left, CHUNK))
        if len(body) > MAX_BODY:
            raise ResponseTooLarge(f"longer than {MAX_BODY} bytes")
        left = decoder.unconsumed_tail
        if not piece and not left:
            break
    if not decoder.eof:
        raise UnreadableResponse(f"its {encoding} breaks off")
    return bytes(body)


def parsed(body: bytes) -> Any:
    """Parse a body as JSON; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def corrected(body: bytes, request: bytes) -> bytes:
    """Correct the fields of a body on which client libraries would fail.

    Args:
        body: JSON; anything else is returned unchanged.
        request: the body of the request, which names the model.

    Raises:
        UnreadableResponse: the answer does not have the form of its interface and could mean anything.
    """
    answer = parsed(body)
    if not isinstance(answer, dict) or not any(name in answer for name in ANSWERS):
        return body
    result = {**answer, "usage": _usage(answer)}
    if not isinstance(answer.get("model"), str):
        result["model"] = (parsed(request) or {}).get("model") or ""
    for name, entry in ANSWERS.items():
        if name in answer:
            result[name] = [entry(item) for item in _entries(answer[name], name) if item not in (None, "")]
    if "choices" in answer:
        result |= _chat(result)
    return json.dumps(result).encode()


def _entries(value: Any, name: str) -> list[Any]:
    """Return the entries of a field that holds a list; a text is one entry, null is none."""
    if value is None:
        return []
    if isinstance(value, str) and name != "choices":
        return [value]
    if not isinstance(value, list):
        raise _wrong(name, value, "a list")
    return value


def _choice(choice: Any) -> dict[str, Any]:
    """Correct a choice of a chat completion; without a message it is empty."""
    fields = _object(choice, "choices")
    message = {"role": "assistant", "content": ""} if fields.get("message") is None else fields["message"]
    message = dict(_object(message, "message"))
    if isinstance(message.get("content"), dict):
        message["content"] = json.dumps(message["content"])
    if isinstance(message.get("tool_calls"), list):
        message["tool_calls"] = [_tool_call(call) for call in message["tool_calls"]]
    return {"index": 0, "finish_reason": "stop", **fields, "message": message}


def _tool_call(call: Any) -> Any:
    """Correct a call of the tool that takes the answer: its arguments become text."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), dict):
        return call
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"])}}


def _block(block: Any) -> dict[str, Any]:
    """Correct a block of an Anthropic answer."""
    return _with_text({"type": "text", "text": block} if isinstance(block, str) else _object(block, "content"))


def _item(item: Any) -> dict[str, Any]:
    """Correct an item of a Responses answer: a message has a list of parts, a call its arguments as text."""
    fields = {"type": "message", "content": item} if isinstance(item, str) else _object(item, "output")
    if isinstance(fields.get("arguments"), dict):
        return {**fields, "arguments": json.dumps(fields["arguments"])}
    if fields.get("type") != "message":
        return fields
    parts = [_part(part) for part in _entries(fields.get("content"), "content") if part not in (None, "")]
    return {"id": "", "role": "assistant", "status": "completed", **fields, "content": parts}


def _part(part: Any) -> dict[str, Any]:
    fields = {"text": part} if isinstance(part, str) else _object(part, "content")
    return _with_text({"type": "output_text", "annotations": [], **fields})


def _with_text(fields: dict[str, Any]) -> dict[str, Any]:
    """Correct the text of a part of an answer: null becomes an empty text."""
    if fields.get("type") not in ("text", "output_text"):
        return fields
    text = fields.get("text")
    if isinstance(text, dict):
        return {**fields, "text": json.dumps(text)}
    if text is not None and not isinstance(text, str):
        raise _wrong("text", text, "text")
    return {**fields, "text": text or ""}


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(name, value, "an object")
    return value


def _wrong(name: str, value: Any, expected: str) -> UnreadableResponse:
    """Return the error for a field of the wrong form, without a word of the answer itself."""
    kind = {str: "text", list: "a list", dict: "an object", bool: "a truth value"}.get(type(value), "a number")
    return UnreadableResponse(f"it is JSON, but its {name!r} holds {kind} where {expected} belongs")


ANSWERS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "choices": _choice,
    "content": _block,
    "output": _item,
}
"""The fields that hold the answer of chat completions, Anthropic and Responses, and how their entries are corrected."""


def _chat(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a chat completion that no answer depends on, and an empty answer if there is no choice."""
    nothing = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ""}}
    return {
        "id": answer["id"] if isinstance(answer.get("id"), str) else "",
        "object": "chat.completion",
        "created": answer["created"] if type(answer.get("created")) is int else 0,
        "choices": answer["choices"] or [nothing],
    }


def _usage(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the usage with whole numbers only; a count that is not reported is zero, and estimated later."""
    counts = _counts(answer["usage"]) if isinstance(answer.get("usage"), dict) else {}
    chat = "choices" in answer
    names = ("prompt_tokens", "completion_tokens") if chat else ("input_tokens", "output_tokens")
    usage = dict.fromkeys(names, 0) | counts
    if chat or "output" in answer:
        usage.setdefault("total_tokens", usage[names[0]] + usage[names[1]])
    if "output" in answer:
        for name, count in (("input_tokens_details", "cached_tokens"), ("output_tokens_details", "reasoning_tokens")):
            usage[name] = {count: 0} | usage.get(name, {})
    return usage


def _counts(usage: dict[str, Any]) -> dict[str, Any]:
    """Return each count of tokens as a whole number, even if it is written as text; drop invalid counts."""
    counts: dict[str, Any] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            counts[name] = _counts(value)
        elif name.endswith("tokens"):
            if (count := _count(value)) is not None:
                counts[name] = count
        elif value is not None and not isinstance(value, list) and not name.endswith("_details"):
            counts[name] = value
    return counts


def _count(value: object) -> int | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return ceil(value) if value >= 0 else None


def error_status(body: bytes) -> int | None:
    """Return the status of an error that came with a status of success; None if the body is not an error."""
    answer = parsed(body)
    if not isinstance(answer, dict) or answer.get("object") == "response" or any(answer.get(name) for name in ANSWERS):
        return None  # a failed Responses answer reports its own failure
    error = answer.get("error") or (answer if "error" in (answer.get("object"), answer.get("type")) else None)
    if not error:
        return None
    known = _status_names(error) if isinstance(error, dict) else ()
    return next((status for name in known if (status := _status(name)) is not None), 500)


def _status_names(error: dict[str, Any]) -> Iterable[str]:
    return (str(error[name]) for name in ("code", "type", "status") if error.get(name))


def _status(name: str) -> int | None:
    """Return the status for a code or a type; gateways write the status itself as the code."""
    if name.isdecimal() and len(name) == 3 and 400 <= int(name) < 600:
        return int(name)
    return STATUSES.get(name)


def why_unreadable(body: bytes, content_type: str) -> str:
    """Say why no client library can read the body, as the end of a sentence, without a word of the body itself."""
    start = body.lstrip()[:200].lower()
    if not start:
        return "it is empty"
    if "event-stream" in content_type or start.startswith((b"data:", b"event:")):
        return "it is a stream of events, where one answer as JSON was asked for"
    if start.startswith(b"<") or "html" in content_type:
        return "it is a page of HTML; a proxy or a login page may answer in place of the provider"
    if parsed(body) is None and start not in (b"null", b"null\n"):
        kind = "JSON that breaks off or is damaged" if start.startswith((b"{", b"[")) else "no JSON"
        return f"it is {kind}, {len(body):,} bytes long"
    return "it is JSON, but not in the form of this provider's interface"
