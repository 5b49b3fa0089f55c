"""Load everything that reading a page may open, because the process cannot open files without its privileges.

The libraries load some files only when they first need them, so `load` looks up a public suffix and reads a page in
every way.
"""

import courlan

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.limits import DEFAULT_LIMITS
from poweron_services.connectors.pages_child.page_answers import PageQuestion
from poweron_services.connectors.pages_child.page_parser import read

SAMPLE = b"""<!doctype html><html lang="en"><head><title>A page - of a museum.example</title>
<link rel="canonical" href="/opening-hours"><meta name="author" content="Jo Doe">
<meta name="date" content="Tuesday, 3 March 2026 10:00 EST">
<script type="application/ld+json">{"@type": "Article", "author": {"name": "Jo Doe"}}</script></head><body><main>
<h1>Opening hours</h1><p>Posted on 3 March 2026. <time datetime="2026-03-03T10:00:00+01:00">Today</time></p>
<p>The museum of clocks is open from Tuesday to Sunday, and on Mondays only if <a href="//www.museum.co.uk/days">that
Monday</a> is a holiday. Of its 312 clocks some 40 are wound up every morning, long before the first visitors come.</p>
<ul><li>Adults: 9 euros</li><li>Children: free</li></ul><table><tr><th>Day</th><td>Hours</td></tr></table></main>
<p>&copy; 2026</p></body></html>"""


def load() -> None:
    """Load all encodings and everything else that reading a page in any way needs."""
    text_encodings.load(b"\xff")
    courlan.extract_domain("https://museum.co.uk/")
    for question in (
        PageQuestion("https://museum.example.co.uk/", "", "basic", "markdown"),
        PageQuestion("https://museum.example/", "windows-1252", "advanced", "text"),
        PageQuestion("http://localhost:8080/", "", "basic", "text"),
        PageQuestion("http://192.0.2.1/", "", "basic", "text"),
        PageQuestion("http://[2001:db8::1]/", "", "basic", "text"),
    ):
        read(SAMPLE, question, DEFAULT_LIMITS)
