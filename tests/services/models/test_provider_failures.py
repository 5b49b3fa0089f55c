"""Whatever a provider does instead of answering becomes a sentence of ours; over the real client libraries."""

import gzip
import json
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, get_args

import pytest
from providers import KEY, Playing, answer, as_json, error_body, failing, known, opened, saying, sending
from pydantic import SecretStr
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs
from test_providers import PLAN, message, planning
from werkzeug import Response

from builders import Told, requested
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_services.decider.rules import allowance
from poweron_services.models import call
from poweron_services.models.answers import PlanningAnswer, Unacceptable, parse
from poweron_services.models.call import Called, Caller
from poweron_services.models.chat_model import Completion, TooLong, UnreadableAnswer
from poweron_services.models.providers import ProviderModel
from poweron_services.settings.config import Provider, Settings

pytestmark = pytest.mark.usefixtures("one_ssl_context")

EVERY: list[Provider] = list(get_args(Provider))
A_YEAR = 366 * 24 * 3_600
USAGE = {"prompt_tokens": 700, "completion_tokens": 8, "total_tokens": 708}
WORKFLOW = Told().tell(requested()).workflow
every = pytest.mark.parametrize("provider", EVERY)


async def completed(server: HTTPServer, provider: Provider, **settings: Any) -> Completion:
    async with aclosing(opened(server, provider, **settings)) as model:
        return await model.complete(planning())


async def called(server: HTTPServer, provider: Provider) -> Called:
    """What comes of asking until there is an answer, as every stage and action does."""
    async with aclosing(opened(server, provider)) as model:
        return await Caller(model, ContentStore.at("memory:///")).call(WORKFLOW, planning())


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "FIRST_PAUSE", 0.001)


async def refused(
    server: HTTPServer, provider: Provider, kind: type[PowerOnError] = Refused, code: str | None = None, **settings: Any
) -> str:
    """The sentence of the error, which names no setting of ours, since it may stand in an event."""
    with pytest.raises(kind) as raised:
        await completed(server, provider, **settings)
    assert type(raised.value) is kind
    assert code is None or raised.value.code == code
    assert not re.search(r"[A-Z]+_[A-Z_]+|`", str(raised.value))
    return str(raised.value)


# --- what may pass ---------------------------------------------------------------------------------------


@every
async def test_who_does_not_answer_in_time_is_not_there(provider: Provider, httpserver: HTTPServer) -> None:
    over = threading.Event()
    playing = Playing(httpserver, provider, [lambda _: (over.wait(10), Response(status=500))[1]])
    try:
        sentence = await refused(httpserver, provider, Unavailable, "model_timeout", model_timeout=1.5)
    finally:
        over.set()
    assert sentence.endswith(" did not answer in time.")
    assert len(playing.asked) == 1


@every
async def test_who_is_asked_too_often_is_asked_again_when_it_says(provider: Provider, httpserver: HTTPServer) -> None:
    busy = failing(provider, 429, "Slow down", **{"Retry-After": "1"})
    playing = Playing(httpserver, provider, [busy, saying(provider, PLAN)])
    began = time.monotonic()
    answered = await called(httpserver, provider)
    assert time.monotonic() - began >= 1
    assert (answered.call.tries, len(playing.asked)) == (2, 2)
    assert parse(answered.text, PlanningAnswer)


def in_an_hour() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)


@every
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Retry-After", lambda: "3600"),
        ("retry-after-ms", lambda: "3600000"),
        ("Retry-After", in_an_hour),
    ],
    ids=["seconds", "milliseconds", "date"],
)
async def test_when_a_provider_may_be_asked_again_is_known_in_every_form(
    provider: Provider, status: int, header: str, value: Callable[[], str], httpserver: HTTPServer
) -> None:
    Playing(httpserver, provider, [failing(provider, status, "Slow down", **{header: value()})])
    with pytest.raises(Unavailable) as raised:
        await completed(httpserver, provider)
    assert raised.value.retry_after == pytest.approx(3_600, abs=10)


@pytest.mark.parametrize("value", ["9" * 400, "1e400", "soon", "-1", "Mon, 01 Jan 9999 00:00:00 GMT"])
async def test_nonsense_about_when_to_ask_again_does_no_harm(value: str, httpserver: HTTPServer) -> None:
    Playing(httpserver, "openai", [failing("openai", 429, "Slow down", **{"Retry-After": value})])
    with pytest.raises(Unavailable) as raised:
        await completed(httpserver, "openai")
    assert raised.value.retry_after is None or 0 <= raised.value.retry_after <= A_YEAR


@pytest.mark.req("B-01")
@every
@pytest.mark.parametrize("status", [500, 200])
async def test_a_failure_that_was_paid_for_tells_its_tokens(
    provider: Provider, status: int, httpserver: HTTPServer
) -> None:
    usage = {"input_tokens": 700, "output_tokens": 8} if provider == "anthropic" else USAGE
    body = error_body(provider, "Out of order") | {"usage": usage}
    Playing(httpserver, provider, [lambda _: as_json(body, status)])
    completion = await completed(httpserver, provider)
    assert isinstance(completion.refusal, Unavailable)
    assert (completion.refusal.code, completion.input_tokens, completion.output_tokens) == ("model_unavailable", 700, 8)


@every
@pytest.mark.parametrize(("status", "said"), [(500, "Out of order"), (503, "Not now"), (529, "Overloaded")])
async def test_trouble_of_the_provider_is_told_as_that(
    provider: Provider, status: int, said: str, httpserver: HTTPServer
) -> None:
    """The last status is Anthropic's."""
    playing = Playing(httpserver, provider, [failing(provider, status, said)])
    sentence = await refused(httpserver, provider, Unavailable, "model_unavailable")
    assert f"has trouble of its own ({status}): {said}. The provider's status page," in sentence
    assert len(playing.asked) == 1  # the client libraries try nothing on their own


async def test_a_response_that_failed_is_trouble_of_the_provider_too(httpserver: HTTPServer) -> None:
    failed = {"status": "failed", "error": {"code": "server_error", "message": "Out of order."}, "output": []}
    Playing(httpserver, "openai-responses", [saying("openai-responses", "", **failed)])
    refusal = (await completed(httpserver, "openai-responses")).refusal
    assert isinstance(refusal, Unavailable)
    assert refusal.code == "model_unavailable"
    assert "has trouble of its own: server_error: Out of order. The provider's status page," in str(refusal)


@pytest.mark.req("B-01")
async def test_a_refusal_that_was_paid_for_tells_its_tokens_and_what_was_asked_is_kept(httpserver: HTTPServer) -> None:
    flagged = {"status": "failed", "error": {"code": "invalid_prompt", "message": "It was flagged."}, "output": []}
    Playing(httpserver, "openai-responses", [saying("openai-responses", "", **flagged)])
    made = await called(httpserver, "openai-responses")
    assert made.refusal is not None
    assert made.refusal.code == "answer_refused"
    assert (made.call.input_tokens, made.call.output_tokens) == (1_000, 20)
    assert made.call.prompt_ref is not None
    assert made.call.answer_ref is not None


@pytest.mark.usefixtures("short_pauses")
async def test_trouble_that_passes_costs_tries_only(httpserver: HTTPServer) -> None:
    Playing(httpserver, "openai", [failing("openai", 502, "Oops"), sending(b"<html>"), saying("openai", PLAN)])
    assert (await called(httpserver, "openai")).call.tries == 3


@every
async def test_who_cannot_be_reached_is_not_there(provider: Provider) -> None:
    nobody = HTTPServer()
    nobody.start()
    settings = known(nobody)
    nobody.stop()
    async with aclosing(ProviderModel(provider, "x", Settings(), settings)) as model:
        with pytest.raises(Unavailable, match=rf"^{provider}:x cannot be reached\.$") as raised:
            await model.complete(planning())
    assert raised.value.code == "model_unavailable"


# --- what does not pass ----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_key_is_refused(provider: Provider, status: int, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, provider, [failing(provider, status, f"Incorrect API key provided: {KEY}")])
    sentence = await refused(httpserver, provider, code="model_access_denied")
    assert f"{provider} does not let us in ({status}): its key is not valid, or may not use the model" in sentence
    assert len(playing.asked) == 1


@every
async def test_a_model_that_is_unknown_is_refused(provider: Provider, httpserver: HTTPServer) -> None:
    Playing(httpserver, provider, [failing(provider, 404, "No such model", code="model_not_found")])
    assert f"{provider} knows no model" in await refused(httpserver, provider, code="model_unknown")


@every
async def test_what_the_provider_refuses_is_told_as_it_says_it(provider: Provider, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, provider, [failing(provider, 400, "top_p is out of range")])
    assert "refused the request (400): top_p is out of range." in await refused(httpserver, provider)
    assert len(playing.asked) == 1


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
async def test_a_prompt_that_is_flagged_is_a_refusal_to_answer(provider: Provider, httpserver: HTTPServer) -> None:
    flagged = failing(provider, 400, "Invalid prompt: it was flagged.", code="invalid_prompt")
    playing = Playing(httpserver, provider, [flagged])
    sentence = await refused(httpserver, provider, code="answer_refused")
    assert sentence.endswith(f" would not answer (400): Invalid prompt: it was flagged. {OTHERWISE}")
    assert len(playing.asked) == 1


async def test_a_prompt_that_azure_filters_is_a_refusal_to_answer(httpserver: HTTPServer) -> None:
    filtered = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    body = error_body("azure", "The prompt was filtered.", code="content_filter")
    body["error"] |= {"status": 400, "innererror": filtered}
    playing = Playing(httpserver, "azure", [lambda _: as_json(body, 400)])
    completion = await completed(httpserver, "azure")
    assert completion.refusal is not None
    assert completion.refusal.code == "answer_refused"
    assert len(playing.asked) == 1


async def test_an_empty_account_is_not_asked_again(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "openai", [failing("openai", 429, "Pay first", code="insufficient_quota")])
    sentence = await refused(httpserver, "openai", code="model_quota_exceeded")
    assert sentence.endswith("has used up what it may spend (429): Pay first.")
    assert len(playing.asked) == 1


TOO_LONG: dict[Provider, tuple[str, str]] = {
    "openai": ("This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
    "anthropic": ("prompt is too long: 250000 tokens > 200000 maximum", ""),
    "ollama": ("the request exceeds the available context size (4096 tokens)", ""),
    "mistral": ("Prompt contains 40000 tokens, too large for model", "3051"),
}


@pytest.mark.req("P-09")
@pytest.mark.parametrize("provider", TOO_LONG)
async def test_a_prompt_that_is_too_long_is_told_apart(provider: Provider, httpserver: HTTPServer) -> None:
    said, code = TOO_LONG[provider]
    Playing(httpserver, provider, [failing(provider, 400, said, code=code)])
    assert "is longer than what" in await refused(httpserver, provider, TooLong)


# --- answers that are none -------------------------------------------------------------------------------

NESTED = "[" * 10_000 + "]" * 10_000
UNREADABLE = {
    "broken JSON": b'{"id": "chat_1", "choices": [{',
    "no JSON": b"<html>Bad gateway</html>",
    "invalid UTF-8": b'{"id": "\xff\xfe\xc3"}',
    "nesting of 10,000": NESTED.encode(),
    "nothing": b"",
    "null": b"null",
    "another object": b"{}",
    "wrong types": b'{"id": 7, "model": {}, "choices": "all", "content": 3, "usage": []}',
}


@pytest.mark.req("S42")
@every
@pytest.mark.parametrize("name", UNREADABLE)
async def test_a_body_that_cannot_be_read_is_told_as_that(
    provider: Provider, name: str, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, provider, [sending(UNREADABLE[name])])
    sentence = await refused(httpserver, provider, UnreadableAnswer, "model_misconfigured")
    assert re.search(r"could not be read: it is [^.]+\.$", sentence)
    assert len(playing.asked) == 1


@pytest.mark.req("S42")
@pytest.mark.usefixtures("short_pauses")
async def test_bodies_that_cannot_be_read_are_refused_in_the_end(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "openai", [sending(UNREADABLE["no JSON"])])
    with (
        capture_logs() as lines,
        pytest.raises(Refused, match=r"could not be read: it is a page of HTML; a proxy or a login page may") as raised,
    ):
        await called(httpserver, "openai")
    assert [line["seconds"] is None for line in lines] == [False, False, False, True]
    assert raised.value.code == "model_misconfigured"
    assert len(playing.asked) == call.UNREADABLE_ANSWERS


@pytest.mark.req("S42")
@every
async def test_an_answer_of_many_megabytes_is_a_refusal_and_is_not_read_to_its_end(
    provider: Provider, httpserver: HTTPServer
) -> None:
    sent = 0

    def endless(asked: dict[str, Any]) -> Iterator[bytes]:
        nonlocal sent
        body = json.dumps(answer(provider, "x" * 40_000_000, asked)).encode()
        for start in range(0, len(body), 100_000):
            sent = start
            yield body[start : start + 100_000]

    playing = Playing(httpserver, provider, [lambda asked: sending(endless(asked))(asked)])
    assert "was longer than 4,000,000 bytes" in await refused(httpserver, provider)
    assert len(playing.asked) == 1
    assert sent < 30_000_000  # what the sockets hold beside what was read


@pytest.mark.req("S42")
async def test_an_answer_that_would_swell_is_a_refusal(httpserver: HTTPServer) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    playing = Playing(httpserver, "openai", [lambda _: Response(bomb, 200, headers)])
    assert "was longer than 4,000,000 bytes" in await refused(httpserver, "openai")
    assert playing.headers[0]["Accept-Encoding"] == "identity"


def _stopped(provider: Provider, reason: str, **said: Any) -> dict[str, Any]:
    """The changes of an answer that ended for a reason."""
    if provider == "anthropic":
        return {"stop_reason": reason, "content": []}
    if provider == "openai-responses":
        return {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": "", **said}, "finish_reason": reason}]}


REFUSING = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"} | {
    "content": [{"type": "refusal", "refusal": "I cannot."}]
}
HALF_CALLED = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "answer_plan", "arguments": '{"ta'}
OTHERWISE = "Other words, or another model, may help."
CUT_OFF = "was cut off after 20 tokens; it was allowed 16,000, the limit that is set."
FULL = "takes: it was cut off after 20 tokens."
NONE = {
    "a refusal of Responses": ("openai-responses", {"output": [REFUSING]}, f"would not answer: I cannot. {OTHERWISE}"),
    "a filter of Responses": (
        "openai-responses",
        _stopped("openai-responses", "content_filter"),
        f"would not answer. {OTHERWISE}",
    ),
    "a filter of Azure": ("azure", _stopped("azure", "content_filter"), f"would not answer. {OTHERWISE}"),
    "a refusal of OpenAI": (
        "openai",
        _stopped("openai", "stop", refusal="I cannot."),
        f"would not answer: I cannot. {OTHERWISE}",
    ),
    "a filter of OpenAI": ("openai", _stopped("openai", "content_filter"), f"would not answer. {OTHERWISE}"),
    "a refusal of Anthropic": ("anthropic", _stopped("anthropic", "refusal"), f"would not answer. {OTHERWISE}"),
    "nothing of OpenAI": ("openai", _stopped("openai", "stop"), "answered with nothing."),
    "nothing of Anthropic": ("anthropic", _stopped("anthropic", "end_turn"), "answered with nothing."),
    "nothing of Mistral": ("mistral", _stopped("mistral", "stop"), "answered with nothing."),
    "nothing of Responses": ("openai-responses", {"output": []}, "answered with nothing."),
    "nothing of Azure": ("azure", _stopped("azure", "stop"), "answered with nothing."),
    "nothing of Ollama": ("ollama", _stopped("ollama", "stop"), "answered with nothing."),
    "cut off by Responses": ("openai-responses", _stopped("openai-responses", "max_output_tokens"), CUT_OFF),
    "cut off by Responses in a call": (
        "openai-responses",
        {**_stopped("openai-responses", "max_output_tokens"), "output": [HALF_CALLED | {"status": "incomplete"}]},
        CUT_OFF,
    ),
    "cut off by Azure": ("azure", _stopped("azure", "length", content='{"ta'), CUT_OFF),
    "cut off by Ollama": ("ollama", _stopped("ollama", "length", content='{"ta'), CUT_OFF),
    "full at Anthropic": ("anthropic", _stopped("anthropic", "model_context_window_exceeded"), FULL),
    "full at Mistral": ("mistral", _stopped("mistral", "model_length", content='{"ta'), FULL),
    "broken off by Mistral": (
        "mistral",
        _stopped("mistral", "error", content='{"ta'),
        "broke its answer off, for trouble of its own.",
    ),
    "cut off by OpenAI": ("openai", _stopped("openai", "length", content='{"ta'), CUT_OFF),
    "cut off by Anthropic": ("anthropic", _stopped("anthropic", "max_tokens"), CUT_OFF),
    "cut off by Mistral": ("mistral", _stopped("mistral", "length", content='{"ta'), CUT_OFF),
}


CODES = {
    "a": "answer_refused",
    "nothing": "answer_empty",
    "cut": "answer_cut_off",
    "full": "prompt_too_long",
    "broken": "model_unavailable",
}


@pytest.mark.req("B-01")
@pytest.mark.parametrize("name", NONE)
async def test_an_answer_that_is_none_says_why_and_what_it_cost(name: str, httpserver: HTTPServer) -> None:
    provider, changes, reason = NONE[name]
    Playing(httpserver, provider, [saying(provider, "", **changes)])
    completion = await completed(httpserver, provider)
    assert str(completion.refusal).endswith(reason)
    assert completion.refusal is not None
    assert completion.refusal.code == CODES[name.split(maxsplit=1)[0]]
    assert (completion.input_tokens, completion.output_tokens) == (1_000, 20)


LITTLE = allowance(Told().tell(requested(budgets={"workflow_tokens": 5_000})).workflow)


async def test_an_answer_that_a_budget_cut_off_does_not_blame_a_setting(httpserver: HTTPServer) -> None:
    Playing(httpserver, "openai", [saying("openai", "", **_stopped("openai", "length"))])
    async with aclosing(opened(httpserver, "openai")) as model:
        completion = await model.complete(planning(allowance=LITTLE))
    assert str(completion.refusal).endswith("what the budget leaves.")


@pytest.mark.req("S42")
@pytest.mark.parametrize(
    ("provider", "said"),
    [
        *[
            (provider, said)
            for provider in EVERY
            for said in (NESTED, f'{{"tasks": {NESTED}}}', "x" * 300_000, "no JSON")
        ],
        ("openai", "\ud800"),
        ("anthropic", "\ud800"),
    ],
)
async def test_an_answer_that_cannot_be_used_was_received_and_counts(
    provider: Provider, said: str, httpserver: HTTPServer
) -> None:
    Playing(httpserver, provider, [lambda asked: as_json(answer(provider, said, asked))])
    completion = await completed(httpserver, provider)
    assert (completion.input_tokens, completion.tries) == (1_000, 1)
    assert completion.output_tokens == (16_000 if completion.usage_estimated else 20)
    assert (completion.output_tokens, completion.usage_estimated) == (20, False)  # a run of one character is few tokens
    with pytest.raises(Unacceptable):
        parse(completion.text, PlanningAnswer)


async def test_counts_of_tokens_that_cannot_be_are_not_believed(httpserver: HTTPServer) -> None:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 2**60, "total_tokens": 0}
    Playing(httpserver, "openai", [saying("openai", "Done.", usage=usage)])
    async with aclosing(opened(httpserver, "openai")) as model:
        completion = await model.complete(message())
    assert completion.text == "Done."
    assert (completion.input_tokens, completion.output_tokens) == (1_000, 2**31 - 1)


async def test_a_cost_made_of_tokens_that_cannot_be_is_not_believed_either(httpserver: HTTPServer) -> None:
    usage = {"input_tokens": 100, "output_tokens": 2**60}
    Playing(httpserver, "anthropic", [saying("anthropic", "Done.", usage=usage)])
    async with aclosing(opened(httpserver, "anthropic")) as model:
        assert (await model.complete(message())).cost_nano_usd == 10**13  # the most that an event can tell


# --- secrets ---------------------------------------------------------------------------------------------


@pytest.mark.req("S27")
@every
async def test_a_key_that_the_provider_repeats_is_told_to_nobody(
    provider: Provider, httpserver: HTTPServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    said = f"Your key is {KEY}, sent as Bearer {KEY} or sk-canary-masked***4e1f"
    statuses = (400, 401, 403, 404, 422, 429, 500, 529, 200)
    Playing(httpserver, provider, [failing(provider, status, said) for status in statuses])
    shown = ""
    with capture_logs() as logs:
        async with aclosing(opened(httpserver, provider)) as model:
            for _ in statuses:
                with pytest.raises(PowerOnError) as raised:
                    await model.complete(planning())
                shown += "".join(traceback.format_exception(raised.value)) + repr(raised.value)
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("werkzeug")]
    assert "canary" not in shown
    assert "canary" not in str(logs)
    assert "canary" not in str(ours)


@pytest.mark.req("S27")
@pytest.mark.parametrize("who", ["user:canary-password", "canary-token", "canary%2Dtoken:"])
async def test_a_key_that_no_header_can_hold_and_whoever_an_address_names_are_told_to_nobody(
    who: str, httpserver: HTTPServer
) -> None:
    at = httpserver.url_for("/v1").replace("://", f"://{who}@")
    Playing(httpserver, "openai", [failing("openai", 400, f"Not at {at}")])
    for changes in ({"openai_base_url": at}, {"openai_api_key": "canary\nkey"}, {"openai_api_key": "canary\u20ac"}):
        settings = known(httpserver).model_copy(update={name: SecretStr(value) for name, value in changes.items()})
        async with aclosing(ProviderModel("openai", "x", Settings(), settings)) as model:
            with pytest.raises(PowerOnError) as raised:
                await model.complete(planning())
        assert "canary" not in "".join(traceback.format_exception(raised.value))
