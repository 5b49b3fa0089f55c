"""`poweron door`: the HTTP API and the web pages."""

import re
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from poweron_services.cli.arguments import NoServe
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentences, stop
from poweron_services.cli.output import stdout, tell

_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\s]+):(?P<port>\d{1,5})")


@sentences()
def door(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; other addresses require keys.")
    ] = "127.0.0.1:8800",
    no_serve: NoServe = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve web pages and an HTTP API.

    Starts Kafka and Postgres unless settings name them, and plays all roles unless --no-serve is given.
    """
    host, port = _address(listen)
    from poweron_services.door import http_server  # noqa: PLC0415 - slow to import

    settings = load_settings()
    sock = http_server.listening(host, port)
    is_local = host in http_server.LOOPBACK
    address = f"http://{listen}"
    stdout.print(f"PowerOn is at {address}")
    if open_page:
        webbrowser.open(address)
    with suppress(KeyboardInterrupt):
        run_work(
            http_server.run(
                settings,
                sock,
                http_server.LOOPBACK if is_local else frozenset(),
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
