"""The way out to the web: a connection goes where was checked, at every hop, and nowhere else."""

import asyncio
import socket
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from internet import OTHER, PUBLIC, Internet, answer, client, leading, redirect, refusal, serving, web
from ssrfguard import DEFAULT_DENIED, BlockedURLError, Policy

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_client import open_web_client

PAGE = answer(b"<p>Good morning.</p>")


# --- what is asked


async def test_a_page_is_had_with_its_status_headers_and_bytes() -> None:
    async with (
        serving(answer(b"<p>Gr\xfc\xdfe", Content_Type="text/html; charset=latin1", Set_Cookie="a=b")) as server,
        client(leading(server, "example.com")) as asking,
    ):
        page = await asking.get("http://EXAMPLE.com/a?b=c#d")

    assert (page.url, page.status, page.body) == ("http://example.com/a?b=c", 200, b"<p>Gr\xfc\xdfe")
    assert page.headers == {"content-type": "text/html; charset=latin1", "content-length": "8"}


async def test_a_server_is_told_the_name_and_who_asks_and_nothing_else() -> None:
    async with (
        serving(PAGE) as server,
        client(leading(server, "example.com"), web(contact="https://example.org/bot")) as asking,
    ):
        await asking.get("http://example.com/", headers={"Accept-Language": "de", "Host": "other.example"})

    lines = server.requests[0].decode().lower().split("\r\n")
    assert lines[0] == "get / http/1.1"
    assert sorted(line.partition(":")[0] for line in lines[1:] if line) == [
        "accept",
        "accept-encoding",
        "accept-language",
        "host",
        "user-agent",
    ]
    assert "host: example.com" in lines
    assert "accept-encoding: gzip, deflate" in lines
    assert "user-agent: poweron/0.3.0 (+https://example.org/bot)" in lines


async def test_an_error_of_a_server_is_an_answer_for_whoever_asked_to_judge() -> None:
    async with (
        serving(answer(b"gone", status="404 Not Found", Retry_After="7")) as server,
        client(leading(server, "example.com")) as asking,
    ):
        page = await asking.get("http://example.com/robots.txt")
    assert (page.status, page.body, page.headers["retry-after"]) == (404, b"gone", "7")


async def test_a_search_engine_is_sent_what_is_searched_for() -> None:
    heard: list[bytes] = []

    async def search(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readexactly(9))
        writer.write(answer(b'{"hits":[]}', Content_Type="application/json"))
        await writer.drain()

    async with serving(search) as server, client(Internet(), engine=f"http://127.0.0.1:{server.port}") as asking:
        found = await asking.post(f"http://127.0.0.1:{server.port}/search", content=b'{"q":"a"}')
    assert (heard, found.body) == ([b'{"q":"a"}'], b'{"hits":[]}')


async def test_connections_are_kept_for_the_next_page_of_the_same_host() -> None:
    async with serving(PAGE) as server, client(internet := leading(server, "example.com")) as asking:
        for _ in range(3):
            await asking.get("http://example.com/")
    assert (server.connections, len(server.requests), internet.lookups) == (1, 3, ["example.com"])


# --- where connections go


@pytest.mark.req("S11", "X-02")
async def test_a_name_is_looked_up_once_and_what_was_checked_is_connected_to() -> None:
    async with serving(PAGE) as server, serving(PAGE) as inside:
        internet = leading(server, "rebinding.example")
        internet.names["rebinding.example"] = [[PUBLIC], ["127.0.0.1"]]  # the second lookup leads inside
        async with client(internet, web(ports=str(inside.port))) as asking:
            page = await asking.get("http://rebinding.example/")
            assert page.status == 200
            again = await refusal(asking, f"http://rebinding.example:{inside.port}/")

    assert internet.connections == [(PUBLIC, 80)]
    assert again.code == "address_refused"
    assert inside.connections == 0


@pytest.mark.req("S11")
@pytest.mark.parametrize(
    "answers",
    [[PUBLIC, "127.0.0.1"], ["10.0.0.1", PUBLIC], [OTHER, "::1"], ["::1", PUBLIC], [PUBLIC, "fe80::1%eth0"]],
    ids=str,
)
async def test_one_answer_that_is_not_public_refuses_the_name(answers: list[str]) -> None:
    async with serving(PAGE) as server:
        internet = Internet(names={"mixed.example": [answers]}, places={PUBLIC: server.port, OTHER: server.port})
        async with client(internet) as asking:
            refused = await refusal(asking, "http://mixed.example/")

    assert (refused.code, internet.connections) == ("address_refused", [])
    assert "mixed.example" in refused.detail
    assert "mixed.example" not in str(refused)  # S8: the log is told the reason


@pytest.mark.req("S11")
async def test_a_host_that_is_not_there_is_left_for_its_next_address() -> None:
    async with serving(PAGE) as server, serving(PAGE) as gone:
        pass
    async with serving(PAGE) as server:
        internet = Internet(names={"a.example": [[OTHER, PUBLIC]]}, places={PUBLIC: server.port, OTHER: gone.port})
        async with client(internet) as asking:
            assert (await asking.get("http://a.example/")).status == 200
    assert internet.connections == [(OTHER, 80), (PUBLIC, 80)]


async def test_many_addresses_of_which_none_answers_are_given_up_soon() -> None:
    async with serving(PAGE) as gone:
        pass
    addresses = [f"93.184.215.{last}" for last in range(50)]
    internet = Internet(names={"a.example": [addresses]}, places=dict.fromkeys(addresses, gone.port))
    async with client(internet) as asking:
        refused = await refusal(asking, "http://a.example/")
    assert (refused.code, len(internet.connections)) == ("page_unavailable", 4)


async def test_a_name_that_there_is_not_is_told() -> None:
    async with client(Internet()) as asking:
        refused = await refusal(asking, "http://nowhere.example/")
    assert (refused.code, str(refused)) == ("page_unavailable", "There is no host named nowhere.example.")


async def test_a_lookup_that_nobody_answers_takes_no_longer_than_a_page_may() -> None:
    async def silent(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with open_web_client(web(timeout=0.2), resolve=silent) as asking:
        assert (await refusal(asking, "http://a.example/")).code == "page_timeout"


async def test_whoever_stops_waiting_for_a_page_is_not_kept() -> None:
    async with serving(PAGE) as server:
        internet = leading(server, "a.example")

        async def never(_: object) -> None:
            await asyncio.Event().wait()

        async with client(internet) as asking:
            waiting = asyncio.create_task(asking.get("http://a.example/", before_hop=never))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await asking.get("http://a.example/")).status == 200


@pytest.mark.req("S11")
async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(PAGE) as proxy, serving(PAGE) as server:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with client(leading(server, "example.com")) as asking:
            await asking.get("http://example.com/")
    assert (proxy.connections, server.connections) == (0, 1)


# --- redirects


@pytest.mark.req("S13")
async def test_redirects_are_followed_and_the_last_address_is_told() -> None:
    hops = [redirect("/2"), redirect("http://b.example/3", "308 Permanent Redirect"), redirect("4", "303 See Other")]
    async with serving(*hops, PAGE) as server, client(leading(server, "a.example", "b.example")) as asking:
        page = await asking.get("http://a.example/1")
    assert (page.url, page.status) == ("http://b.example/4", 200)


@pytest.mark.req("S13", "X-02")
@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "http://127.1:{port}/",
        "//0x7f000001:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[64:ff9b::7f00:1]:{port}/",
        "http://inside.example:{port}/",
        "http:\\\\127.0.0.1:{port}\\",
        "http://user:word@a.example/",
        "ftp://a.example/",
        "file:///etc/passwd",
        "http://a.example:22/",
        "http://169.254.169.254/latest/meta-data/",
        "http://denied.example/",
    ],
)
async def test_each_redirect_is_checked_like_an_address_that_was_asked_for(location: str) -> None:
    async with serving(PAGE) as inside:
        to = location.format(port=inside.port)
        async with serving(redirect("/once"), redirect(to), PAGE) as server:
            internet = leading(server, "a.example", "denied.example")
            internet.names["inside.example"] = [["127.0.0.1"]]
            async with client(internet, web(ports=str(inside.port), deny="denied.example")) as asking:
                refused = await refusal(asking, "http://a.example/")

    assert refused.code == "address_refused"
    assert inside.connections == 0
    assert internet.connections == [(PUBLIC, 80)]
    assert len(server.requests) == 2


@pytest.mark.req("S13")
async def test_five_redirects_are_followed_and_no_sixth() -> None:
    async with (
        serving(*[redirect(f"/{hop}") for hop in range(1, 6)], PAGE) as server,
        client(leading(server, "a.example")) as asking,
    ):
        assert (await asking.get("http://a.example/")).url == "http://a.example/5"
    async with serving(redirect("/")) as server, client(leading(server, "a.example")) as asking:
        refused = await refusal(asking, "http://a.example/")
    assert (refused.code, len(server.requests)) == ("page_unavailable", 6)


@pytest.mark.req("S13")
async def test_what_a_host_was_sent_to_let_us_in_no_other_host_is_sent() -> None:
    async with (
        serving(redirect("/2"), redirect("http://b.example/"), PAGE) as server,
        client(leading(server, "a.example", "b.example")) as asking,
    ):
        secret = {"Authorization": "Bearer s3cret", "X-Subscription-Token": "s3cret", "Cookie": "s3cret"}
        await asking.get("http://a.example/", headers=secret | {"Accept-Language": "de"})

    own, same, other = (request.decode().lower() for request in server.requests)
    assert own.count("s3cret") == same.count("s3cret") == 3
    assert "s3cret" not in other
    assert "accept-language: de" in other


async def test_whoever_asks_may_judge_each_hop_before_it_is_asked() -> None:
    seen: list[str] = []

    async def judge(address: WebAddress) -> None:
        seen.append(address.url)
        if address.host == "b.example":
            raise Refused("Not there.", code="robots_disallowed")

    async with (
        serving(redirect("http://b.example/")) as server,
        client(leading(server, "a.example", "b.example")) as asking,
    ):
        refused = await refusal(asking, "http://a.example/", before_hop=judge)
        inside = await refusal(asking, "http://127.0.0.1/", before_hop=judge)
    assert (refused.code, seen) == ("robots_disallowed", ["http://a.example/", "http://b.example/"])
    assert inside.code == "address_refused"
    assert len(server.requests) == 1


# --- what the operator says


@pytest.mark.req("X-02")
async def test_other_ports_than_those_of_the_web_are_asked_only_where_the_settings_say_so() -> None:
    async with serving(PAGE) as server:
        async with client(internet := leading(server, "a.example")) as asking:
            refused = await refusal(asking, "http://a.example:8080/")
        async with client(internet, web(ports="8443, 8080")) as asking:
            assert (await asking.get("http://a.example:8080/")).status == 200
    assert "8080" in refused.detail


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"allow": "a.example"}, {"a.example"}),
        ({"allow": "*.a.example"}, {"www.a.example"}),
        ({"allow": "a.example,*.a.example"}, {"a.example", "www.a.example"}),
        ({"deny": "*a.example"}, {"b.example"}),
        ({"deny": "A.Example."}, {"www.a.example", "b.example"}),
        ({"allow": "*.example", "deny": "*.a.example"}, {"a.example", "b.example"}),
        ({"deny": "*"}, set()),
    ],
    ids=lambda given: str(sorted(given.items() if isinstance(given, dict) else given)),
)
async def test_hosts_are_allowed_and_denied_by_name(settings: dict[str, str], asked: set[str]) -> None:
    names = ("a.example", "www.a.example", "b.example")
    answered = set()
    async with serving(PAGE) as server, client(leading(server, *names), web(**settings)) as asking:
        for name in names:
            try:
                await asking.get(f"http://{name}./")
                answered.add(name)
            except Refused as refused:
                assert refused.code == "address_refused"  # noqa: PT017 - some are answered
    assert answered == asked


@pytest.mark.req("X-02")
@pytest.mark.parametrize(
    "host", [PUBLIC, f"[::ffff:{PUBLIC}]", f"[64:ff9b::{PUBLIC}]", "a.example", "mapped.example", "wiki.internal"]
)
async def test_an_ip_address_that_is_denied_is_asked_in_no_form_and_under_no_name(host: str) -> None:
    found = {"a.example": [PUBLIC], "mapped.example": [OTHER, f"::ffff:{PUBLIC}"], "wiki.internal": [PUBLIC]}
    internet = Internet(names={name: [addresses] for name, addresses in found.items()})
    async with client(internet, web(deny=PUBLIC, private_hosts="wiki.internal")) as asking:
        assert (await refusal(asking, f"http://{host}/")).code == "address_refused"
    assert internet.connections == []


@pytest.mark.req("X-02")
async def test_a_private_host_is_asked_where_the_settings_name_it_and_on_no_other_port() -> None:
    async with serving(PAGE) as wiki, serving(PAGE) as other:
        internet = Internet(names={"wiki.internal": [["127.0.0.1"]], "wiki": [["127.0.0.1"]]})
        settings = web(private_hosts=f"wiki.internal:{wiki.port}", allow="example.com")
        async with client(internet, settings) as asking:
            assert (await asking.get(f"http://wiki.internal:{wiki.port}/")).status == 200
            for url in (f"http://wiki.internal:{other.port}/", f"http://wiki:{wiki.port}/", "http://wiki.internal/"):
                assert (await refusal(asking, url)).code == "address_refused"
    assert other.connections == 0


async def test_what_asks_a_search_engine_may_go_to_its_place_and_what_fetches_pages_may_not() -> None:
    async with serving(PAGE) as engine:
        internet, url = Internet(names={"searx": [["127.0.0.1"]]}), f"http://searx:{engine.port}/search?q=a"
        async with client(internet, web(allow="example.com", deny="*"), engine=f"http://searx:{engine.port}") as asking:
            assert (await asking.get(url)).status == 200
        async with client(internet) as asking:
            assert (await refusal(asking, url)).code == "address_refused"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("allow", "https://example.com"),
        ("deny", "example.com/path"),
        ("deny", "example.com:8080"),
        ("private_hosts", "*"),
        ("private_hosts", "wiki:0"),
        ("ports", "80-90"),
        ("ports", "70000"),
        ("contact", "me)\r\nX: y"),
        ("max_bytes", 1),
        ("timeout", 0),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"web_{setting}"):
        web(**{setting: value})


# --- hostile addresses, and servers that listen where nobody may go

INSIDE = st.sampled_from(
    [
        *("127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1"),
        *("127.255.255.254", "127.0.0.1.", "①②⑦.⓪.⓪.①", "127。0。0。1", "%31%32%37.0.0.1", "localhost", "LOCALHOST."),
        *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
        *("[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[::ffff:0:127.0.0.1]", "[fe80::1%25lo]"),
        *(
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "192.168.0.1",
            "10.1",
            "0xA9FEA9FE",
            "[fd00:ec2::254]",
        ),
        *("inside.example", "①②⑦.0.0.1.inside.example", "xn--inside.example", "a_b.internal", "127.0.0.1.nip.example"),
    ]
)
NOISE = ["", "\t", "\n", " ", "\\", "/", "@", "#", "?", "%00", "\u200b", "\u3002", ":", "%2e"]


def _mostly(usual: str, others: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(usual), st.just(usual), st.just(usual), st.sampled_from(others))


HOSTILE = st.builds(
    lambda *parts: "".join(parts),
    _mostly("http://", ["https://", "HTTP://", "http:", "http:/", "http:\\\\", "//"]),
    _mostly("", ["user@", "user:word@", "example.com@", "example.com:80@", "example.com#@"]),
    _mostly("", NOISE),
    INSIDE,
    _mostly("", NOISE),
    _mostly(":{port}", ["", ":0{port}", ":80", ":22", ":{port}@example.com", ":"]),
    st.sampled_from(["", "/", "/a?b=c", "?q=http://example.com", "#example.com", "\\@example.com", "/../..//"]),
)


async def _inside(host: str, port: int) -> list[str]:
    """As the resolver of this machine, for which each name is one of this machine."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(address[0]) for *_, address in found]
    except OSError:
        return ["127.0.0.1", "::1"]


def _agreed(url: str) -> None:
    """What is let through by its text, another guard reads the same way, and refuses what we refuse to connect to."""
    try:
        address = WebAddress.of(url)
    except Refused:
        return
    policy = Policy(allowed_ports=frozenset({address.port}))
    if address.ip is None or not DEFAULT_DENIED.classify(address.ip).blocked:
        try:
            target = policy.check_url(address.url)
            assert (target.host, target.port) == (address.host, address.port)
        except BlockedURLError:
            assert "_" in address.host or "xn--" in address.host  # it knows fewer names


@pytest.mark.req("S10", "S11", "S12", "X-02")
def test_no_hostile_address_leads_to_a_server_that_nobody_may_reach() -> None:
    came: list[object] = []

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("peername"))
        writer.close()

    with asyncio.Runner() as runner:
        servers = [runner.run(asyncio.start_server(count, "0.0.0.0", 0))]
        port = servers[0].sockets[0].getsockname()[1]
        with suppress(OSError):  # where there is no IPv6
            servers.append(runner.run(asyncio.start_server(count, "::", port)))
        opening = open_web_client(web(ports=str(port), timeout=5), resolve=_inside)
        asking = runner.run(opening.__aenter__())

        @settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(HOSTILE)
        def all_are_refused(pattern: str) -> None:
            url = pattern.replace("{port}", str(port))
            _agreed(url)
            assert runner.run(refusal(asking, url)).code == "address_refused"

        all_are_refused()
        runner.run(opening.__aexit__(None, None, None))
        for server in servers:
            server.close()
    assert came == []
