"""The address of a page: one reading of it, and none of what could be read as another host."""

from urllib.parse import urlsplit

import pytest

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_address import WebAddress

LOOPBACK = [
    "http://127.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://0x7f.1/",
    "http://127.0.0.1./",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://１２７.０.０.１/",  # noqa: RUF001 - wide digits
    "HTTP://127.0.0.1:80/",
]

UNCLEAR = [
    "",
    "example.com",
    "//example.com/",
    "http:example.com",
    "http:/example.com",
    "http:///example.com",
    "http://",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "javascript:alert(1)",
    "data:text/html,<p>",
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/\n",
    "http://exam%70le.com/",
    "http://%31%32%37.0.0.1/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com/",
    "http://exam\tple.com/",
    "http://example.com/\r\nHost: other",
    "http://example.com/\x00",
    "http://example.com/\x85",
    "http://exam ple.com/",
    "http://example.com:0x50/",
    "http://example.com:99999/",
    "http://1.2.3.4.5/",
    "http://foo.0x4/",
    "http://[::1/",
    "http://[1.2.3.4]/",
    "http://a..b/",
    "http://.example.com/",
    "http://example.com../",
    "http://a*b/",
    "http://" + "a" * 64 + ".com/",
    "http://" + "a." * 127 + "com/",
    "http://\u200b/",
    "http://example.com/\ud800",
    "http://example.com/" + "a" * 8_000,
]


@pytest.mark.req("S10")
@pytest.mark.parametrize("url", LOOPBACK)
def test_each_way_to_write_an_ip_address_is_read_as_that_address(url: str) -> None:
    assert WebAddress.of(url).url == "http://127.0.0.1/"
    assert WebAddress.of(url).ip is not None


@pytest.mark.req("S10", "X-02")
@pytest.mark.parametrize("url", UNCLEAR)
def test_what_could_be_read_as_another_host_or_is_no_page_is_refused(url: str) -> None:
    with pytest.raises(Refused) as refused:
        WebAddress.of(url)
    assert refused.value.code == "address_refused"
    assert "public page of the web" in str(refused.value)


def test_a_refused_address_stands_neither_in_the_sentence_nor_in_the_log() -> None:
    with pytest.raises(Refused) as refused:
        WebAddress.of("http://user:s3cret@example.com/?key=s3cret")
    assert "s3cret" not in f"{refused.value} {refused.value.detail}"


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("HTTPS://Example.COM:443/a/../b?q=1#part", "https://example.com/b?q=1"),
        ("http://example.com.", "http://example.com/"),
        ("http://example.com:8080", "http://example.com:8080/"),
        ("http://example.com?q=a b", "http://example.com/?q=a%20b"),
        ("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4"),
        ("http://my_host.example/", "http://my_host.example/"),
        ("http://[2001:4860:4860::8888]:80/x", "http://[2001:4860:4860::8888]/x"),
        ("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ],
)
def test_all_ways_to_write_an_address_are_read_as_one(url: str, read: str) -> None:
    address = WebAddress.of(url)
    assert address.url == read
    assert urlsplit(address.url).hostname == address.host
    assert WebAddress.of(address.url) == address


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("b?q=1", "https://example.com/a/b?q=1"),
        ("/b#part", "https://example.com/b"),
        ("//other.example/b", "https://other.example/b"),
        ("/\\other.example/b", "https://other.example/b"),
        ("http://other.example/b", "http://other.example/b"),
        ("?q=é", "https://example.com/a/page?q=%C3%A9"),
    ],
)
def test_a_link_leads_where_a_browser_would_go(location: str, leads_to: str) -> None:
    assert WebAddress.of("https://example.com/a/page").joined(location).url == leads_to


@pytest.mark.parametrize(
    "location", ["ftp://example.com/", "http://u:p@h/", "http://[::1", "b\nc", "javascript:1", "//"]
)
def test_a_link_that_leads_to_no_page_is_refused(location: str) -> None:
    with pytest.raises(Refused):
        WebAddress.of("https://example.com/").joined(location)
