"""Commands over HTTP: what is asked is done once, and whoever asks for what cannot be is told why."""

import asyncio
import base64
import os
from collections.abc import AsyncGenerator
from typing import Any

import orjson
import pytest
import pytest_asyncio
from documented_answers import DocumentedAnswers
from door_requests import API, UNKNOWN, WAIT, answered, expect, get, post, requests_in_log, sentence, until
from opened_door import Door, door_of_module
from servers import Pair

from poweron_events import topics
from poweron_events.log import Message
from poweron_events.log.kafka import connect as connect_kafka
from poweron_events.log.kafka_settings import KafkaSettings

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Door, None]:
    """A door whose answers to commands must all be in its OpenAPI document, with these outcomes and fields."""
    async with door_of_module(pair, tmp_path_factory.mktemp("door")) as door:
        answers = DocumentedAnswers(await get(door, "/openapi.json"))
        door.http.event_hooks = {"response": [answers.check]}
        yield door


async def completed(door: Door, **fields: Any) -> str:
    """A workflow whose round has ended."""
    asked = await door.http.post(f"{API}/workflows", json={"prompt": "Hello", **fields}, headers=WAIT)
    assert asked.status_code == 200, asked.text
    return str(asked.json()["workflowId"])


async def waiting(door: Door) -> tuple[str, dict[str, Any]]:
    """A workflow that waits for an approval, and its step as a part of an address."""
    asked = await post(door, "/workflows", {"prompt": "Write it.", "approve": ["*"]})
    id_ = asked.json()["workflowId"]
    waits = lambda page: [entry for entry in page["items"] if entry["workflowId"] == id_]  # noqa: E731
    return id_, waits(await until(door, "/approvals", waits))[0]


def place(entry: dict[str, Any]) -> str:
    return f"r{entry['round']}t{entry['task']}a{entry['attempt']}s{entry['step']}"


# --- one request, once --------------------------------------------------------------------------------


async def test_a_request_is_answered_with_where_it_is_and_shown_as_accepted_once_it_is(door: Door) -> None:
    asked = await post(door, "/workflows", {"prompt": "Hello"}, Idempotency_Key="a/b?c#d%")
    assert asked.status_code == 202
    body = asked.json()
    assert (body["requestId"], asked.headers["location"]) == ("a/b?c#d%", body["links"]["workflow"])
    shown = await answered(door, asked)
    assert (shown["status"], shown["workflowId"], shown["round"], shown["code"]) == (
        "accepted",
        body["workflowId"],
        1,
        None,
    )


async def test_a_request_that_intake_refuses_is_shown_as_refused_with_the_reason(door: Door) -> None:
    asked = await post(door, "/workflows", {"prompt": "Hello", "connections": ["nowhere"]})
    assert asked.status_code == 202
    shown = await answered(door, asked)
    assert (shown["status"], shown["code"]) == ("refused", "unknown_connection")
    assert "'nowhere' is not configured" in shown["detail"]
    told = await door.http.post(f"{API}/workflows", json={"prompt": "Hello", "connections": ["nowhere"]}, headers=WAIT)
    expect(told, 422, "unknown_connection")


async def test_twenty_repeats_at_once_open_one_workflow(door: Door) -> None:
    before = len((await get(door, "/workflows?limit=200"))["items"])
    repeats = [post(door, "/workflows", {"prompt": "Hello"}, Idempotency_Key="twenty") for _ in range(20)]
    responses = await asyncio.gather(*repeats)
    assert {(response.status_code, response.text) for response in responses} == {(202, responses[0].text)}
    id_ = responses[0].json()["workflowId"]
    await completed(door)  # and so do those before it
    assert len((await get(door, "/workflows?limit=200"))["items"]) == before + 2
    events = (await get(door, f"/workflows/{id_}/events"))["items"]
    assert [event["type"] for event in events].count("poweron.workflow.requested.v1") == 1


async def test_a_repeat_gets_the_same_answer_and_is_not_sent_again(door: Door) -> None:
    first = await post(door, "/workflows", {"prompt": "Hello", "maxSteps": 2}, Idempotency_Key="again")
    sent = await requests_in_log(door)
    second = await post(door, "/workflows", {"maxSteps": 2, "prompt": "Hello"}, Idempotency_Key="again")
    assert (second.status_code, second.text, second.headers["location"]) == (
        202,
        first.text,
        first.headers["location"],
    )
    assert await requests_in_log(door) == sent


async def test_another_request_with_the_same_key_is_refused(door: Door) -> None:
    await post(door, "/workflows", {"prompt": "Hello"}, Idempotency_Key="mine")
    expect(await post(door, "/workflows", {"prompt": "Goodbye"}, Idempotency_Key="mine"), 422, "idempotency_key_reused")
    other_place = await post(door, "/batch", {"verb": "pause", "ids": [UNKNOWN]}, Idempotency_Key="mine")
    expect(other_place, 422, "idempotency_key_reused")
    with_file = await door.http.post(
        f"{API}/workflows",
        data={"request": '{"prompt": "Hello"}'},
        files={"file": ("a.txt", b"A")},
        headers={"Idempotency-Key": "mine"},
    )
    expect(with_file, 422, "idempotency_key_reused")


async def test_who_waits_gets_the_outcome_and_otherwise_the_answer_that_it_is_in_the_log(door: Door) -> None:
    outcome = await door.http.post(f"{API}/workflows", json={"prompt": "Hello"}, headers=WAIT)
    assert (outcome.status_code, outcome.headers["preference-applied"]) == (200, "wait=100")
    assert outcome.json()["status"] == "completed"
    late = await door.http.post(
        f"{API}/workflows", json={"prompt": "Write it.", "approve": ["*"]}, headers={"Prefer": "wait=1"}
    )
    assert (late.status_code, late.headers["preference-applied"]) == (202, "wait=1")
    assert "preference-applied" not in (await post(door, "/workflows", {"prompt": "Hello"})).headers


# --- rounds, and the verbs about them -----------------------------------------------------------------


async def test_a_workflow_is_followed_up_once_its_round_has_ended(door: Door) -> None:
    id_ = await completed(door)
    asked = await door.http.post(f"{API}/workflows/{id_}/rounds", json={"prompt": "And then?"}, headers=WAIT)
    assert (asked.status_code, asked.json()["round"]) == (200, 2), asked.text
    open_, entry = await waiting(door)
    early = await post(door, f"/workflows/{open_}/rounds", {"prompt": "And then?"})
    expect(early, 409, "round_open")
    assert early.json()["state"] == {
        "status": "running",
        "phase": "approve",
        "stoppedBy": None,
        "currentRound": 1,
        "currentTask": entry["task"],
        "attempt": 1,
        "currentStep": entry["step"],
        "paused": None,
    }


async def test_a_round_is_paused_resumed_and_cancelled_once_each(door: Door) -> None:
    id_, _ = await waiting(door)
    assert (await post(door, f"/workflows/{id_}/pause", {"reason": "Lunch"})).status_code == 202
    assert (await get(door, f"/workflows/{id_}"))["pauseReason"] == "Lunch"
    again = await post(door, f"/workflows/{id_}/pause")
    expect(again, 409, "already_paused")
    assert again.json()["state"]["paused"] is not None
    assert (await post(door, f"/workflows/{id_}/resume")).status_code == 202
    expect(await post(door, f"/workflows/{id_}/resume"), 409, "not_paused")
    cancelled = await door.http.post(f"{API}/workflows/{id_}/cancellation", json={"reason": "Why?"}, headers=WAIT)
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    for verb in ("cancellation", "pause", "resume"):
        expect(await post(door, f"/workflows/{id_}/{verb}"), 409, "round_ended")


async def test_a_repeated_cancellation_gets_the_first_answer_though_the_round_has_ended(door: Door) -> None:
    id_, _ = await waiting(door)
    first = await post(door, f"/workflows/{id_}/cancellation", {"reason": "Why?"}, Idempotency_Key=f"c-{id_}")
    second = await post(door, f"/workflows/{id_}/cancellation", {"reason": "Why?"}, Idempotency_Key=f"c-{id_}")
    assert (first.status_code, second.status_code, second.text) == (202, 202, first.text)


async def test_a_restart_opens_another_workflow_with_the_same_request(door: Door) -> None:
    id_ = await completed(door)
    asked = await door.http.post(f"{API}/workflows/{id_}/restart", json={}, headers=WAIT)
    assert (asked.status_code, asked.json()["status"]) == (200, "restarted")
    path = f"/workflows/{asked.json()['newWorkflowId']}"
    again = await until(door, path, lambda found: "restartedFrom" in found)  # the log has it before the rows
    assert (again["restartedFrom"], again["prompt"]) == (id_, "Hello")
    sent = await post(door, f"/workflows/{id_}/restart")
    assert sent.status_code == 202
    assert sent.json()["workflowId"] not in (id_, asked.json()["newWorkflowId"])


async def test_what_is_about_no_workflow_is_not_found(door: Door) -> None:
    for path, body in (
        ("rounds", {"prompt": "Hi"}),
        ("cancellation", {}),
        ("pause", {}),
        ("resume", {}),
        ("restart", {}),
        ("approvals/r1t1a1s1", {"decision": "approve", "parametersSha256": "0" * 64}),
        ("forks", {"at": 0}),
    ):
        expect(await post(door, f"/workflows/{UNKNOWN}/{path}", body), 404, "unknown_workflow")
    assert (await door.http.get(f"{API}/requests/never")).status_code == 404


# --- approvals ----------------------------------------------------------------------------------------


async def test_an_action_runs_once_exactly_its_parameters_are_approved(door: Door) -> None:
    id_, entry = await waiting(door)
    path = f"/workflows/{id_}/approvals/{place(entry)}"
    forged = await post(door, path, {"decision": "approve", "parametersSha256": "0" * 64})
    expect(forged, 409, "other_parameters")
    elsewhere = f"/workflows/{id_}/approvals/r1t1a1s9"
    answer = {"decision": "approve", "reason": "Go on.", "parametersSha256": entry["parametersSha256"]}
    expect(await post(door, elsewhere, answer), 409, "nothing_to_approve")
    unnamed = await post(door, path, {"decision": "approve", "reason": "Go on."})
    expect(unnamed, 422, "invalid_request")
    assert sentence(unnamed).startswith("parametersSha256 is missing")
    assert (await get(door, f"/workflows/{id_}"))["phase"] == "approve"
    approved = await door.http.post(f"{API}{path}", json=answer, headers=WAIT)
    assert (approved.status_code, approved.json()["status"]) == (200, "approved"), approved.text
    late = await post(door, path, answer)
    expect(late, 409, "nothing_to_approve")
    assert "answered already: it is approved by" in sentence(late)


async def test_forged_approvals_change_nothing(door: Door) -> None:
    id_, entry = await waiting(door)
    events = await get(door, f"/workflows/{id_}/events")
    path, right = f"/workflows/{id_}/approvals/{place(entry)}", entry["parametersSha256"]
    forged: list[dict[str, Any]] = [
        {"parametersSha256": right[::-1]},
        {"parametersSha256": right[:-1] + ("0" if right[-1] != "0" else "1")},
        {"parametersSha256": right.upper()} if right.upper() != right else {"parametersSha256": ""},
        {"parametersSha256": right[:-1]},
        {"parametersSha256": None},
        {"parametersSha256": [right]},
        {"parametersSha256": right, "actor": {"id": "root", "verified": True}},
        {"parametersSha256": right, "requester": {"name": "root"}},
        {"parametersSha256": right, "tokens": 5},
        {"tokens": 5},
        {"costUsd": 1},
        {"parametersSha256": right, "decision": "allow"},
        {"parametersSha256": right, "decision": "deny"},
        {"parametersSha256": right, "decision": "deny", "reason": "No.", "set": {"aiPrompt": "Other"}},
    ]
    for changed in forged:
        response = await post(door, path, {"decision": "approve", **changed})
        assert response.status_code in (409, 422), (changed, response.text)
        assert sentence(response)
    for wrong in ("r1t1a1s2", "r0t0a0s0", "r2t1a1s1"):
        response = await post(
            door, f"/workflows/{id_}/approvals/{wrong}", {"decision": "approve", "parametersSha256": right}
        )
        expect(response, 409, "nothing_to_approve")
    for wrong in ("r1", "1.1.1.1", "r1t1a1s1x", "r-1t1a1s1", "r1t1a1s99999999999"):
        response = await post(
            door, f"/workflows/{id_}/approvals/{wrong}", {"decision": "approve", "parametersSha256": right}
        )
        expect(response, 422, "invalid_request")
    assert await get(door, f"/workflows/{id_}/events") == events


async def test_a_denial_needs_a_reason_and_the_workflow_goes_on_without_the_action(door: Door) -> None:
    id_, entry = await waiting(door)
    path = f"/workflows/{id_}/approvals/{place(entry)}"
    answer = {"decision": "deny", "parametersSha256": entry["parametersSha256"]}
    expect(await post(door, path, answer), 422, "invalid_request")
    denied = await post(door, path, {**answer, "reason": "Not this."})
    assert denied.status_code == 202, denied.text
    types = [event["type"] for event in (await get(door, f"/workflows/{id_}/events"))["items"]]
    assert "poweron.approval.denied.v1" in types


async def test_a_budget_question_is_answered_with_what_it_grants(door: Door) -> None:
    asked = await post(door, "/workflows", {"prompt": "Hello", "onBudget": "ask", "budgets": {"roundTokens": 1}})
    id_ = asked.json()["workflowId"]
    workflow = await until(door, f"/workflows/{id_}", lambda found: found.get("budgetQuestion"))
    step = f"r1t{workflow['currentTask']}a{workflow['attempt']}s{workflow['currentStep']}"
    path = f"/workflows/{id_}/approvals/{step}"
    expect(await post(door, path, {"decision": "approve"}), 422, "invalid_request")
    granted = await door.http.post(
        f"{API}{path}", json={"decision": "approve", "tokens": 1_000_000, "costUsd": 0.5}, headers=WAIT
    )
    assert (granted.status_code, granted.json()["status"]) == (200, "approved"), granted.text
    expect(await post(door, path, {"decision": "approve", "tokens": 5}), 409, "nothing_to_approve")


# --- many at once -------------------------------------------------------------------------------------


async def test_a_batch_has_a_result_for_each_workflow_and_none_stops_the_others(door: Door) -> None:
    (one, _), (two, _), ended = await waiting(door), await waiting(door), await completed(door)
    paused = await post(door, "/batch", {"verb": "pause", "ids": [one, UNKNOWN, ended, two, one], "reason": "Night"})
    assert paused.status_code == 200
    results = [(result["workflowId"], result["status"], result["code"]) for result in paused.json()["results"]]
    assert results == [
        (one, "paused", None),
        (UNKNOWN, "failed", "unknown_workflow"),
        (ended, "refused", "round_ended"),
        (two, "paused", None),
    ]
    resumed = await post(door, "/batch", {"verb": "resume", "where": ["phase=approve and age<1h"]})
    assert {result["workflowId"] for result in resumed.json()["results"]} >= {one, two}
    cancelled = await post(door, "/batch", {"verb": "cancel", "ids": [one, two]}, Idempotency_Key=f"b-{one}")
    assert [result["status"] for result in cancelled.json()["results"]] == ["cancelled", "cancelled"]
    again = await post(door, "/batch", {"verb": "cancel", "ids": [one, two]}, Idempotency_Key=f"b-{one}")
    assert again.json() == cancelled.json()


async def test_a_batch_whose_time_is_over_goes_on_and_its_repeat_shows_the_results(door: Door) -> None:
    ids = [await completed(door) for _ in range(3)]
    body, key = {"verb": "restart", "ids": ids}, {"Idempotency-Key": f"r-{ids[0]}"}
    late = await door.http.post(f"{API}/batch", json=body, headers={**key, "Prefer": "wait=0"})
    assert {result["status"] for result in late.json()["results"]} == {"pending"}
    done = await door.http.post(f"{API}/batch", json=body, headers=key)
    assert [result["status"] for result in done.json()["results"]] == ["restarted"] * 3
    for id_, result in zip(ids, done.json()["results"], strict=True):
        again = await until(door, f"/workflows/{id_}", lambda found: found["restartedAs"])
        assert again["restartedAs"] == [result["newWorkflowId"]]


# --- forks --------------------------------------------------------------------------------------------


async def test_a_fork_takes_over_what_came_before_and_is_by_who_asked_for_it(door: Door) -> None:
    id_ = await completed(door)
    forked = await door.http.post(
        f"{API}/workflows/{id_}/forks",
        json={"at": 0, "prompt": "Good evening", "maxSteps": 2, "model": "builtin"},
        headers=WAIT,
    )
    assert forked.status_code == 200, forked.text
    assert (forked.json()["forkedFrom"]["workflow"], forked.json()["forkedFrom"]["seq"]) == (id_, 0)
    new = forked.json()["workflowId"]
    (opening, *_) = (await get(door, f"/workflows/{new}/events"))["items"]
    assert (opening["data"]["prompt"], opening["data"]["actor"]["via"]) == ("Good evening", "http")
    assert opening["data"]["forkedFrom"]["model"] == "builtin"
    expect(await post(door, f"/workflows/{id_}/forks", {"at": 2_000_000_000}), 404, "unknown_seq")
    expect(await post(door, f"/workflows/{id_}/forks", {"at": 1, "prompt": "Good evening"}), 422, "invalid_request")
    unknown = {"at": 1, "model": "scripted:/etc/hostname"}
    refused = await door.http.post(f"{API}/workflows/{id_}/forks", json=unknown, headers=WAIT)
    expect(refused, 422, "unknown_model")


async def test_a_fork_of_several_rounds_goes_on_after_it_was_answered(door: Door) -> None:
    id_ = await completed(door)
    await door.http.post(f"{API}/workflows/{id_}/rounds", json={"prompt": "And then?"}, headers=WAIT)
    last = (await get(door, f"/workflows/{id_}/events?limit=500"))["items"][-1]["seq"]
    forked = await post(door, f"/workflows/{id_}/forks", {"at": last})
    assert forked.status_code == 202
    ended = ["completed", "completed"]
    await until(
        door,
        f"/workflows/{forked.json()['workflowId']}/rounds",
        lambda found: [round_["status"] for round_ in found.get("items", [])] == ended,
    )


# --- dead letters -------------------------------------------------------------------------------------


async def dead_letter(door: Door, value: bytes) -> str:
    """Write it to the requests, and return its address once it is a dead letter."""
    async with connect_kafka(KafkaSettings.of(os.environ)) as log:
        (offset,) = await log.append(topics.REQUESTS.name, [Message(b"key", value)])
        path = f"/deadletters/{topics.REQUESTS.name}/{log.partition_of(topics.REQUESTS.name, b'key')}/{offset}"
    await until(door, "/deadletters", lambda page: any(letter["offset"] == offset for letter in page["items"]))
    return f"{path}/redrive"


def event(id_: str, **data: Any) -> bytes:
    return orjson.dumps(
        {"specversion": "1.0", "id": id_, "source": "/crm", "type": "poweron.request.workflow.v1", "data": data}
    )


async def test_a_dead_letter_is_sent_again_with_edited_bytes_on_behalf_of_who_edited_it(door: Door) -> None:
    path = await dead_letter(door, b'{"specversion": "1.0", "id": "7"')
    as_it_was = await post(door, path)
    assert as_it_was.status_code == 422, as_it_was.text
    assert "no request that can be answered" in sentence(as_it_was)
    still_wrong = await post(door, path, {"raw": base64.b64encode(event("7", prompt="")).decode()})
    assert still_wrong.status_code == 422
    raw = base64.b64encode(event("7", prompt="Hello", actor={"id": "root", "verified": True})).decode()
    sent = await post(door, path, {"raw": raw}, Idempotency_Key="edited-7")
    assert sent.status_code == 202, sent.text
    again = await post(door, path, {"raw": raw}, Idempotency_Key="edited-7")
    assert (again.status_code, again.text) == (202, sent.text)
    shown = await answered(door, sent)
    assert (shown["status"], shown["source"]) == ("accepted", "/crm")
    (opening, *_) = (await get(door, f"/workflows/{shown['workflowId']}/events"))["items"]
    assert (opening["data"]["actor"]["id"], opening["data"]["actor"]["via"]) == (door.settings.actor, "http")


async def test_only_dead_letters_from_the_requests_are_sent_again(door: Door) -> None:
    expect(await post(door, "/deadletters/poweron.events/0/0/redrive"), 409, "not_redrivable")
    expect(await post(door, "/deadletters/poweron.requests/0/999999/redrive"), 404, "unknown_dead_letter")


# --- documents ----------------------------------------------------------------------------------------


async def test_two_files_are_documents_of_the_workflow_byte_for_byte(door: Door) -> None:
    letter = b"Dear Ada,\nthe museum opens at nine.\n"
    asked = await door.http.post(
        f"{API}/workflows",
        data={"request": '{"prompt": "When does it open?"}'},
        files=[("file", ("letter.txt", letter)), ("file", ("Überblick.txt", b"")), ("file", ("b.txt", b"B" * 100_000))],
        headers=WAIT,
    )
    assert asked.status_code == 200, asked.text
    id_ = asked.json()["workflowId"]
    given = (await get(door, f"/workflows/{id_}/documents"))["items"][:3]
    assert [document["documentName"] for document in given] == ["letter.txt", "Überblick.txt", "b.txt"]
    assert [document["size"] for document in given] == [len(letter), 0, 100_000]
    for document, data in zip(given, (letter, b"", b"B" * 100_000), strict=True):
        content = await door.http.get(f"{API}/workflows/{id_}/content/{document['content']}")
        assert content.content == data
