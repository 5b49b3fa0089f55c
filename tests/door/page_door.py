"""A door for a module of tests, in a thread of its own, with a client and a browser."""

import asyncio
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import asyncpg
import httpx2
import orjson
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from servers import Pair

from poweron_services.door import http_server
from poweron_services.door.http_guard import LOOPBACK_NAMES
from poweron_services.settings.config import Settings

READY_WITHIN = 60.0  # seconds
DOCUMENTS = Path(__file__).parents[2] / "docs/examples"


@dataclass(frozen=True)
class PageDoor:
    """A door that is open, and what asks it."""

    settings: Settings
    address: str
    http: httpx2.Client
    told: Sequence[str] = ()
    """What it said about its start."""

    def ask(self, prompt: str, *names: str, wait: bool = True, **more: Any) -> str:
        """Ask something about documents of the examples; return the workflow once its round has ended."""
        files = [(name, (DOCUMENTS / name).read_bytes()) for name in names]
        return self.ask_about(prompt, files, wait=wait, **more)

    def ask_about(self, prompt: str, files: Sequence[tuple[str, bytes]], *, wait: bool = True, **more: Any) -> str:
        response = self.http.post(
            "/api/v1/workflows",
            files=[("request", (None, orjson.dumps({"prompt": prompt, **more}))), *(("file", file) for file in files)],
            headers={"Prefer": "wait=60"} if wait else {},
        )
        assert response.is_success, response.text
        workflow: str = response.json()["workflowId"]
        return workflow

    def state(self, workflow: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/api/v1/workflows/{workflow}").json()
        return found

    def until(self, workflow: str, **wanted: object) -> None:
        """Wait until the rows show the workflow like this."""
        deadline = time.monotonic() + READY_WITHIN
        while {name: self.state(workflow).get(name) for name in wanted} != wanted:
            assert time.monotonic() < deadline, self.state(workflow)


NARROW, WIDE = ViewportSize(width=320, height=800), ViewportSize(width=1280, height=900)
ZOOMED = ViewportSize(width=640, height=450)
Look = tuple[ViewportSize, Literal["light", "dark"]]
LOOKS = [
    pytest.param([(WIDE, "light"), (NARROW, "dark")], id="wide, light and narrow, dark"),
    pytest.param([(WIDE, "dark"), (NARROW, "light"), (ZOOMED, "light")], id="others", marks=pytest.mark.soak),
]
"""The widths and colour schemes in which every page is looked at; zoomed to 200 %, half as much is seen."""
AXE = Axe()


@contextmanager
def page_door(pair: Pair, home: Path) -> Generator[PageDoor, None, None]:
    """A door with rows and topics of its own."""
    name = f"t{uuid.uuid4().hex}"
    asyncio.run(_execute(pair.postgres, f"CREATE DATABASE {name}"))
    base, question, options = pair.postgres.partition("?")
    dsn = f"{base.rpartition('/')[0]}/{name}{question}{options}"
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in replace(pair.kafka, prefix=f"{name}.").environment().items():
            patch.setenv(variable, value)
        settings = Settings(home=home, postgres=dsn)
        told = list[str]()
        with _serving(settings, told.append) as address, httpx2.Client(base_url=address, timeout=READY_WITHIN) as http:
            while http.get("/api/v1/workflows").status_code == 503:
                pass
            yield PageDoor(settings, address, http, told)
    leave = (
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND usename = current_user"
    )
    asyncio.run(_execute(pair.postgres, leave, f"DROP DATABASE {name}"))


@contextmanager
def _serving(settings: Settings, progress: Callable[[str], None]) -> Generator[str, None, None]:
    sock = http_server.listening("127.0.0.1", 0)
    host, port = sock.getsockname()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        running = asyncio.create_task(
            http_server.run(settings, sock, LOOPBACK_NAMES, is_local=True, serving=True, progress=progress)
        )
        await stop.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # at its end, no task is left and nothing stays open
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"http://{host}:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _execute(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def chromium() -> Generator[Browser, None, None]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("there is no Chromium; `apt-get install chromium` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page, and what went wrong on it."""

    page: Page
    problems: list[str]


@contextmanager
def watched(browser: Browser, address: str, **options: Any) -> Generator[Watched, None, None]:
    """A page that collects errors, dialogs and requests to other hosts."""
    context = browser.new_context(base_url=address, **options)
    page, problems = context.new_page(), list[str]()
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on("request", lambda sent: None if sent.url.startswith(address) else problems.append(sent.url))
    try:
        yield Watched(page, problems)
    finally:
        context.close()


def expect_accessible(browser: Browser, address: str, paths: Sequence[str], looks: Sequence[Look]) -> None:
    """Check each page in each look: axe finds nothing, nothing is too wide, and no other host is asked."""
    with watched(browser, address, reduced_motion="reduce") as seen:  # colours change at once
        for path in paths:
            response = seen.page.goto(path)
            assert response is not None
            assert response.status < 500, path
            if response.status >= 400:
                seen.problems[:] = [each for each in seen.problems if f"status of {response.status}" not in each]
            for viewport, scheme in looks:
                seen.page.set_viewport_size(viewport)
                seen.page.emulate_media(color_scheme=scheme)
                results = AXE.run(seen.page)
                assert results.response["passes"]
                assert not results.response["violations"], (path, viewport, scheme, results.generate_report())
                wider = seen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wider <= 0, f"{path} is {wider} pixels too wide"
        assert seen.problems == []
