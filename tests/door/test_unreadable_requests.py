"""Requests over HTTP that cannot be read or carried out: each is refused with one sentence, and nothing is sent."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from door_requests import API, UNKNOWN, expect, requests_in_log, sentence
from opened_door import Door, door_of_module
from servers import Pair

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Door, None]:
    async with door_of_module(pair, tmp_path_factory.mktemp("door")) as door:
        yield door


WORKFLOWS, BATCH, FORK = "/workflows", "/batch", f"/workflows/{UNKNOWN}/forks"
APPROVAL, PAUSE = f"/workflows/{UNKNOWN}/approvals/r1t1a1s1", f"/workflows/{UNKNOWN}/pause"
ASK = {"prompt": "Hello"}
INVALID: list[tuple[str, Any]] = [
    *[
        (WORKFLOWS, body)
        for body in (
            {},
            [],
            "Hello",
            7,
            None,
            {"prompt": ""},
            {"prompt": "   "},
            {"prompt": None},
            {"prompt": 7},
            {"prompt": ["Hello"]},
            {"prompt": "x" * 20_001},
            {"Prompt": "Hello"},
            {**ASK, "maxSteps": 0},
            {**ASK, "maxSteps": 101},
            {**ASK, "maxSteps": "5"},
            {**ASK, "maxSteps": 5.5},
            {**ASK, "max_steps": 5},
            {**ASK, "maxSteps": 10**30},
            {**ASK, "deadlineMs": 1},
            {**ASK, "budgets": []},
            {**ASK, "budgets": {"tokens": 5}},
            {**ASK, "budgets": {"roundTokens": -1}},
            {**ASK, "onBudget": "beg"},
            {**ASK, "approve": "web"},
            {**ASK, "approve": ["!!"]},
            {**ASK, "approve": ["web"] * 101},
            {**ASK, "workflowMode": "Chaos"},
            {**ASK, "userLanguage": "x" * 36},
            {**ASK, "allowedMethods": {"cooking": []}},
            {**ASK, "actor": {"id": "root"}},
            {**ASK, "requester": {"name": "root"}},
            {**ASK, "documents": []},
            {**ASK, "forkedFrom": None},
            {**ASK, "restartedFrom": UNKNOWN},
            {**ASK, "workflowId": UNKNOWN},
        )
    ],
    *[
        (BATCH, body)
        for body in (
            {},
            {"verb": "pause"},
            {"verb": "pause", "ids": []},
            {"verb": "pause", "where": []},
            {"verb": "pause", "ids": [UNKNOWN], "where": ["status=failed"]},
            {"verb": "erase", "ids": [UNKNOWN]},
            {"verb": "pause", "ids": ["1"]},
            {"verb": "pause", "ids": [UNKNOWN.upper()]},
            {"verb": "pause", "ids": [UNKNOWN] * 1_001},
            {"verb": "pause", "ids": UNKNOWN},
            {"verb": "pause", "where": "status=failed"},
            {"verb": "pause", "where": ["status"]},
            {"verb": "pause", "where": ["status=burning"]},
            {"verb": "pause", "where": ["colour=red"]},
            {"verb": "pause", "where": ["age>soon"]},
            {"verb": "pause", "where": ["model>gpt"]},
            {"verb": "pause", "where": ["status=failed or age>2h"]},
            {"verb": "pause", "where": ["status=failed,"]},
            {"verb": "pause", "where": ["actor=' OR 1=1 --"]},
            {"verb": "pause", "where": [""]},
            {"verb": "pause", "where": ["x" * 300]},
            {"verb": "pause", "ids": [UNKNOWN], "reason": "x" * 1_001},
        )
    ],
    *[(FORK, body) for body in ({}, {"at": -1}, {"at": "1"}, {"at": 1, "prompt": " "}, {"at": 1, "actor": "root"})],
    *[(PAUSE, body) for body in ([], {"reason": 7}, {"reason": "x" * 1_001}, {"why": "so"}, {"actor": {"id": "x"}})],
]


async def test_an_invalid_request_is_refused_with_one_sentence_and_nothing_is_sent(door: Door) -> None:
    assert len(INVALID) >= 60
    sent = await requests_in_log(door)
    for path, body in INVALID:
        response = await door.http.post(
            f"{API}{path}", content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 422, (path, body, response.text)
        assert len(sentence(response)) > 10
    assert await requests_in_log(door) == sent


@pytest.mark.parametrize(
    ("body", "media_type", "status", "words"),
    [
        (b"", "", 422, "prompt is missing"),
        (b"{", "application/json", 400, "is not JSON"),
        (b'{"prompt": "\\ud800"}', "application/json", 400, "is not JSON"),
        (b'{"prompt": "\xff"}', "application/json", 400, "is not JSON"),
        (b'{"prompt": NaN}', "application/json", 400, "is not JSON"),
        (b'{"a":' + b"[" * 400 + b"]" * 400 + b"}", "application/json", 400, "nested too deeply"),
        (b'{"prompt": "' + b"x" * 1_000_001 + b'"}', "application/json", 413, "more than 1,000,000 bytes"),
        (b"prompt=Hello", "application/x-www-form-urlencoded", 415, "must be application/json or multipart/form-data"),
        (b"<prompt/>", "text/xml; charset=utf-8", 415, "not 'text/xml'"),
        (b'{"prompt": "Hello"}', "", 415, "not 'without a type'"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(
    door: Door, body: bytes, media_type: str, status: int, words: str
) -> None:
    response = await door.http.post(f"{API}/workflows", content=body, headers={"Content-Type": media_type})
    assert response.status_code == status, response.text
    assert words in sentence(response)


def part(name: str, content: bytes, *, more: str = "") -> bytes:
    return f'--B\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"


REQUEST, FILE, END = (
    part("request", b'{"prompt": "Hello"}'),
    part("file", b"A", more='; filename="a.txt"'),
    b"--B--\r\n",
)
FORM = "multipart/form-data; boundary=B"


@pytest.mark.parametrize(
    ("body", "media_type", "status", "words"),
    [
        (REQUEST + FILE + END, "multipart/form-data", 400, "Missing boundary"),
        (REQUEST + FILE + END, "multipart/form-data; boundary=C", 400, "Invalid multipart"),
        (b"", FORM, 400, "before its last boundary"),
        (REQUEST + FILE, FORM, 400, "before its last boundary"),
        (REQUEST + FILE[:-3], FORM, 400, "before its last boundary"),
        (FILE + END, FORM, 400, "0 parts named `request`"),
        (REQUEST + REQUEST + END, FORM, 400, "2 parts named `request`"),
        (REQUEST + part("files", b"A", more='; filename="a"') + END, FORM, 400, "'files' is neither"),
        (REQUEST + part("file", b"A") + END, FORM, 400, "has no file name"),
        (REQUEST + b"--B\r\nContent-Type: text/plain\r\n\r\nA\r\n" + END, FORM, 400, '"name" must be provided'),
        (REQUEST + b"--B\r\nno header\r\n\r\nA\r\n" + END, FORM, 400, "Invalid multipart"),
        (part("request", b'{"prompt": "\xff"}') + END, FORM, 400, "is not UTF-8"),
        (part("request", b"Hello") + END, FORM, 400, "is not JSON"),
        (part("request", b'{"prompt": ""}') + FILE + END, FORM, 422, "prompt must have at least 1 character"),
        (part("request", b" " * 1_000_001) + END, FORM, 413, "more than 1,000,000 bytes"),
        (REQUEST + FILE * 101 + END, FORM, 413, "more than 100 files"),
        (REQUEST + part("file", b"A", more=f'; filename="{"x" * 300}"') + END, FORM, 422, "at most 255 characters"),
    ],
)
async def test_a_broken_form_is_refused_with_one_sentence(
    door: Door, body: bytes, media_type: str, status: int, words: str
) -> None:
    sent = await requests_in_log(door)
    response = await door.http.post(f"{API}/workflows", content=body, headers={"Content-Type": media_type})
    assert response.status_code == status, response.text
    assert words in sentence(response)
    assert await requests_in_log(door) == sent


async def test_a_form_is_only_for_requests_that_take_documents(door: Door) -> None:
    response = await door.http.post(f"{API}{PAUSE}", content=REQUEST + END, headers={"Content-Type": FORM})
    expect(response, 415, "media_type_unknown")


async def test_a_file_beyond_200_mb_is_refused(door: Door) -> None:
    async def body() -> AsyncGenerator[bytes, None]:
        yield REQUEST + part("file", b"", more='; filename="huge.bin"')[:-2]
        for _ in range(201):
            yield b"\0" * 1_000_000
        yield b"\r\n" + END

    response = await door.http.post(f"{API}/workflows", content=body(), headers={"Content-Type": FORM})
    expect(response, 413, "request_too_large")
    assert "'huge.bin' has more than 200,000,000 bytes" in sentence(response)
