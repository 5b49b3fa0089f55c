"""A peer: any command that runs the workload of the benchmark and prints its figures.

The workload: 200 workflows of 5 iterations of 5 durable steps, 64 at once; then one workflow at a time.
"""

import asyncio
import shlex
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, Field, ValidationError

from poweron_events.errors import Refused
from poweron_services.settings.setting_commands import command_of

DEADLINE: Final = 600.0  # seconds for one run
LAST_WORDS: Final = 500  # characters

COMMAND_EXAMPLE: Final = "python peer.py"
EXAMPLE: Final = '{"peer": "name", "iter_p50_ms": 8.1, "iter_per_s": 305, "cpu_s_per_1000_iter": 5.4}'


class PeerFigures(BaseModel):
    """The figures of one run of a peer."""

    peer: str = "peer"
    iteration_p50_ms: float = Field(alias="iter_p50_ms", gt=0)
    """Measured with one workflow at a time."""
    iterations_per_second: float = Field(alias="iter_per_s", gt=0)
    cpu_seconds_per_1000_iterations: float = Field(alias="cpu_s_per_1000_iter", gt=0)
    """The CPU time of all its processes."""

    def told(self) -> str:
        return speed_told(self.peer, self.iterations_per_second, self.iteration_p50_ms)


def speed_told(who: str, iterations_per_second: float, iteration_p50_ms: float) -> str:
    """Return one side's speed in one turn, as a sentence."""
    return f"{who}: {iterations_per_second:,.0f} iterations/s, one in {iteration_p50_ms:.1f} ms."


def peer_command(line: str) -> tuple[str, ...]:
    """Return the command that a user has given.

    Raises:
        Refused: it cannot be run on this machine.
    """
    try:
        return command_of(line, like=COMMAND_EXAMPLE)
    except ValueError as error:
        raise Refused(f"--peer: {error}.") from error


async def measured_peer(command: Sequence[str]) -> PeerFigures:
    """Run the command once and return the figures of the last line that has any.

    Raises:
        Refused: it fails, times out or prints no figures; the message includes the end of its output, if it ended.
    """
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, stdin=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(DEADLINE):
            printed, complained = await process.communicate()
    except TimeoutError as error:
        raise Refused(f"The peer {shlex.join(command)} did not end within {DEADLINE:g} s.") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = [figures for line in printed.decode(errors="replace").splitlines() if (figures := _figures(line))]
    if process.returncode or not found:
        words = (complained or printed).decode(errors="replace").strip()[-LAST_WORDS:]
        raise Refused(
            f"The peer {shlex.join(command)} ended with {process.returncode} and told {len(found)} lines of figures; "
            f"a line like {EXAMPLE} is wanted. Its last words: {words}"
        )
    return found[-1]


def _figures(line: str) -> PeerFigures | None:
    try:
        return PeerFigures.model_validate_json(line.strip().removeprefix("RESULT "))
    except ValidationError:
        return None
