"""`kill -9` at the events of policies, approvals and processes, once the log has them and before they are read back."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from beside import beside
from commands import Shell
from followed_workflows import Followed, send_request
from processes import Processes
from surviving import PERIOD, until
from test_policies import FOUR_EYES, Office, policy
from test_tool_kill import prepared

from builders import person
from poweron_events import RequestWorkflow, topics
from poweron_events.codec import read_record
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections
from poweron_services.wiring import ROLES

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

KILLED_PROCESS = Path(__file__).with_name("killed_process.py")
ESCALATING = FOUR_EYES.replace("notRequester = true", 'escalate = { after = "1s", to = ["admins"] }')
CHANGING = ("parameters.changed", "rules.changed", "approval.escalated")
EVERY = (*CHANGING, "policy.applied", "approval.requested", "approval.granted", "instance.started", "instance.ended")
ONE = ("all",)
TWO = ("all: first", "all: second")
APART = ("intake,projector", ",".join(role for role in ROLES if role not in ("intake", "projector")))
COURSE = [
    "WorkflowRequested",
    "TasksPlanned",
    "ActionSelected",
    "ParametersSet",
    "ApprovalRequested",
    "ParametersChanged",
    "ApprovalGranted",
    "RulesChanged",
    "ApprovalEscalated",
    "RequestRefused",
    "ApprovalGranted",
    "ActionStarted",
    "ActionCompleted",
    "ObservationRecorded",
    "RefinementDecided",
    "TaskReviewed",
    "RoundCompleted",
]


class KilledProcesses(Processes):
    """Processes that are killed with the first event of each of these types, and started again."""

    def __init__(
        self, environment: Mapping[str, str], folder: Path, events: Sequence[str], names: Sequence[str]
    ) -> None:
        super().__init__(environment, folder)
        self.events = events
        self.names = names
        self.starts = 0
        self._types = ",".join(f"poweron.{name}.v1" for name in events)
        self._kills = folder / "kills"
        self._kills.mkdir()

    @property
    def kills(self) -> int:
        return len([*self._kills.iterdir()])

    def start(self, name: str) -> None:
        roles = ",".join(ROLES) if name.startswith("all") else name
        self.starts += 1
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, KILLED_PROCESS, self._kills, self._types, roles],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def keep_up(self) -> None:
        """Start them, and start again whichever ends."""
        for name in self.names:
            self.start(name)
        try:
            while True:
                for name, process in [*self._running.items()]:
                    if process.poll() is not None:
                        self.start(name)
                await asyncio.sleep(PERIOD)
        finally:
            self.stop()


@pytest.fixture(
    params=[
        pytest.param((CHANGING, ONE), id="what changes an approval", marks=pytest.mark.soak),
        pytest.param(((), ONE), id="nothing", marks=pytest.mark.soak),
        *(pytest.param(((name,), ONE), id=name, marks=pytest.mark.soak) for name in EVERY),
        pytest.param((EVERY, ONE), id="everything", marks=pytest.mark.soak),
        pytest.param((EVERY, TWO), id="everything, two processes", marks=pytest.mark.soak),
        pytest.param((EVERY, APART), id="everything, roles apart", marks=pytest.mark.soak),
    ]
)
def processes(request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> KilledProcesses:
    prepared(environment, tmp_path, "count")
    return KilledProcesses(environment, tmp_path, *request.param)


@pytest.mark.req("E-06")
@pytest.mark.req("E-08")
async def test_a_process_killed_with_an_event_goes_on_as_if_nothing_had_happened(
    shell: Shell, connections: Connections, processes: KilledProcesses, tmp_path: Path
) -> None:
    """Dora proposes other parameters, Bob approves, the rules change, and Carla approves once it is escalated."""
    events, names = processes.events, processes.names
    started = len(names) + len(events) + ("instance.ended" not in events)
    async with beside(processes.keep_up()):
        assert await course(Office(shell), connections, tmp_path) == COURSE
        processes.running[names[0]].send_signal(signal.SIGTERM)
        await until(lambda: (processes.starts, processes.kills) == (started, len(events)), "all were killed")
        found = await recorded(connections, started)
    assert (tmp_path / "count").read_text() == "again\n"
    assert found.count(["InstanceStarted"]) == started - 1
    assert found.count(["InstanceStarted", "InstanceEnded"]) == 1
    assert found.count(["PolicyApplied", "PolicyApplied"]) == 1
    assert len(found) == started + 2
    assert (await verify(connections.log, connections.pool)).differences == []


async def course(office: Office, connections: Connections, folder: Path) -> list[str]:
    """The accepted events of a workflow whose action two people approve; one answers before most of the kills."""
    assert (await office("carla", "policy", "apply", policy(folder, FOUR_EYES))).code == 0
    request = RequestWorkflow(prompt="Count.", actor=person("ada"))
    followed = Followed(connections.log, await send_request(connections, request))
    async with beside(followed.follow()):
        id_ = followed.workflow.id
        await until(lambda: followed.workflow.phase == "approve", "the action waits")
        assert await office.answer("dora", id_, "approve", "--set", "text=again") == ("proposed", None)
        assert await office.answer("bob", id_) == ("counted", None)
        changed = await office("carla", "policy", "apply", policy(folder, ESCALATING), "--also-open", "--json")
        assert [line.get("status") for line in changed.lines] == [None, "applied"]
        await until(lambda: followed.of("ApprovalEscalated"), "the approval is escalated")
        assert await office.answer("dora", id_) == ("refused", "own_proposal")
        assert await office.answer("carla", id_) == ("approved", None)
        await followed.ended()
    return [type(event).__name__ for event in followed.accepted]


async def recorded(connections: Connections, starts: int) -> list[list[str]]:
    """The accepted events of each key of the log, once so many processes have recorded their start."""
    async with asyncio.timeout(60):
        while True:
            found = await accepted(connections)
            if sum("InstanceStarted" in each for each in found) >= starts:
                return found


async def accepted(connections: Connections) -> list[list[str]]:
    """The accepted events of each key of the log."""
    found: dict[str, list[str]] = {}
    states: dict[str, Workflow] = {}
    ends = await connections.log.ends(topics.EVENTS.name)
    async for records in connections.log.read(topics.EVENTS.name, dict.fromkeys(ends, 0), ends):
        for record in map(read_record, records):
            key = record.envelope.workflow_id
            states[key], verdict = evolve(states.get(key, Workflow(key)), record)
            if verdict == "accepted":
                found.setdefault(key, []).append(type(record.envelope.event).__name__)
    return [*found.values()]
