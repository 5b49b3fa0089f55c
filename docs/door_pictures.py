"""Takes screenshots of the door's pages: `uv run docs/door_pictures.py` writes `docs/pictures/door-*.png`.

Starts a door with its own Kafka and Postgres, asks questions about the example documents, and needs Chromium.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import orjson
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

HOUSE = Path(__file__).resolve().parent.parent
EXAMPLES, PICTURES = HOUSE / "docs" / "examples", HOUSE / "docs" / "pictures"
ADDRESS = "127.0.0.1:8842"
DEADLINE = 120.0  # seconds
SIZE = {"width": 1280, "height": 820}
COLOURS = 128
TOTAL = "What is the grand total of the estimate, and what was repaired?"


@contextmanager
def opened() -> Generator[httpx2.Client, None, None]:
    """Start a door with an empty data directory; Ada is the actor of all requests."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "POWERON_HOME": home,
            "POWERON_ACTOR": "ada",
            "POWERON_KAFKA": "",
            "POWERON_POSTGRES": "",
        }
        command = [Path(sys.executable).with_name("poweron"), "door", "--listen", ADDRESS]
        door = subprocess.Popen(command, env=environment)  # noqa: S603 - our own program
        with door, httpx2.Client(base_url=f"http://{ADDRESS}") as http:
            try:
                wait_until(lambda: http.get("/readyz").is_success)
                yield http
            finally:
                door.terminate()


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll a condition until it holds, and raise TimeoutError after the deadline."""
    deadline = time.monotonic() + DEADLINE
    while not _holds(condition):
        if time.monotonic() > deadline:
            raise TimeoutError("The door has not reached the state that the pictures show.")
        time.sleep(0.1)


def _holds(condition: Callable[[], bool]) -> bool:
    """Return whether the condition holds; it does not while the door refuses connections."""
    try:
        return condition()
    except httpx2.TransportError:
        return False


def ask(http: httpx2.Client, prompt: str, *names: str, wait: bool = True, **more: Any) -> str:
    """Send a question about example documents; return the id of the workflow, by default after it has ended."""
    files = [("request", (None, orjson.dumps({"prompt": prompt, **more})))]
    files += [("file", (name, (EXAMPLES / name).read_bytes())) for name in names]
    headers = {"Prefer": "wait=60"} if wait else {}
    answer = http.post("/api/v1/workflows", files=files, headers=headers, timeout=DEADLINE)
    workflow_id: str = answer.raise_for_status().json()["workflowId"]
    return workflow_id


def pages(http: httpx2.Client) -> dict[str, tuple[str, str]]:
    """Run the workflows that the pictures show; return the address and colours of each picture by its name."""
    ask(http, "When does the exhibition open, and who is invited?", "letter.txt")
    other = ask(
        http, "What is the grand total of the estimate, and who wrote the letter?", "estimate.pdf", "letter.txt"
    )
    report = ask(
        http,
        "Write a report about the estimate as a Word file.",
        "estimate.pdf",
        wait=False,
        approve=["document.generateReport"],
    )
    total = ask(http, TOTAL, "estimate.pdf")
    ask(http, "Who won the match?", "letter.txt")
    wait_until(lambda: http.get(f"/api/v1/workflows/{report}").json().get("phase") == "approve")
    decision = next(
        event["seq"]
        for event in http.get(f"/api/v1/workflows/{total}/events").json()["items"]
        if event["type"].endswith("action.selected.v1")
    )
    return {
        "workflow": (f"/w/{total}", "light"),
        "step": (f"/w/{total}/at/{decision}", "light"),
        "approvals": ("/approvals?show=all", "light"),
        "compare": (f"/compare?a={total}&b={other}", "light"),
        "workflows": ("/", "dark"),
        "operations": ("/operations", "light"),
    }


def take(browser: Browser, name: str, path: str, scheme: Any) -> None:
    """Take a screenshot of a page and save it with few colours."""
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, base_url=f"http://{ADDRESS}")
    page.goto(path)
    page.locator("h1, h2").first.wait_for()
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    picture.save(PICTURES / f"door-{name}.png", "PNG", optimize=True)
    page.close()


if __name__ == "__main__":
    with opened() as client, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for picture_name, (address, colour_scheme) in pages(client).items():
            take(chromium, picture_name, address, colour_scheme)
