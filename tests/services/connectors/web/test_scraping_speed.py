"""What a whole scrape costs beside the reading of its pages, and whether the event loop goes on meanwhile."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_hostile_pages import _watch, article, read_by_trafilatura_alone
from web_site import WebSite

PAGES = 50
SERVER = """
import http.server, functools, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Elsewhere(WebSite):
    """A site that a process of its own serves."""

    def __post_init__(self) -> None:
        self.hits = [f"/{number:02}.html" for number in range(PAGES)]

    def url(self, path: str) -> str:
        return f"http://localhost:{self.server.port}{path}"


@pytest.fixture
def site(tmp_path: Path) -> Generator[WebSite, None, None]:
    for number in range(PAGES):
        (tmp_path / f"{number:02}.html").write_bytes(article(number))
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as serving:
        assert serving.stdout is not None
        server: Any = SimpleNamespace(port=int(serving.stdout.readline()))
        yield Elsewhere(server, {})
        serving.kill()


@pytest.mark.soak
@pytest.mark.req("C-02")
async def test_fifty_pages_of_a_server_are_scraped_in_at_most_half_as_long_again_as_trafilatura_alone(
    site: WebSite, tmp_path: Path
) -> None:
    lags: list[float] = []
    ratios = []
    for _ in range(5):
        began = time.monotonic()
        await read_by_trafilatura_alone(tmp_path)
        alone = time.monotonic() - began
        watch = asyncio.create_task(_watch(lags))
        began = time.monotonic()
        done = await site.done("web.scrape", query="What does the article say of the harbor?", maxResults=PAGES)
        ratios.append((time.monotonic() - began) / alone)
        watch.cancel()
        assert len(done.result.documents) == PAGES
    p99 = sorted(lags)[len(lags) * 99 // 100]
    found = f"{[round(ratio, 2) for ratio in ratios]}, lag p99 {p99 * 1000:.1f} ms, most {max(lags) * 1000:.1f} ms"

    assert sorted(ratios)[len(ratios) // 2] < 1.5, found
    assert p99 < 0.020, found
