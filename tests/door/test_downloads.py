"""Downloads: the memory of the door does not grow with them."""

import re
import shutil
import tracemalloc
from pathlib import Path

import pytest
from opened_door import Door

pytestmark = [pytest.mark.system, pytest.mark.timeout(200)]

SIZE = 24_000_000  # bytes
MOST = SIZE // 3
DOCUMENT = re.compile(
    r'<a href="/w/[^"]*/text/[^"]*"[^>]*>([^<]*)</a>[^\n]*href="(/api/v1/workflows/[^"]*/content/[^"]*)"'
)


@pytest.mark.parametrize("size", [10, pytest.param(SIZE, marks=pytest.mark.soak)])
async def test_a_download_has_all_bytes_and_its_length_and_takes_little_memory(door: Door, size: int) -> None:
    asked = await door.http.post(
        "/api/v1/workflows",
        data={"request": '{"prompt": "Hello"}'},
        files={"file": ("letter.bin", b"letter " * (size // 7) + b"." * (size % 7))},
        headers={"Prefer": "wait=100"},
    )
    assert asked.status_code == 200, asked.text
    workflow = f"/api/v1/workflows/{asked.json()['workflowId']}"
    documents = (await door.http.get(f"{workflow}/documents")).json()["items"]
    path = f"{workflow}/content/{next(each['content'] for each in documents if each['documentName'] == 'letter.bin')}"
    tracemalloc.start()
    try:
        async with door.http.stream("GET", path) as download:
            received = [len(piece) async for piece in download.aiter_raw()]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (download.status_code, sum(received), download.headers["content-length"]) == (200, size, str(size))
    assert peak < MOST, f"{peak:,} bytes"
    again = await door.http.get(path, headers={"If-None-Match": download.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_content_that_is_gone_is_reported_even_to_clients_that_hold_it(door: Door, tmp_path: Path) -> None:
    asked = await door.http.post("/api/v1/workflows", json={"prompt": "Hello"}, headers={"Prefer": "wait=60"})
    workflow = f"/api/v1/workflows/{asked.json()['workflowId']}"
    calls = (await door.http.get(f"{workflow}/usage")).json()["items"]
    path = f"{workflow}/content/{next(each['promptRef'] for each in calls if each['promptRef'])}"
    etag = (await door.http.get(path)).headers["etag"]
    shutil.rmtree(tmp_path / "home/content" / asked.json()["workflowId"])
    gone = await door.http.get(path, headers={"If-None-Match": etag})
    assert (gone.status_code, gone.json()["code"]) == (410, "document_missing")


async def test_a_download_has_the_name_of_the_document_that_was_chosen(door: Door) -> None:
    asked = await door.http.post(
        "/api/v1/workflows",
        data={"request": '{"prompt": "Hello"}'},
        files=[("file", (name, b"Dear reader")) for name in ("letter.txt", "copy; of letter.txt")],
        headers={"Prefer": "wait=60"},
    )
    assert asked.status_code == 200, asked.text
    id_ = asked.json()["workflowId"]
    page = (await door.http.get(f"/w/{id_}")).text
    links = dict(DOCUMENT.findall(page))
    for name, words in (("letter.txt", "letter.txt"), ("copy; of letter.txt", "copy_ of letter.txt")):
        download = await door.http.get(links[name])
        assert download.content == b"Dear reader"
        assert f'filename="{words}"' in download.headers["content-disposition"]
    plain = await door.http.get(links["letter.txt"].partition("?")[0])
    assert (plain.status_code, plain.content) == (200, b"Dear reader")
