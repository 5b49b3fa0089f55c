"""The commands on the real servers, typed as a user types them."""

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import asyncpg
import pytest
from commands import NOBODY, POWERON, Shell, ended, told
from processes import ONE_STEP, script, serving
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from poweron_events import RequestCancellation, RequestWorkflow, encode_request, topics
from poweron_events.client import hear, send
from poweron_events.log import Message
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import RequestIdentity, RequestRefused, workflow_id
from poweron_services.client import follow
from poweron_services.client.ask import ask
from poweron_services.client.client_errors import NotServed
from poweron_services.client.connect import Connections, connect
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ESTIMATE = EXAMPLES / "estimate.pdf"
TOTAL = "1,980.84"
EVENT = {"seq", "type", "verdict", "partition", "offset", "time", "id", "source", "causationid", "data"}
ENTRY = {"seq", "round", "task", "attempt", "step", "kind", "action", "status", "success", "message", "summary"} | {
    *(
        "prompt",
        "reviewReason",
        "documentsLabel",
        "documents",
        "references",
        "error",
        "findings",
        "unread",
        "unreadLeftOut",
    ),
    *("links", "learnings", "actor", "time"),
}
DOCUMENT = {"documentId", "documentName", "mimeType", "size"}


@pytest.mark.req("L-01")
async def test_ask_answers_and_every_command_shows_what_came_of_it(shell: Shell, dsn: str) -> None:
    asked = await ended(
        await shell.start("ask", "What is the grand total of the estimate?", "--document", ESTIMATE, "--json")
    )
    connection = await asyncpg.connect(dsn)
    ends = await connection.fetch("SELECT * FROM poweron.rounds WHERE status = 'completed'")
    await connection.close()

    assert len(ends) == 1  # its last event was in the rows when it returned
    assert asked.code == 0, asked.err
    (answer,) = asked.lines
    assert set(answer) == {"workflowId", "round", "status", "message", "documents"} | {
        *("steps", "tokens", "code", "costUsd", "durationMs", "models")
    }
    assert answer["models"] == ["builtin/extractive-1"]
    assert (answer["status"], TOTAL in answer["message"], answer["steps"]) == ("completed", True, 2)
    (document,) = answer["documents"]
    assert set(document) == {*DOCUMENT, "path"}
    written = shell.folder / document["path"]
    assert (written.stat().st_size, TOTAL in written.read_text()) == (document["size"], True)
    workflow = answer["workflowId"]
    for word in ("requested", "selected", "parameters", "started", "result", "observation", "decision", "completed"):
        assert f" {word} " in asked.err

    events = (await shell("events", workflow, "--json")).lines
    assert [set(event) for event in events] == [EVENT] * len(events)
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("poweron.workflow.requested.v1", "poweron.round.completed.v1")
    assert (await shell("watch", workflow, "--json")).lines == events

    history = (await shell("history", workflow, "--json")).lines
    assert [set(entry) for entry in history] == [ENTRY] * len(history)
    assert history[0]["message"] == asked.lines[0]["message"]
    assert {entry["prompt"] for entry in history} == {"What is the grand total of the estimate?"}
    assert [entry["reviewReason"] for entry in history if entry["kind"] == "task_end"] == ["All criteria are met."]
    references = history[0]["references"]
    assert [reference.rpartition(":")[2] for reference in references] == ["answer.md"]
    plain = (await shell("history", workflow)).out
    assert all(f"document: {reference} (" in plain for entry in history for reference in entry["references"][1:])
    assert "documents: docList:round1_request\n" in plain
    paged, before = [], "1000000"
    while page := (await shell("history", workflow, "--json", "--limit", "4", "--before", before)).lines:
        paged, before = [*paged, *page], str(page[-1]["seq"])
    assert paged == history

    shown = (await shell("documents", workflow, "--output", "here", "--json")).lines
    assert shown[0]["documentName"] == ESTIMATE.name
    assert (shell.folder / shown[0]["path"]).read_bytes() == ESTIMATE.read_bytes()

    verified = await shell("verify", "--json")
    (found,) = verified.lines
    assert (verified.code, found["events"], found["differences"]) == (0, len(events) + 2, [])  # and of its process
    assert found["content"]["faults"] == []
    status = (await shell("status", "--json")).lines[0]
    assert set(status) == {"kafka", "postgres", "home", "log", "content"}
    (listed,) = (await shell("workflows", "--json")).lines
    assert (listed["workflowId"], listed["status"]) == (workflow, "completed")
    unknown = await shell("watch", NOBODY)
    assert (unknown.code, unknown.err.startswith(f"There is no workflow {NOBODY}.")) == (1, True)


async def test_dead_letters_are_shown_whatever_bytes_they_hold(shell: Shell, service: Connections) -> None:
    await service.log.append(topics.REQUESTS.name, [Message(b"k", b"\xff\x1b]0;owned\x07")])
    async with asyncio.timeout(30):
        while not (shown := await shell("deadletters", "--json")).lines:
            pass
    (letter,) = shown.lines
    assert (letter["topic"], letter["size"], letter["raw"]) == ("poweron.requests", 11, "/xtdMDtvd25lZAc=")
    assert "the value is not JSON" in (await shell("deadletters")).out


# --- documents ----------------------------------------------------------------------------------------


def _locked_pdf(path: Path) -> None:
    canvas = Canvas(str(path), encrypt=StandardEncryption("secret"))
    canvas.drawString(100, 700, f"The grand total is {TOTAL}.")
    canvas.save()


@pytest.mark.req("E-14")
async def test_a_document_that_cannot_be_read_fails_in_a_sentence_and_one_misnamed_is_read(
    shell: Shell, tmp_path: Path
) -> None:
    pdf = ESTIMATE.read_bytes()
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "cut.pdf").write_bytes(pdf[: len(pdf) // 2])
    (tmp_path / "noise.pdf").write_bytes(bytes(range(256)) * 40)
    _locked_pdf(tmp_path / "locked.pdf")
    expected = {"empty.pdf": "empty", "cut.pdf": "damaged", "noise.pdf": "not a kind of", "locked.pdf": "password"}
    misnamed = ["really-a-pdf.docx", "a\x1b[2J\u202e\nb 表.pdf", f"{'long' * 60}.pdf"]
    for name in misnamed:
        (tmp_path / name).write_bytes(pdf)

    for name, said in expected.items():
        asked = await shell("ask", "What is the grand total?", "--document", name)
        assert (asked.code, said in asked.out) == (1, True), (name, asked)
    handed = [argument for name in misnamed for argument in ("--document", name)]
    asked = await shell("ask", "What is the grand total?", *handed)
    assert (asked.code, TOTAL in asked.out) == (0, True), asked
    assert "\u202e" not in asked.out + asked.err
    assert (await shell("verify")).code == 0


async def test_a_question_that_the_documents_do_not_answer_is_completed_and_says_so(shell: Shell) -> None:
    asked = await shell("ask", "Who was the first person on the moon?", "--document", ESTIMATE)
    assert (asked.code, "do not say" in asked.out) == (0, True), asked


async def test_sixty_documents_and_one_of_fifty_megabytes_are_handed_over(
    shell: Shell, service: Connections, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(60)]
    for path in paths:
        path.write_text(path.name)
    with (tmp_path / "large.txt").open("wb") as large:
        large.truncate(50_000_000)
    handed = [argument for path in [*paths, tmp_path / "large.txt"] for argument in ("--document", str(path))]
    asked = await shell("ask", "Write it.", *handed, "--no-serve", "--json")
    assert asked.code == 0, asked.err
    shown = (await shell("documents", asked.lines[-1]["workflowId"], "--json")).lines
    assert [each["size"] for each in shown[58:61]] == [6, 6, 50_000_000]


# --- requesting from a service ------------------------------------------------------------------------


@pytest.fixture
async def connections(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> AsyncGenerator[Connections, None]:
    """The same servers, with nobody serving."""
    async with connect(Settings(home=tmp_path / "home"), kafka=kafka, postgres=dsn) as connections:
        yield connections


async def test_a_request_that_nobody_takes_is_left_standing(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "HINT_AFTER", {"request": 0.2})
    monkeypatch.setattr(follow, "TAKEN_WITHIN", 1.0)
    said, identity = list[str](), RequestIdentity(source="/crm", id="1")

    with pytest.raises(NotServed, match="No process has taken the request within 1 s"):
        await ask(
            connections,
            RequestWorkflow(prompt="Write it."),
            (),
            identity=identity,
            callbacks=follow.Callbacks(requested=said.append, untaken=said.append),
        )

    assert said == [workflow_id(identity.source, identity.id), "request"]
    assert sum((await connections.log.ends(topics.REQUESTS.name)).values()) == 1


async def test_ctrl_c_leaves_the_request_standing_and_a_service_started_later_completes_it(
    shell: Shell, tmp_path: Path
) -> None:
    asking_ = await shell.start("ask", "Write it.", "--no-serve")
    workflow = (await told(asking_, "Workflow ")).split()[1]
    asking_.send_signal(signal.SIGINT)
    stopped = await ended(asking_)
    assert (stopped.code, stopped.out) == (130, "")
    assert f"workflow {workflow} remains in the log" in stopped.err
    assert f"`poweron watch {workflow}` shows it. `poweron cancel {workflow}` cancels it." in stopped.err

    environment = shell.environment | {"POWERON_MODEL": script(tmp_path, ONE_STEP)}
    with serving(environment, tmp_path, ["all"]):
        again = await shell("ask", "Write it.", "--no-serve")
        watched = await shell("watch", workflow)
    assert (again.code, again.out.startswith("It is written.")) == (0, True)
    assert (watched.code, "completed" in watched.err) == (0, True)


async def test_ctrl_c_while_this_process_serves_says_how_to_go_on(shell: Shell) -> None:
    asking_ = await shell.start("ask", "What is the grand total?", "--document", ESTIMATE)
    workflow = (await told(asking_, "Workflow ")).split()[1]
    asking_.send_signal(signal.SIGINT)
    stopped = await ended(asking_)
    assert stopped.code == 130
    assert f"workflow {workflow} remains in the log. `poweron serve` continues it" in stopped.err


async def test_a_cancelled_workflow_ends_ask_and_watch_with_what_happened(
    shell: Shell, service: Connections, model
) -> None:
    model.gate.clear()
    asking_ = await shell.start("ask", "Write it.", "--no-serve", "--json")
    workflow = (await told(asking_, "Workflow ")).split()[1]
    await told(asking_, " " * 14 + "requested")
    watching = await shell.start("watch", workflow)
    cancellation = RequestCancellation(workflow_id=workflow, round=1, reason="No longer needed.")
    value = encode_request(cancellation, source="/tests", request_id="1", time="2026-11-22T00:00:00.000Z")
    await told(watching, " " * 14 + "requested")
    await service.log.append(topics.REQUESTS.name, [Message(b"1", value)])

    cancelled = await ended(asking_)
    watched = await ended(watching)

    assert (cancelled.code, cancelled.lines[-1]["status"]) == (3, "cancelled")
    assert (watched.code, "cancelled" in watched.err) == (0, True)


# --- servers that are away ----------------------------------------------------------------------------


async def test_servers_that_refuse_are_named_in_a_sentence_that_says_what_to_do(shell: Shell) -> None:
    kafka = await shell("ask", "?", POWERON_KAFKA="127.0.0.1:1")
    postgres = await shell("ask", "?", POWERON_POSTGRES="postgresql://x@127.0.0.1:1/y")
    assert (kafka.code, postgres.code) == (1, 1)
    assert kafka.err.startswith("Kafka at 127.0.0.1:1 does not answer")
    assert postgres.err.startswith("Postgres does not answer")
    for said in (kafka, postgres):
        assert "`poweron status` shows which server answers." in said.err


@pytest.mark.soak
async def test_servers_that_take_a_connection_and_stay_silent_are_given_up(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        kafka = await shell("ask", "?", POWERON_KAFKA=f"127.0.0.1:{port}")
        postgres = await shell("workflows", POWERON_POSTGRES=f"postgresql://x@127.0.0.1:{port}/y")
        assert time.monotonic() - began < 30
    assert (kafka.code, kafka.err.startswith(f"Kafka at 127.0.0.1:{port} does not answer")) == (1, True)
    assert (postgres.code, postgres.err.startswith("Postgres does not answer")) == (1, True)


async def test_a_data_directory_that_cannot_be_used_is_named(shell: Shell) -> None:
    asked = await shell("ask", "?", POWERON_HOME="/dev/null/x")
    assert (asked.code, asked.err.startswith("'/dev/null/x/content' cannot be used: Not a directory.")) == (1, True)


# --- pipes --------------------------------------------------------------------------------------------


async def test_a_reader_that_goes_away_early_gets_no_complaint(shell: Shell, service: Connections) -> None:
    workflow = (await shell("ask", "Write it.", "--no-serve", "--json")).lines[-1]["workflowId"]
    for command in (f"events {workflow} --json", f"events {workflow}"):
        line = f"'{POWERON}' {command} | true"
        process = await asyncio.create_subprocess_shell(
            line, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert (await process.communicate())[1] == b"", command


@pytest.mark.req("H-01")
async def test_a_workflow_whose_request_was_refused_is_one_to_every_command(shell: Shell, service: Connections) -> None:
    request = RequestWorkflow.model_construct(prompt="What is it?", max_steps=1_000)
    sent = await send(service.log, request, source="/tests", request_id="too many steps")
    *_, refused = [heard async for heard in hear(service.log, sent)]
    assert isinstance(refused.event, RequestRefused)
    (listed,) = (await shell("workflows", "--json")).lines
    assert listed["workflowId"] == sent.workflow_id
    history = await shell("history", sent.workflow_id)
    assert (history.code, history.out) == (0, "")
    assert "never opened" in history.err
    assert (await shell("history", NOBODY)).code == 1
