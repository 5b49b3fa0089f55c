"""Odd answers of providers: each is used where it can be read in one way only, or reported with its cause."""

import gzip
import json
import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, get_args

import pytest
from providers import MODELS, Playing, answer, as_json, error_body, opened
from pytest_httpserver import HTTPServer
from test_providers import PLAN, planning
from werkzeug import Response

from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_services.models.answers import PlanningAnswer, parse
from poweron_services.models.chat_model import Completion, TooLong, UnreadableAnswer
from poweron_services.models.providers.http_client import WRAPPING
from poweron_services.settings.config import Provider

pytestmark = pytest.mark.usefixtures("one_ssl_context")

EVERY: list[Provider] = list(get_args(Provider))
every = pytest.mark.parametrize("provider", EVERY)
SHARE = 3  # of all combinations of providers and cases, one in so many is tested in every run
Change = Callable[[dict[str, Any]], Any]
Compress = Callable[[bytes], bytes]


def each(names: str, cases: Iterable[Any], *, ids: Sequence[str] | None = None) -> pytest.MarkDecorator:
    """Every case with some providers, every provider with some cases; all of them together under soak."""
    listed, params = list(cases), []
    for number, case in enumerate(listed):
        for place, provider in enumerate(EVERY):
            marks = [] if (number + place) % SHARE == 0 else [pytest.mark.soak]
            values = case if isinstance(case, tuple) else (case,)
            name = ids[number] if ids else getattr(case, "__name__", str(case))
            params.append(pytest.param(provider, *values, marks=marks, id=f"{provider}-{name}"))
    return pytest.mark.parametrize(f"provider,{names}", params)


async def completed(
    server: HTTPServer, provider: Provider, respond: Callable[[dict[str, Any]], Response]
) -> Completion:
    Playing(server, provider, [respond])
    async with aclosing(opened(server, provider, model_price=f"{provider}:{MODELS[provider]}=1,3")) as model:
        return await model.complete(planning())


def changed(provider: Provider, asked: dict[str, Any], **changes: Any) -> Response:
    return as_json(answer(provider, PLAN, asked, **changes))


def counting(provider: Provider, asked: dict[str, Any], count: Change) -> Response:
    """An answer whose counts of tokens are written otherwise."""
    usage = answer(provider, PLAN, asked)["usage"]
    counts = {name: count(value) if isinstance(value, int) else value for name, value in usage.items()}
    return changed(provider, asked, usage=counts)


# --- what is read all the same ----------------------------------------------------------------------------


@each("model", [None, 7, {}, []])
async def test_an_answer_without_the_name_of_its_model_is_used(
    provider: Provider, model: object, httpserver: HTTPServer
) -> None:
    completion = await completed(httpserver, provider, lambda asked: changed(provider, asked, model=model))
    assert completion.refusal is None
    assert parse(completion.text, PlanningAnswer)
    assert completion.model == MODELS[provider]


@each("count", [float, str, lambda count: f"{count}.0"], ids=["float", "text", "text of a float"])
async def test_counts_that_are_written_otherwise_are_read(
    provider: Provider, count: Change, httpserver: HTTPServer
) -> None:
    completion = await completed(httpserver, provider, lambda asked: counting(provider, asked, count))
    assert (completion.input_tokens, completion.output_tokens) == (1_000, 20)
    assert (completion.refusal, completion.usage_estimated) == (None, False)


def _raw_deflate(body: bytes) -> bytes:
    return zlib.compress(body, wbits=-zlib.MAX_WBITS)


@each(
    "name,compress",
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", _raw_deflate)],
    ids=["gzip", "x-gzip", "deflate", "raw deflate"],
)
async def test_an_answer_that_is_compressed_unasked_is_read(
    provider: Provider, name: str, compress: Compress, httpserver: HTTPServer
) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": name}
    completion = await completed(
        httpserver,
        provider,
        lambda asked: Response(compress(json.dumps(answer(provider, PLAN, asked)).encode()), 200, headers),
    )
    assert parse(completion.text, PlanningAnswer)
    assert completion.input_tokens == 1_000


@each("answered", [None, [], [None]], ids=["null", "an empty list", "a list of null"])
async def test_an_answer_of_nothing_is_that_in_every_form(
    provider: Provider, answered: object, httpserver: HTTPServer
) -> None:
    name = {"anthropic": "content", "openai-responses": "output"}.get(provider, "choices")
    completion = await completed(httpserver, provider, lambda asked: changed(provider, asked, **{name: answered}))
    assert completion.refusal is not None
    assert completion.refusal.code == "answer_empty"
    assert completion.input_tokens == 1_000


SAID = json.dumps(PLAN)


def in_chat(**message: Any) -> Change:
    return lambda _: {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}]}


def called_with(arguments: object) -> Change:
    call = {"id": "call00001", "type": "function", "function": {"name": "answer_plan", "arguments": arguments}}
    return in_chat(content=None, tool_calls=[call])


def in_blocks(*content: Any) -> Change:
    return lambda _: {"content": [*content]}


def in_parts(content: Any) -> Change:
    return lambda _: {"output": [{"id": "m", "type": "message", "role": "assistant", "content": content}]}


CHAT: list[Provider] = ["openai", "azure", "ollama", "mistral"]
READABLE: list[tuple[list[Provider], str, Change]] = [
    (CHAT, "an object as content", in_chat(content=PLAN)),
    (CHAT, "parts as content", in_chat(content=[{"type": "text", "text": SAID}])),
    (CHAT, "an object as arguments", called_with(PLAN)),
    (["anthropic"], "text as content", lambda _: {"content": SAID}),
    (["anthropic"], "text in the list", in_blocks(SAID)),
    (["anthropic"], "an object as text", in_blocks(None, {"type": "text", "text": PLAN})),
    (["openai-responses"], "text as output", lambda _: {"output": SAID}),
    (["openai-responses"], "text in the list", lambda _: {"output": [None, SAID]}),
    (["openai-responses"], "text as content", in_parts(SAID)),
    (["openai-responses"], "text as a part", in_parts([SAID])),
]
"""Answers in another form than their interface has, which can be read in one way only."""

EMPTY: list[tuple[list[Provider], str, Change]] = [
    (CHAT, "no message", lambda _: {"choices": [{"index": 0, "finish_reason": "stop", "message": None}]}),
    (CHAT, "null as content", in_chat(content=None)),
    (CHAT, "null in the list", lambda _: {"choices": [None]}),
    (["anthropic"], "null as text", in_blocks({"type": "text", "text": None})),
    (["anthropic"], "no text", in_blocks({"type": "text"})),
    (["openai-responses"], "null as content", in_parts(None)),
    (["openai-responses"], "null as text", in_parts([{"type": "output_text", "text": None}])),
]

MEANINGLESS: list[tuple[list[Provider], str, Change]] = [
    *((CHAT, repr(value), lambda _, value=value: {"choices": value}) for value in ("text", {"a": 1}, 7, [7], ["x"])),
    *((CHAT, f"message {value!r}", lambda _, value=value: {"choices": [{"message": value}]}) for value in ("x", 7, [])),
    (CHAT, "a number as content", in_chat(content=7)),
    *(
        (["anthropic"], repr(value), lambda _, value=value: {"content": value})
        for value in ({"a": 1}, 7, True, [7], [[]])
    ),
    (["anthropic"], "a number as text", in_blocks({"type": "text", "text": 7})),
    (["anthropic"], "another block", in_blocks({"type": "unknown"}, {})),
    *(
        (["openai-responses"], repr(value), lambda _, value=value: {"output": value})
        for value in ({"a": 1}, 7, [7], [[]])
    ),
    *((["openai-responses"], f"content {value!r}", in_parts(value)) for value in ({"a": 1}, 7, [7], [[]])),
    (["openai-responses"], "a number as text", in_parts([{"type": "output_text", "text": 7}])),
]


def forms(listed: list[tuple[list[Provider], str, Change]]) -> pytest.MarkDecorator:
    params = [
        pytest.param(provider, change, marks=[pytest.mark.soak] if place else [], id=f"{provider}-{name}")
        for providers, name, change in listed
        for place, provider in enumerate(providers)
    ]
    return pytest.mark.parametrize(("provider", "change"), params)


@forms(READABLE)
async def test_an_answer_in_another_form_is_read(provider: Provider, change: Change, httpserver: HTTPServer) -> None:
    completion = await completed(httpserver, provider, lambda asked: changed(provider, asked, **change({})))
    assert completion.refusal is None
    assert json.loads(completion.text) == PLAN


@forms(EMPTY)
async def test_an_answer_without_text_is_empty(provider: Provider, change: Change, httpserver: HTTPServer) -> None:
    completion = await completed(httpserver, provider, lambda asked: changed(provider, asked, **change({})))
    assert completion.refusal is not None
    assert (completion.refusal.code, completion.input_tokens) == ("answer_empty", 1_000)


@pytest.mark.req("B-01")
@forms(MEANINGLESS)
async def test_an_answer_that_could_mean_anything_is_unreadable_and_its_usage_counts(
    provider: Provider, change: Change, httpserver: HTTPServer
) -> None:
    completion = await completed(httpserver, provider, lambda asked: changed(provider, asked, **change({})))
    assert isinstance(completion.refusal, UnreadableAnswer)
    assert (completion.refusal.code, completion.input_tokens, completion.text) == ("model_misconfigured", 1_000, "")


# --- usage that is not reported ---------------------------------------------------------------------------


UNREPORTED: dict[str, Change] = {
    "missing": lambda _: ...,
    "null": lambda _: None,
    "a list": lambda _: [],
    "text": lambda _: "many",
    "empty": lambda _: {},
    **{
        f"counts of {count!r}": lambda usage, count=count: dict.fromkeys(usage, count)  # type: ignore[misc]
        for count in (0, -5, None, "many", True, 1, float("nan"))
    },
}


@pytest.mark.req("B-01")
@each("kind", UNREPORTED)
async def test_usage_that_is_not_reported_or_cannot_be_is_estimated_from_above(
    provider: Provider, kind: str, httpserver: HTTPServer
) -> None:
    bodies = []

    def respond(asked: dict[str, Any]) -> Response:
        body = answer(provider, PLAN, asked)
        usage = UNREPORTED[kind](body.pop("usage"))
        bodies.append(json.dumps(body))
        return as_json(body if usage is ... else body | {"usage": usage})

    completion = await completed(httpserver, provider, respond)
    assert parse(completion.text, PlanningAnswer)
    assert completion.sent is not None
    assert completion.usage_estimated
    assert completion.input_tokens == len(completion.sent) + WRAPPING
    assert len(completion.text) <= completion.output_tokens <= len(bodies[0]) + 400
    assert completion.cost_nano_usd == completion.input_tokens * 1_000 + completion.output_tokens * 3_000


@pytest.mark.req("B-01")
@every
async def test_what_is_reported_plausibly_is_no_estimate(provider: Provider, httpserver: HTTPServer) -> None:
    completion = await completed(httpserver, provider, lambda asked: changed(provider, asked))
    assert (completion.input_tokens, completion.output_tokens, completion.usage_estimated) == (1_000, 20, False)


# --- what is reported -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def elsewhere() -> Generator[HTTPServer, None, None]:
    """A server that nobody may ask: it takes a second to stop, so there is one for all."""
    with HTTPServer() as server:
        yield server


@pytest.mark.req("S27")
@each("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_reported_and_nobody_else_gets_the_key(
    provider: Provider, status: int, httpserver: HTTPServer, elsewhere: HTTPServer
) -> None:
    place = elsewhere.url_for("/v1/chat/completions")
    with pytest.raises(Refused, match=rf"answered with a redirect \({status}\) to 'localhost', which is not") as raised:
        await completed(httpserver, provider, lambda _: Response("", status, {"Location": place}))
    assert raised.value.code == "model_misconfigured"
    assert elsewhere.log == []
    assert len(httpserver.log) == 1


IN_PLACE_OF_JSON = {
    "a stream of events": ("text/event-stream", b'data: {"choices": []}\n\ndata: [DONE]\n\n', "a stream of events"),
    "a page": ("text/html", b"<!doctype html><title>Log in</title>", "a page of HTML"),
    "half of it": ("application/json", b'{"id": "1", "choices": [{"mess', "JSON that breaks off or is damaged"),
    "words": ("text/plain", b"upstream connect error", "no JSON"),
    "nothing": ("application/json", b"", "empty"),
    "another interface": ("application/json", b'{"candidates": []}', "JSON, but not in the form"),
}


@pytest.mark.req("S42")
@each("name", IN_PLACE_OF_JSON)
async def test_what_came_in_place_of_json_is_named(provider: Provider, name: str, httpserver: HTTPServer) -> None:
    kind, body, said = IN_PLACE_OF_JSON[name]
    with pytest.raises(
        UnreadableAnswer, match=rf"^The answer of {provider}:\S+ could not be read: it is {said}"
    ) as raised:
        await completed(httpserver, provider, lambda _: Response(body, 200, {"Content-Type": kind}))
    assert raised.value.code == "model_misconfigured"


@pytest.mark.parametrize(
    ("encoding", "body", "said"),
    [
        ("br", b"\x0b\x02", "it is compressed by 'br', which was not asked for"),
        ("gzip", b"{}", "it is not the gzip that it is said to be"),
        ("gzip", gzip.compress(b"x" * 1_000, mtime=0)[:-20], "its gzip breaks off"),
    ],
    ids=["another", "not gzip", "half of it"],
)
async def test_what_cannot_be_decompressed_is_reported(
    encoding: str, body: bytes, said: str, httpserver: HTTPServer
) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    with pytest.raises(UnreadableAnswer, match=said):
        await completed(httpserver, "openai", lambda _: Response(body, 200, headers))


ERRORS: dict[str, tuple[Any, type[PowerOnError], str, str]] = {
    "overloaded": (
        {"type": "overloaded_error", "message": "Overloaded"},
        Unavailable,
        "model_unavailable",
        "Overloaded",
    ),
    "an unknown one": ({"message": "backend exploded"}, Unavailable, "model_unavailable", "backend exploded"),
    "only text": ("backend exploded", Unavailable, "model_unavailable", "backend exploded"),
    "a status as code": ({"code": 429, "message": "Slow down"}, Unavailable, "model_busy", "Slow down"),
    "the key": ({"code": "invalid_api_key", "message": "No"}, Refused, "model_access_denied", "does not let us in"),
    "the request": ({"type": "invalid_request_error", "message": "top_p"}, Refused, "model_refused", "top_p"),
    "the length": (
        {"code": "context_length_exceeded", "type": "invalid_request_error", "message": "Too many"},
        TooLong,
        "prompt_too_long",
        "is longer than what",
    ),
}


@each("name", ERRORS)
async def test_an_error_in_place_of_an_answer_means_the_same_with_status_200(
    provider: Provider, name: str, httpserver: HTTPServer
) -> None:
    error, kind, code, said = ERRORS[name]
    with pytest.raises(kind, match=said) as raised:
        await completed(httpserver, provider, lambda _: as_json({"error": error}))
    assert raised.value.code == code


@every
async def test_an_error_in_the_form_of_its_provider_is_one_with_status_200(
    provider: Provider, httpserver: HTTPServer
) -> None:
    with pytest.raises(Unavailable, match="has trouble of its own") as raised:
        await completed(httpserver, provider, lambda _: as_json(error_body(provider, "Out of order", "api_error")))
    assert raised.value.code == "model_unavailable"


LONG = {
    "by code": (400, "context_length_exceeded", "Too many"),
    "by size": (413, None, "Request Entity Too Large"),
    "in the words of OpenAI": (400, None, "This model's maximum context length is 8192 tokens."),
    "in the words of Anthropic": (400, None, "prompt is too long: 250000 tokens > 200000 maximum"),
    "in the words of Mistral": (400, "3051", "Prompt contains 40000 tokens, too large for model with 32768 maximum"),
    "in the words of llama.cpp": (400, None, "the request exceeds the available context size (4096 tokens)"),
    "of Ollama": (500, None, "input length exceeds the context length"),
    "as unprocessable": (422, None, "Input is too long for requested model."),
    "of a rate limit that no wait helps": (429, None, "Request too large for gpt-4 on tokens per min: Limit 10000"),
}


@pytest.mark.req("P-09")
@each("name", LONG)
async def test_a_prompt_that_is_too_long_is_known_in_every_form(
    provider: Provider, name: str, httpserver: HTTPServer
) -> None:
    status, code, said = LONG[name]
    with pytest.raises(TooLong) as raised:
        await completed(
            httpserver,
            provider,
            lambda _: as_json(error_body(provider, said, "invalid_request_error", code=code), status),
        )
    assert raised.value.code == "prompt_too_long"
