"""Servers of tools for tests: the file that names them, and their tools as actions."""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from poweron_events.json_schema import UnusableSchema
from poweron_services.actions.action import Action
from poweron_services.actions.server_tool import ServerTool
from poweron_services.connectors.mcp.server_list import read_servers
from poweron_services.connectors.mcp.tool_catalog import approved_tools
from poweron_services.connectors.mcp.tool_description import KnownTools
from poweron_services.connectors.mcp.tool_server import tool_servers
from poweron_services.connectors.web.web_rules import WebSettings

LYING = Path(__file__).with_name("lying_server.py")
KEY = "sk-0123456789-of-nobody"


def named(folder: Path, entries: Mapping[str, Mapping[str, Any]]) -> Path:
    """A file as other MCP clients have it."""
    path = folder / "mcp.json"
    path.write_bytes(orjson.dumps({"mcpServers": entries}))
    return path


def lying(folder: Path, **poweron: Any) -> dict[str, Any]:
    """The entry of the server that lies; it counts in this folder."""
    env = {"FOLDER": str(folder), "KEY": "${MUSEUM_KEY}"}
    return {"command": sys.executable, "args": ["-S", str(LYING)], "env": env, "poweron": {"timeout": 5, **poweron}}


@asynccontextmanager
async def tools_of(
    path: Path, home: Path, *, web: WebSettings | None = None
) -> AsyncGenerator[dict[str, Action], None]:
    """The tools of the servers that a file names, as actions by their names; those that cannot be used are left out."""
    entries = read_servers(path, {"PATH": "/usr/bin:/bin", "MUSEUM_KEY": KEY})
    async with tool_servers(entries, web or WebSettings()) as servers:
        actions: dict[str, Action] = {}
        for tool in await approved_tools(servers, KnownTools(home)):
            try:
                actions[tool.action] = ServerTool.of(tool)
            except UnusableSchema:
                continue
        yield actions
