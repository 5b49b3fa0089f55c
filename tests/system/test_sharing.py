"""Processes that share the work, overlap, come and go: every workflow completes once and no effect comes twice."""

import secrets
from pathlib import Path

import pytest
from surviving import SOURCE, TIME, Survival, until, witnesses

from poweron_events import encode_request, workflow_id
from poweron_events.request import RequestCancellation, RequestRound
from poweron_events.stream import Request
from poweron_projections import request_answers
from poweron_projections.connection import acquire
from poweron_projections.rebuild import rebuild
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

OVERLAPPING = ("one", "two", "planner,selector,intake:some", "executor,observer:others", "projector:rows")


@pytest.mark.soak
@pytest.mark.req("E-08")
async def test_overlapping_roles_a_rebalance_and_doubled_requests_give_each_effect_once(
    survival: Survival, environment: dict[str, str], tmp_path: Path
) -> None:
    with witnesses(environment, tmp_path, OVERLAPPING) as processes:
        await survival.settled(2)
        classes = ["pure", "idempotent", "once"] * 6
        quick = [await survival.request(each, times=3) for each in classes]
        held = [await survival.request("pure", gate="gate", times=2) for _ in range(12)]
        await until(lambda: all(survival.running(id_) for id_ in held) and survival.ended(*quick), "all are at work")
        processes.start("three")
        await until(lambda: any(len(survival.running(id_)) > 1 for id_ in held), "somebody takes an action over")
        replayed = list(survival.requested.values())[::-1]
        await survival.send(replayed * 2)
        survival.open_gate("gate")
        await survival.all_ended()
        await survival.request()
        await survival.all_ended()
        processes.expect_alive()
    await survival.expect_all_well()


@pytest.mark.soak
@pytest.mark.req("E-07")
async def test_all_offsets_are_lost_the_rows_are_emptied_and_projectors_are_killed(
    survival: Survival, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    with witnesses(environment, tmp_path, ["one", "two", "projector:rows"]) as processes:
        await survival.settled(2)
        begun = [await survival.request("idempotent", gate="gate") for _ in range(6)]
        await until(lambda: all(survival.running(id_) for id_ in begun), "all are at work")
        for name in ("one", "two", "projector:rows"):
            processes.kill(name)
        await survival.forget_offsets()
        for name in ("one", "projector:rows"):
            processes.start(name)
        await until(lambda: all(len(survival.running(id_)) > 1 for id_ in begun), "all are taken over")
        processes.start("two")  # not before: a claim that is written while its partition moves waits for its deadline
        for _ in range(3):
            for _ in range(10):
                await survival.request(times=2)
            processes.replace(["projector:rows"])
        await empty(connections)
        late = [await survival.request() for _ in range(3)]
        await until(lambda: survival.ended(*late), "work begins while the rows are made anew")
        await rebuild(connections.log, connections.pool)
        survival.open_gate("gate")
        await survival.all_ended()
        await survival.send(list(survival.requested.values()))
        await survival.request()
        await survival.all_ended()
        processes.expect_alive()
    await survival.expect_all_well()


@pytest.mark.req("E-15")
async def test_requests_that_come_before_what_they_follow_are_answered_once_and_for_all(
    survival: Survival, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    identity = secrets.token_hex(8)
    workflow = workflow_id(SOURCE, identity)
    early: dict[str, Request] = {
        f"{identity}-follow-up": RequestRound(workflow_id=workflow, after_round=1, prompt="And then?"),
        f"{identity}-cancellation": RequestCancellation(workflow_id=workflow, round=1),
    }
    values = [encode_request(each, source=SOURCE, request_id=id_, time=TIME) for id_, each in early.items()]
    with witnesses(environment, tmp_path, ["one", "two"]) as processes:
        await survival.send(values * 2)
        await until(lambda: survival.refused(workflow) >= early.keys(), "both are refused")
        await survival.request(identity=identity, times=2)
        await survival.all_ended()
        await survival.send([*survival.requested.values(), *values])
        await survival.request()
        await survival.all_ended()
        processes.expect_alive()
    await survival.expect_all_well()
    for id_ in early:
        answer = await request_answers.answer(connections.pool, SOURCE, id_)
        assert answer is not None
        assert (answer.answer, answer.reason) == ("refused", "unknown_workflow")


async def empty(connections: Connections) -> None:
    async with acquire(connections.pool) as connection:
        await connection.execute("DROP SCHEMA poweron CASCADE")
