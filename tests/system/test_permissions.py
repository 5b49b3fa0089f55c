"""`poweron permissions` on real servers: what processes recorded, and what two policies allowed at their times."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import Shell
from processes import Processes, serving

from poweron_events.request import POLICY_ID

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

EVERYTHING = {"apply": ["admins"], "groups": {"admins": {"members": ["carla"]}}, "otherwise": "allow"}
NO_WEB = {**EVERYTHING, "rules": [{"actions": ["web.*"], "decision": "deny"}]}


@pytest.mark.req("H-04")
async def test_a_process_is_recorded_and_what_was_allowed_follows_from_policies_and_processes(
    shell: Shell, environment: dict[str, str], tmp_path: Path
) -> None:
    with serving({**environment, "POWERON_DENY": "document.*", "POWERON_ACTOR": "carla"}, tmp_path, []) as processes:
        processes.start("all")
        first = await applied(shell, EVERYTHING)
        second = await applied(shell, NO_WEB)
        assert await allowed(shell, "--at", "2020-01-01") == {}, "no process was running"
        assert (await allowed(shell, "--at", first["time"]))["web.crawl"] == "allowed"
        now = await allowed(shell)
        assert (now["web.crawl"], now["document.extract"], now["ai.process"]) == ("denied", "denied", "allowed")

        (event, _) = (await shell("events", POLICY_ID, "--json")).lines
        (process,) = (await shell("permissions", "--instance", event["source"], "--json")).lines
        assert (process["ended"], process["record"]["denied"]) == (None, ["document.*"])
        assert process["record"]["settings"]["POWERON_DENY"] == "document.*"
        assert "POWERON_POSTGRES" not in process["record"]["settings"]
        shown = (await shell("permissions", "--at", first["time"])).out
        assert shown.startswith(f"Permissions at {first['time'][:19].replace('T', ' ')} (UTC), for rounds that were")
        shown = (await shell("permissions", "--actor", "carla")).out
        assert "\nweb.crawl: denied (rule 1)\n" in shown
        assert f"\nai.process: allowed (otherwise)\n    can be executed by {process['instance']}\n" in shown

        told = (await shell("permissions", "--instance", process["instance"])).out
        assert told.startswith(f"Process {process['instance']}\n  release: ")
        assert "  denied:    document.*\n" in told

        await stopped(processes, "all")
        (ended,) = (await shell("permissions", "--instance", process["instance"], "--json")).lines
        assert ended["ended"] > second["time"]
        assert (await allowed(shell)).keys() == set()

        processes.start("all")
        await recorded(shell)
        processes.kill("all")
        (killed,) = (await answer(shell))["processes"]
        assert (killed["instance"] != process["instance"], killed["ended"]) == (True, None)
        (named,) = (await answer(shell, "--action", "mail.send"))["permissions"]
        assert (named["decision"], named["processes"]) == ("denied", []), "no allow list has it"
        assert (await shell("verify", "--json")).lines[0]["differences"] == []


async def applied(shell: Shell, policy: dict[str, Any]) -> dict[str, Any]:
    """Apply a policy; return its line in the log of policies."""
    (shell.folder / "policy.json").write_bytes(orjson.dumps(policy))
    found = await shell("policy", "apply", "policy.json", POWERON_ACTOR="carla")
    assert found.code == 0, found.err
    newest: dict[str, Any] = (await shell("policy", "log", "--json")).lines[0]
    return newest


async def answer(shell: Shell, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (await shell("permissions", *arguments, "--json")).lines
    return found


async def allowed(shell: Shell, *arguments: str) -> dict[str, str]:
    """What is decided about each action."""
    return {each["action"]: each["decision"] for each in (await answer(shell, *arguments))["permissions"]}


async def recorded(shell: Shell) -> None:
    """Wait until a process has recorded its start."""
    async with asyncio.timeout(60):
        while not (await answer(shell))["processes"]:  # noqa: ASYNC110 - the rows must be polled
            await asyncio.sleep(0.1)


async def stopped(processes: Processes, roles: str) -> None:
    """Stop a process as an operator does, and wait for its end."""
    process = processes.running[roles]
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(process.wait, 10)
