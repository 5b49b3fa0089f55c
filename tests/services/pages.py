"""Pages of the web as documents of a workflow: what the tests of citations share."""

import hashlib

from poweron_events.event import CitedSource, WebPage
from poweron_services.actions.action import InputDocument

CLOCKS = """# Museum of Clocks

<https://clocks.example/visit>

The museum is open from *Tuesday* to Sunday, 10\u20135 pm; on\n[Mondays](https://clocks.example/mondays) it is closed.[4]

| Ticket | Price |
| --- | --- |
| Adults | 9.50 € |
"""
BOATS = "# Museum of Boats\n\nWe are open daily, on Mondays too. Entry is free on the first Sunday of a month.\n"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def page(host: str, title: str = "", path: str = "visit") -> WebPage:
    """A page that was fetched this morning; `<host>` stands for its bytes."""
    return WebPage(
        url=f"https://{host}.example/{path}",
        title=title,
        fetched_at="2026-11-23T10:00:00Z",
        sha256=sha256(f"{host}/{path}"),
        content=sha256(f"kept {host}/{path}"),
    )


def source(n: int, of: WebPage, text: str = "") -> CitedSource:
    return CitedSource(n=n, page=of, text=sha256(text))


def given(
    name: str, text: str, of: WebPage | None = None, sources: tuple[CitedSource, ...] = (), mime: str = "text/markdown"
) -> InputDocument:
    """A document that an action reads."""
    data = text.encode()

    async def load() -> bytes:
        return data

    return InputDocument(f"docItem:d1:{name}", name, mime, len(data), sha256(text), load, page=of, sources=sources)
