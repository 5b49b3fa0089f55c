"""Addresses as they are shown: the place alone, whatever stands around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poweron_events.redaction import redacted

SHOWN = {
    "http://alice:pw@host/v1": "http://host/v1",
    "https://token@host:8443/": "https://host:8443/",
    "http://alice:p@ss@host": "http://host",
    "http://alice:p/w@host": "http://[hidden]",
    "at http://alice:p?w@host:8443/v1?key=s@t, twice": "at http://[hidden] twice",
    "http://alice:1#w@host/": "http://[hidden]",
    "http://host:8443/v1": "http://host:8443/v1",
    "http://host/v1#key=secret": "http://host/v1",
    "http://host/v1?a=b#key=secret": "http://host/v1",
    'POST http://host/v1/chat?key=secret&a=b "HTTP/1.1 200 OK"': 'POST http://host/v1/chat "HTTP/1.1 200 OK"',
    "'postgresql://u:pw@/db?host=/run&password=pw'": "'postgresql:///db'",
    "(http://u:pw@a/?k=1), http://v:pw@b": "(http://a/ http://b",
    "Max retries exceeded with url: /v1/traces?key=secret (Caused by it)": (
        "Max retries exceeded with url: /v1/traces (Caused by it)"
    ),
    "Is it so? Ask ada@example.org, or see /etc/hosts.": "Is it so? Ask ada@example.org, or see /etc/hosts.",
    "https://example.org/@scope/page": "https://example.org/@scope/page",
}


@pytest.mark.req("S27")
@pytest.mark.parametrize("said", SHOWN)
def test_an_address_is_shown_without_who_asks_there_and_what_is_asked(said: str) -> None:
    assert redacted(said) == SHOWN[said]


SECRETS = st.text(st.characters(exclude_characters="'\"<> ", exclude_categories=("Z", "C")), min_size=1)
AROUND = st.text(st.characters(exclude_characters="<~", exclude_categories=["Cs"]), max_size=20)


@pytest.mark.req("S27")
@given(SECRETS, SECRETS, st.sampled_from("?#"), AROUND, AROUND)
def test_no_password_and_no_query_is_left_whatever_is_in_them_and_around_the_address(
    password: str, query: str, begins: str, before: str, after: str
) -> None:
    said = f"{before} http://alice:<{password}@host/path{begins}<{query} {after}".replace("<", "~")
    shown = redacted(said)
    assert f"~{password}@" not in shown
    assert f"~{query} " not in shown.removesuffix(after)
    assert "http://host/path " in shown or " http://[hidden] " in shown


@pytest.mark.req("S27")
@given(SECRETS.filter(lambda login: not {*login} & {*"/?#"}), SECRETS.filter(lambda query: "@" not in query))
def test_where_it_is_clear_who_asks_the_place_is_shown(login: str, query: str) -> None:
    assert redacted(f"http://{login}@host/path?{query}") == "http://host/path"
