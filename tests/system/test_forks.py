"""Forks on real servers: `poweron fork` at every event, processes that are killed meanwhile, and what is said of slips."""

from pathlib import Path

import pytest
from commands import NOBODY, Shell
from followed_workflows import completed_once, followed, send_request
from modes import EXAMPLES
from orjson import loads
from processes import ONE_STEP, script, serving

from poweron_events import RequestWorkflow, topics
from poweron_events.codec import encode
from poweron_events.event import CATALOGUE
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Opening, Workflow
from poweron_events.log import Message
from poweron_events.request import ForkedFrom, RequestIdentity, RoundRequested
from poweron_events.step_events import ActionCompleted, ActionStarted
from poweron_projections import reader
from poweron_projections.reader import judged_records
from poweron_services.client.ask import ask
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.fork.original import accepted
from poweron_services.fork.run_comparison import compare

ESTIMATE = EXAMPLES / "estimate.pdf"
TOTAL = "1,980.84"
pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def flat(said: str) -> str:
    """The text without the ends of its lines."""
    return " ".join(said.split())


async def _events(connections: Connections, workflow: str) -> list[object]:
    return [each.event for each in accepted(await judged_records(connections.pool, workflow))]


@pytest.mark.soak
async def test_a_fork_whose_process_is_killed_at_every_turn_is_the_same_and_runs_nothing(
    connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["POWERON_MODEL"] = script(tmp_path, ONE_STEP)
    with serving(environment, tmp_path, ["all"]) as processes:
        origin = await send_request(connections, RequestWorkflow(prompt="Write it."))
        await completed_once(connections, origin, await followed(connections, origin, lambda _: None))
        records = {each.seq: each for each in await judged_records(connections.pool, origin)}
        killed: list[str] = []

        def kill(workflow: Workflow) -> None:
            killed.append(workflow.phase)
            processes.replace(["all"])

        of = ForkedFrom(workflow=origin, seq=7, head=records[7].sha256)
        fork = await send_request(connections, RequestWorkflow(prompt="Write it.", forked_from=of))
        await completed_once(connections, fork, await followed(connections, fork, kill))
    events = await _events(connections, fork)
    assert compare(await _events(connections, origin), events).same
    assert {"plan", "select", "parameterize", "ready", "started", "refine", "review"} <= set(killed)
    assert {event.worker for event in events if isinstance(event, ActionStarted)} == {"recorded"}
    assert [event.reused_from for event in events if isinstance(event, ActionCompleted)] == [5]
    taken_over = [call.provider for event in events[:8] for call in model_calls(event)]
    assert set(taken_over) == {"recorded"}
    row = await reader.workflow(connections.pool, fork)
    assert row is not None
    assert (row.forked_from, row.forked_seq) == (origin, 7)


async def test_fork_and_diff_as_they_are_typed(shell: Shell, connections: Connections, tmp_path: Path) -> None:
    asked = loads(
        (await shell("ask", "What is the grand total of the estimate?", "--document", ESTIMATE, "--json")).out
    )
    origin, last = asked["workflowId"], 15

    forked = loads((await shell("fork", origin, "--at", "8", "--json")).out)
    assert forked["message"] == asked["message"]
    assert (forked["status"], forked["reusedCalls"], forked["reusedActions"]) == ("completed", 6, 2)
    assert (forked["forkedFrom"]["workflow"], forked["forkedFrom"]["seq"]) == (origin, 8)
    assert forked["tokens"] < asked["tokens"]
    assert not forked["nothingLeft"]
    (written,) = forked["documents"]
    assert TOTAL in (tmp_path / written["path"]).read_text()

    same = await shell("diff", origin, forked["workflowId"])
    assert (same.code, same.err) == (0, "")
    assert same.out.startswith("Both did the same")

    whole = await shell("fork", forked["workflowId"], "--at", str(last))  # a fork of a fork, at its last event
    assert whole.code == 0
    assert "there is nothing left to decide" in whole.out
    assert "2 results of actions were taken over" in whole.out

    stopped = await shell("fork", origin, "--at", "1", "--max-steps", "1", "--json")  # one step: it is not read first
    assert (stopped.code, loads(stopped.out)["code"]) == (1, "fork_needs_live")
    live = loads((await shell("fork", origin, "--at", "1", "--max-steps", "1", "--live", "--json")).out)
    assert (live["status"], live["reusedActions"]) == ("completed", 0)
    parted = await shell("diff", origin, live["workflowId"], "--json")
    found = loads(parted.out)
    assert (parted.code, found["same"], found["b"]["recordedCalls"]) == (1, False, 1)
    place = {"round": 1, "task": 1, "attempt": 1, "step": 1}
    assert found["divergence"] == {**place, "what": "action", "a": "document.extract", "b": "ai.process"}
    assert (
        "They first differ in round 1, task 1, attempt 1, step 1, by the action."
        in (await shell("diff", origin, live["workflowId"])).out
    )

    late = await shell("fork", origin, "--at", "13", "--prompt", "When was the estimate written?")
    assert late.code == 2
    assert "another request would not change them. Fork at event 0, the last one before they are" in flat(late.err)


@pytest.mark.soak
async def test_a_fork_in_other_words_plans_its_tasks_for_them(shell: Shell, connections: Connections) -> None:
    asked = await shell("ask", "What is the grand total of the estimate?", "--document", ESTIMATE, "--json")
    origin, prompt = loads(asked.out)["workflowId"], "When was the estimate written?"
    anew = await shell("fork", origin, "--at", "0", "--prompt", prompt, "--live")
    assert f"Find out from the documents: {prompt}\n" in anew.err


async def test_why_a_fork_stops_is_told_once_while_it_goes_on_and_once_in_the_answer(
    shell: Shell, connections: Connections
) -> None:
    asked = await shell("ask", "What is the grand total of the estimate?", "--document", ESTIMATE, "--json")
    stopped = await shell("fork", loads(asked.out)["workflowId"], "--at", "1", "--max-steps", "1")
    reason = "has no result of ai.process with these parameters"
    assert (flat(stopped.err).count(reason), flat(stopped.out).count(reason)) == (1, 1)
    assert "`--live` runs the actions that have no recorded result" in flat(stopped.out)


async def test_slips_at_fork_and_diff_are_told_in_sentences(shell: Shell, connections: Connections) -> None:
    origin = loads((await shell("ask", "What is it?", "--document", ESTIMATE, "--json")).out)["workflowId"]
    records = await judged_records(connections.pool, origin)
    last = records[-1].seq
    event = records[3].envelope
    forged = event._replace(source="/poweron/forged/1", cause=event.cause)
    await connections.log.append(topics.EVENTS.name, [Message(origin.encode(), encode(forged))])

    too_large = await shell("fork", origin, "--at", "99", "--json")
    assert (too_large.code, loads(too_large.out)["code"]) == (1, "unknown_seq")
    assert f"The nearest accepted one is {last}." in loads(too_large.out)["error"]
    superseded = await shell("fork", origin, "--at", str(last + 1))
    assert superseded.code == 1
    assert (
        f"Event {last + 1} of workflow {origin} was superseded: it changed nothing. The nearest accepted one is {last}."
        in (" ".join(superseded.err.split()))
    )
    assert (await shell("fork", NOBODY, "--at", "1")).code == 1
    assert (await shell("fork", "this", "--at", "1")).code == 2
    assert (await shell("diff", origin, NOBODY)).code == 1
    assert (await shell("fork", origin, "--at", "1", "--prompt", " ")).code == 2


async def test_a_workflow_of_a_newer_release_is_not_forked(shell: Shell, connections: Connections) -> None:
    origin = loads((await shell("ask", "What is it?", "--document", ESTIMATE, "--json")).out)["workflowId"]
    event = (await judged_records(connections.pool, origin))[0].envelope
    newer = encode(event).replace(b'"catalogue":%d' % CATALOGUE, b'"catalogue":99').replace(b"requested.v1", b"new.v1")
    await connections.log.append(topics.EVENTS.name, [Message(origin.encode(), newer)])
    refused = await shell("fork", origin, "--at", "1", "--json")
    assert (refused.code, loads(refused.out)["code"]) == (1, "newer_release")
    assert "catalogue 99" in loads(refused.out)["error"]


@pytest.mark.soak
async def test_a_further_round_is_forked_with_the_rounds_before_it(shell: Shell, connections: Connections) -> None:
    asked = await shell("ask", "What is the grand total of the estimate?", "--document", ESTIMATE, "--json")
    origin = loads(asked.out)["workflowId"]
    await shell("ask", "When was the estimate written?", "--workflow", origin, "--json")
    second = next(
        each.seq
        for each in await judged_records(connections.pool, origin)
        if isinstance(each.envelope.event, RoundRequested)
    )
    forked = loads((await shell("fork", origin, "--at", str(second + 2), "--json")).out)
    assert (forked["status"], forked["round"]) == ("completed", 2)
    assert (await shell("diff", origin, forked["workflowId"])).code == 0
    openings = [event for event in await _events(connections, forked["workflowId"]) if isinstance(event, Opening)]
    assert [opening.forked_from.seq for opening in openings if opening.forked_from] == [second + 2] * 2


async def test_a_request_for_a_fork_of_what_is_not_there_is_refused(connections: Connections, service: None) -> None:
    of = ForkedFrom(workflow=NOBODY, seq=1, head="ab" * 32)
    request = RequestWorkflow(prompt="Write it.", forked_from=of)
    heard = await ask(
        connections, request, (), identity=RequestIdentity(source="/tests", id="1"), callbacks=Callbacks()
    )
    assert (heard.status, heard.code) == ("failed", "unknown_seq")
