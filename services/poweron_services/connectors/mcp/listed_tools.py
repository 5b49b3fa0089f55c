"""Filtering of incoming lists of tools: one tool that breaks the protocol would make the SDK reject the whole list."""

from typing import Any, Final

from mcp_types import JSONRPCResponse, ListToolsResult
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from poweron_events.validation_messages import named, worded

METHOD: Final = "tools/list"
MAX_TOOLS: Final = 500
"""Tools used of one server, and checked in one list: checking ten thousand takes as long as starting the server."""


def leave_out_unreadable(message: Any, version: str) -> dict[str, str]:
    """Remove invalid tools from the message, if it is a list of tools, and return the reasons by tool name.

    If the list has more than `MAX_TOOLS` tools, one extra tool is kept, so the caller can tell that there are more.
    """
    listed = message.result if isinstance(message, JSONRPCResponse) else {}
    if not isinstance(listed.get("tools"), list):
        return {}
    tools = listed["tools"] = listed["tools"][: MAX_TOOLS + 1]
    if not (wrong := _problems(listed, version)):
        return {}
    listed["tools"] = [tool for number, tool in enumerate(tools) if number not in wrong]
    return {_name(tools[number], number): why for number, why in wrong.items()}


def _problems(listed: dict[str, Any], version: str) -> dict[int, str]:
    """The problem with each invalid tool, by its position in the list."""
    try:
        validate_server_result(METHOD, version, listed)
        ListToolsResult.model_validate(listed)
    except ValidationError as error:
        found: dict[int, str] = {}
        for problem in error.errors(include_url=False, include_input=False):
            match problem["loc"]:
                case ("tools", int(number), *place):
                    told = worded(place, problem["type"], problem.get("ctx", {}))
                    found.setdefault(number, told or f"{named(place)} is not as the protocol wants it")
        return found
    except (KeyError, ValueError):  # the SDK has no schema for this protocol version
        return {}
    return {}


def _name(tool: Any, number: int) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) and name else f"tool {number + 1}"
