"""`poweron door`: the HTTP API and the web pages."""

import re
import webbrowser
from contextlib import suppress
from typing import Annotated, Final

import typer

from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentences, stop
from poweron_services.cli.output import and_joined, stdout, tell

_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\s]+):(?P<port>\d{1,5})")


CREATE_KEYS: Final = "Create one with `poweron keys add NAME --actor ACTOR --scope read,content,request`."
NEEDS_KEYS: Final = (
    f"Other machines can connect, so every request needs a key. {CREATE_KEYS} Keys and answers are not encrypted: put "
    "a proxy with TLS in front of the door, and name its host with --host; without one, no browser can log in."
)


@sentences()
def door(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; other addresses require keys.")
    ] = "127.0.0.1:8800",
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="A further name by which clients reach it; repeatable."),
    ] = None,
    no_serve: Annotated[
        bool, typer.Option("--no-serve", help="Play no role; a `poweron serve` elsewhere does the work.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve web pages and an HTTP API.

    Starts Kafka and Postgres unless settings name them, and plays all roles unless --no-serve is given.
    """
    address, port = _address(listen)
    names = frozenset(map(_name, host or []))
    from poweron_services.door import http_server  # noqa: PLC0415 - slow to import
    from poweron_services.door.http_guard import LOOPBACK_NAMES  # noqa: PLC0415 - slow to import

    settings = load_settings()
    sock = http_server.listening(address, port)
    is_local = http_server.is_loopback(address)
    if names or not is_local:
        tell(NEEDS_KEYS if not is_local else f"Requests for {and_joined(sorted(names))} need a key. {CREATE_KEYS}")
    stdout.print(f"PowerOn is at http://{listen}")
    if open_page:
        webbrowser.open(f"http://{listen}")
    with suppress(KeyboardInterrupt):
        run_work(
            http_server.run(
                settings,
                sock,
                LOOPBACK_NAMES | names | {address},
                is_local=is_local,
                serving=not no_serve,
                progress=tell,
            )
        )


def _address(listen: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(listen)
    if match is None or not int(match["port"]) < 65_536:
        stop(f"--listen: {listen!r} is not HOST:PORT; write for example 127.0.0.1:8800 or [::1]:8800.", USAGE)
    return match["host"].strip("[]"), int(match["port"])


def _name(given: str) -> str:
    from poweron_services.door.http_guard import plain_host  # noqa: PLC0415 - slow to import

    bracketed = f"[{given}]" if given.count(":") > 1 and "[" not in given else given
    name = None if re.search(r"^[^:]*:[^:]*$|\]:", given) else plain_host(bracketed)
    if name is None:
        stop(f"--host: {given!r} is no name of a host; write for example poweron.example.com, without port.", USAGE)
    return name
