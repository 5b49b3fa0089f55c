"""Tools over MCP: compare those of other servers with the approved ones, approve them, and serve PowerOn's own.

While PowerOn serves, stdout belongs to the protocol, so progress goes to the assistant or to stderr.
"""

import asyncio
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import orjson
from mcp.server.stdio import stdio_server
from rich.text import Text

from poweron_events.client import Heard
from poweron_events.errors import PowerOnError, Refused
from poweron_services import wiring
from poweron_services.actions.server_tool import ServerTool
from poweron_services.cli.advice import advice_for
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import explained, stop
from poweron_services.cli.output import counted, one_line, print_json, printable, stdout, tell
from poweron_services.client.connect import Connections
from poweron_services.client.event_words import told_lines
from poweron_services.connectors.mcp.server_list import FORM, HttpServer, read_servers
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool
from poweron_services.connectors.mcp.tool_description import (
    KnownTools,
    ToolDescription,
    action_of,
    what_changed,
    with_own_names,
)
from poweron_services.connectors.mcp.tool_server import NotLet, ToolServer, tool_servers
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.decider.schema_check import check_description
from poweron_services.mcp_server.answerable_requests import answerable
from poweron_services.mcp_server.file_access import AllowedFolders
from poweron_services.mcp_server.tool_calls import ToolCalls, workplace
from poweron_services.mcp_server.tool_protocol import tool_server
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

State = Literal["approved", "new", "changed", "gone", "unusable"]
NO_SERVERS: Final = "No servers of tools are configured. Set POWERON_MCP to a file that lists some."
EMPTY: Final = "{file!r}, which POWERON_MCP names, lists no enabled server; add one, like {form}."
_TIMEOUT: Final = "If it is slow, `poweron.timeout` of the entry gives it more seconds."
DIGEST: Final = 12  # characters that are shown
MAX_DIFF: Final = 200  # lines
MAX_SENTENCE: Final = 600  # characters


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool, and how it compares with what was approved."""

    action: str
    state: State
    description: ToolDescription
    needs_approval: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CheckedServer:
    """A server, its tools, and any problem with it."""

    name: str
    tools: tuple[CheckedTool, ...]
    problem: str = ""
    advice: str = ""
    """How to solve the problem."""

    @property
    def works(self) -> bool:
        return not self.problem and not any(tool.state in ("changed", "gone") for tool in self.tools)


async def check_servers(settings: Settings, *, as_json: bool) -> bool:
    """Ask the servers concurrently, and print each one as soon as it answers or times out; true if all work."""
    entries, known = _entries(settings), KnownTools.of_home(settings.home)
    longest = max(entry.timeout for entry in entries)
    tell(f"Asking {counted(len(entries), 'server')}; each has up to {longest:g} s to start.")
    work = True
    async with tool_servers(entries, WebSettings.of(settings)) as servers:
        for answer in asyncio.as_completed([_ask(server, known) for server in servers]):
            result = await answer
            work &= result.works
            if as_json:
                print_json(_object(result))
            else:
                _print(result)
    return work


def _entries(settings: Settings) -> Any:
    entries = () if settings.mcp is None else read_servers(settings.mcp, os.environ)
    if not entries:
        stop(EMPTY.format(file=str(settings.mcp), form=FORM) if settings.mcp else NO_SERVERS, USAGE)
    return entries


async def _ask(server: ToolServer, known: KnownTools) -> CheckedServer:
    name = server.entry.name
    approved = {tool.name: tool for tool in known.of(name) or ()}
    try:
        offers = await server.tools()
    except PowerOnError as error:
        problem = f"{error} It said: {error.detail}" if error.detail else str(error)
        tools = tuple(_tool(server, tool, "approved") for tool in approved.values())
        return CheckedServer(name, tools, problem, _advice(server, error))
    return CheckedServer(name, tuple(_compare(server, approved, offers)))


def _advice(server: ToolServer, error: PowerOnError) -> str:
    """Return advice for the author of the file; empty if the problem already gives it."""
    if isinstance(error, NotLet):
        return ""
    if isinstance(server.entry.place, HttpServer):
        return f"Check that `url` and `headers` of its entry are right, and that it runs. {_TIMEOUT}"
    return f"Run its `command` with its `args` yourself to see what it lacks. {_TIMEOUT}"


def _compare(
    server: ToolServer, approved: Mapping[str, ToolDescription], offers: Mapping[str, ToolDescription]
) -> list[CheckedTool]:
    names = with_own_names(server.entry.name, {**approved, **offers})  # the names once all are approved
    usable_tools = {*with_own_names(server.entry.name, approved).values()} | {*names.values()} - approved.keys()
    results = []
    for tool, now in offers.items():
        before = approved.get(tool)
        if tool not in usable_tools:
            results.append(_tool(server, now, "unusable", "Another tool has the same name as an action."))
        elif before is None:
            results.append(_tool(server, now, "new"))
        elif before.digest == now.digest:
            results.append(_tool(server, now, "approved"))
        else:
            results.append(_tool(server, now, "changed", f"Since it was approved, {what_changed(now, before)}."))
    gone = [approved[tool] for tool in approved if tool not in offers]
    return [*results, *(_tool(server, tool, "gone", "The server no longer offers it.") for tool in gone)]


def _tool(server: ToolServer, description: ToolDescription, state: State, problem: str = "") -> CheckedTool:
    tool = ApprovedTool(action_of(server.entry.name, description.name), description, server)
    try:
        check_description(ServerTool.of(tool).spec)
    except Refused as error:
        state, problem = "unusable", str(error)
    return CheckedTool(tool.action, state, description, tool.needs_approval, problem)


async def approve_tools(settings: Settings, which: str, *, as_json: bool) -> int:
    """Approve the tools of all servers, of `SERVER` or of `SERVER.TOOL`, and return how many have changed."""
    known, entries = KnownTools.of_home(settings.home), _entries(settings)
    server_name, _, tool = which.partition(".")
    selection = [entry for entry in entries if server_name in ("", entry.name, entry.method)]
    if not selection:
        stop(f"There is no server {server_name!r}; there are {', '.join(entry.name for entry in entries)}.", USAGE)
    async with tool_servers(selection, WebSettings.of(settings)) as servers:
        return sum([await _approve(server, known, tool, as_json=as_json) for server in servers])


async def _approve(server: ToolServer, known: KnownTools, tool: str, *, as_json: bool) -> int:
    """Approve all tools of the server, or the named one, and return how many have changed."""
    name, offers = server.entry.name, await server.tools()
    approved = {description.name: description for description in known.of(name) or ()}
    selection = {
        tool_name
        for tool_name in {**approved, **offers}
        if tool in ("", tool_name, action_of(name, tool_name).partition(".")[2])
    }
    if not selection:
        stop(f"The server {name!r} has no tool {tool!r}; it has {', '.join(sorted(offers))}.", USAGE)
    different = [
        tool_name
        for tool_name in sorted(selection)
        if _description_lines(approved.get(tool_name)) != _description_lines(offers.get(tool_name))
    ]
    for tool_name in different:
        before, now = approved.get(tool_name), offers.get(tool_name)
        if as_json:
            print_json({"action": action_of(name, tool_name), "tool": tool_name, "changed": _difference(before, now)})
        else:
            _print_difference(action_of(name, tool_name), before, now)
    others = {tool_name: description for tool_name, description in approved.items() if tool_name not in selection}
    known.approve(name, [*others.values(), *(offers[tool_name] for tool_name in offers if tool_name in selection)])
    return len(different)


def _description_lines(description: ToolDescription | None) -> list[str]:
    """Return the description of a tool, line by line."""
    if description is None:
        return []
    pretty = orjson.dumps(description.written, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    return pretty.decode().splitlines()


def _difference(before: ToolDescription | None, now: ToolDescription | None) -> str:
    return "is new" if before is None else what_changed(now, before)


def _print_difference(action: str, before: ToolDescription | None, now: ToolDescription | None) -> None:
    stdout.print(Text(f"{action}: {_difference(before, now)}. Approved.", style="bold"))
    lines = [*difflib.unified_diff(_description_lines(before), _description_lines(now), lineterm="", n=2)][2:]
    for line in lines[:MAX_DIFF]:
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else ""
        stdout.print(Text(f"  {printable(line)}", style=style))
    if len(lines) > MAX_DIFF:
        stdout.print(f"  … and {len(lines) - MAX_DIFF} more lines")


def _object(server: CheckedServer) -> dict[str, Any]:
    """Return a server as `--json` prints it."""
    return {
        "server": server.name,
        "works": server.works,
        "problem": server.problem or None,
        "advice": server.advice or None,
        "tools": [
            {
                "action": tool.action,
                "tool": tool.description.name,
                "state": tool.state,
                "digest": tool.description.digest,
                "effectClass": tool.description.effect_class,
                "needsApproval": tool.needs_approval,
                "problem": tool.problem or None,
            }
            for tool in server.tools
        ],
    }


_STYLES: Final[dict[State, str]] = {
    "approved": "bold green", "new": "bold yellow", "changed": "bold red", "gone": "bold red", "unusable": "yellow",
}  # fmt: skip


def _print(server: CheckedServer) -> None:
    row = Text(f"{one_line(server.name)}  ")
    row.append("works" if server.works else "fails", style="bold green" if server.works else "bold red")
    stdout.print(row.append(f"  {counted(len(server.tools), 'tool')}"))
    if server.problem:
        stdout.print(f"  {one_line(server.problem, MAX_SENTENCE)}")
        if server.advice:
            stdout.print(f"  {server.advice}")
    width = max((len(tool.action) for tool in server.tools), default=0)
    for tool in server.tools:
        line = Text(f"  {tool.action:<{width}}  ")
        line.append(f"{tool.state:<8}", style=_STYLES[tool.state])
        asks = "asks first" if tool.needs_approval else "runs"
        line.append(f"  {tool.description.digest[:DIGEST]}  {tool.description.effect_class:<12}  {asks}")
        stdout.print(line)
        if tool.problem:
            advice = f" {advice_for('tool_changed')}" if tool.state in ("changed", "gone") else ""
            stdout.print(f"    {one_line(tool.problem + advice, MAX_SENTENCE)}")


async def serve(settings: Settings, folders: Sequence[Path], *, serving: bool) -> None:
    """Serve until stdin ends; play the roles too, unless another process does the work."""
    roles = partial(_play, settings) if serving else _leave_to_others
    async with (
        workplace(partial(open_connections, settings, tell), roles) as place,
        stdio_server() as (received, write),
        answerable(received) as read,
    ):
        server = tool_server(ToolCalls(place, AllowedFolders.of(folders), _narrate), explained)
        await server.run(read, write, server.create_initialization_options())


async def _play(settings: Settings, connections: Connections) -> None:
    async with wiring.open_model(settings) as model:
        await wiring.keep_serving(connections, wiring.ROLES, model)


async def _leave_to_others(_: Connections) -> None:
    await asyncio.get_running_loop().create_future()


def _narrate(record: Heard) -> Iterator[str]:
    for place, word, sentence in told_lines(record):
        yield " ".join(filter(None, (f"{place}:" if place else "", f"{word}:", sentence)))
