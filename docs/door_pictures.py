"""Takes the pictures of the door: `uv run docs/door_pictures.py` writes `docs/pictures/door-*.png`.

It opens a door with servers of its own, asks about the examples, and needs Chromium.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
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
WITHIN = 120.0  # seconds
SIZE = {"width": 1280, "height": 820}
COLOURS = 128
TOTAL = "What is the grand total of the estimate, and what was repaired?"


@contextmanager
def opened() -> Generator[httpx2.Client, None, None]:
    """Open a door with an empty home; its requests are Ada's."""
    with tempfile.TemporaryDirectory() as home:
        given = {
            **os.environ,
            "POWERON_HOME": home,
            "POWERON_ACTOR": "ada",
            "POWERON_KAFKA": "",
            "POWERON_POSTGRES": "",
        }
        command = [Path(sys.executable).with_name("poweron"), "door", "--listen", ADDRESS]
        door = subprocess.Popen(command, env=given)  # noqa: S603 - our own program
        with door, httpx2.Client(base_url=f"http://{ADDRESS}") as http:
            try:
                until(lambda: http.get("/readyz").is_success)
                yield http
            finally:
                door.terminate()


def until(is_so: Any) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + WITHIN
    while not _asked(is_so):
        if time.monotonic() > deadline:
            raise TimeoutError("the door does not become what the pictures show")
        time.sleep(0.1)


def _asked(is_so: Any) -> Any:
    try:
        return is_so()
    except httpx2.TransportError:
        return False


def ask(http: httpx2.Client, prompt: str, *names: str, wait: bool = True, **more: Any) -> str:
    """Ask about examples; return the workflow, by default once it has ended."""
    files = [("request", (None, orjson.dumps({"prompt": prompt, **more})))]
    files += [("file", (name, (EXAMPLES / name).read_bytes())) for name in names]
    headers = {"Prefer": "wait=60"} if wait else {}
    answer = http.post("/api/v1/workflows", files=files, headers=headers, timeout=WITHIN)
    found: str = answer.raise_for_status().json()["workflowId"]
    return found


def pages(http: httpx2.Client) -> dict[str, tuple[str, str]]:
    """Do the work that the pictures show; return the address and the colour scheme of each."""
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
    until(lambda: http.get(f"/api/v1/workflows/{report}").json().get("phase") == "approve")
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
    """Take the picture of a page."""
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, base_url=f"http://{ADDRESS}")
    page.goto(path)
    page.locator("h1, h2").first.wait_for()
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    picture.save(PICTURES / f"door-{name}.png", "PNG", optimize=True)
    page.close()


if __name__ == "__main__":
    with opened() as client, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for title, (place, colours) in pages(client).items():
            take(chromium, title, place, colours)
