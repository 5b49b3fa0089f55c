"""What an action says holds no secret any more, however it says it."""

import base64
import json
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poweron_events.event import UnreadDocument
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Done, document
from poweron_services.settings.secret_redaction import MIN_SECRET, SecretRedaction

SECRET = "p/ä'ss \"w&rd+<42>\\"
SAID = {
    "as it is": SECRET,
    "in an address": quote(SECRET, safe=""),
    "in a path": quote(SECRET),
    "in a query": quote_plus(SECRET),
    "with small escapes": "p%2f%c3%a4%27ss%20%22w%26rd%2b%3c42%3e%5c",
    "in JSON": json.dumps(SECRET)[1:-1],
    "in JSON with its own letters": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "in JSON within JSON": json.dumps(json.dumps(SECRET)),
    "in a page": "p/ä&#39;ss &quot;w&amp;rd+&lt;42&gt;\\",
    "in Python": repr([SECRET]),
    "in hexadecimal": SECRET.encode().hex(),
}


@pytest.mark.req("R-03")
@pytest.mark.parametrize("form", SAID)
def test_a_secret_is_hidden_in_every_form_that_it_is_likely_to_have(form: str) -> None:
    redaction, said = SecretRedaction([SECRET]), f"The server said {SAID[form]}, twice: {SAID[form]}."
    assert redaction.redacted(said).count("[hidden]") == 2
    assert SAID[form] not in redaction.redacted(said)
    assert redaction.redacted_bytes(said.encode()) == redaction.redacted(said).encode()


@pytest.mark.req("R-03")
@given(st.binary(max_size=7), st.text(min_size=MIN_SECRET), st.binary(max_size=7), st.booleans())
def test_no_text_that_is_base64_of_a_secret_among_other_bytes_is_left(
    before: bytes, secret: str, after: bytes, for_addresses: bool
) -> None:
    data = secret.encode("utf-8", "surrogatepass")
    encode = base64.urlsafe_b64encode if for_addresses else base64.b64encode
    said = encode(before + data + after).decode()
    left = SecretRedaction([secret]).redacted(said)
    assert "[hidden]" in left
    assert len(left) <= len(said)


@pytest.mark.req("R-03")
@given(st.text(max_size=20), st.text(min_size=MIN_SECRET, max_size=30), st.text(max_size=20))
def test_nothing_grows_longer_and_no_secret_is_left_whatever_is_around_it(before: str, secret: str, after: str) -> None:
    said = before + secret + after
    left = SecretRedaction([secret]).redacted(said)
    assert "[hidden]" in left
    assert len(left) <= len(said)
    assert secret not in left or secret in "[hidden]" * 5


def test_secrets_that_overlap_leave_no_end_behind() -> None:
    redaction = SecretRedaction(["first-secret", "secret-second", "secret-second-and-longer"])
    assert redaction.redacted("a first-secret-second-and-longer b") == "a [hidden] b"
    assert redaction.redacted("first-secretfirst-secret") == "[hidden]"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("Bearer tok-1234567890", "You sent tok-1234567890"),
        ("Basic " + base64.b64encode(b"ada:pass-1234567890").decode(), "The login of ada is pass-1234567890"),
        ("https://ada:pass-1234567890@host/db", "no access for pass-1234567890"),
        ("https://host/mcp?key=tok-1234567890", "The key tok-1234567890 is wrong"),
        ("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----\n", "bad line: MIIEvQIBADANBgkqhkiG"),
        ("  tok-1234567890\n", "tok-1234567890"),
    ],
)
def test_a_part_that_may_be_repeated_alone_is_hidden_too(value: str, told: str) -> None:
    assert SecretRedaction([value]).redacted(told).endswith("[hidden]" if "wrong" not in told else "is wrong")
    assert "1234567890" not in SecretRedaction([value]).redacted(told)
    assert "MIIE" not in SecretRedaction([value]).redacted(told)


@pytest.mark.parametrize("short", ["", "1", "true", "1234567"])
def test_what_is_too_short_to_be_told_from_other_text_is_no_secret(short: str) -> None:
    redaction = SecretRedaction([short])
    assert not redaction
    assert redaction.redacted("It is true: 1234567") == "It is true: 1234567"


def test_bytes_in_utf_16_are_looked_through_and_others_stay_as_they_are() -> None:
    redaction = SecretRedaction(["tok-1234567890"])
    for code in ("utf-16-le", "utf-16-be"):
        assert "tok-".encode(code) not in redaction.redacted_bytes("It is tok-1234567890.".encode(code))
    binary = bytes(range(256)) * 100
    assert redaction.redacted_bytes(binary) is binary


@dataclass(frozen=True)
class Outer:
    inner: Done
    more: dict[str, list[str]]


def test_every_text_of_a_value_is_redacted_however_deep_it_stands() -> None:
    redaction = SecretRedaction(["tok-1234567890"])
    unread = UnreadDocument(document_name="tok-1234567890.pdf", content="0" * 64, code="document_damaged", reason="x")
    result = ActionResult(success=True, documents=(document("tok-1234567890.md", "tok-1234567890", "text/plain"),))
    value = Outer(Done(result, ("A tok-1234567890.",), (unread,), links=("https://h/tok-1234567890",)), {"a": ["b"]})
    left = redaction.redacted_in(value)
    assert "tok-" not in repr(left)
    assert left.inner.result.documents[0].document_data == b"[hidden]"
    assert left.inner.unread[0].document_name == "[hidden].pdf"
    assert left.more is value.more


def test_a_value_without_a_secret_is_not_copied() -> None:
    done = Done(ActionResult(success=True, documents=(document("a.md", "42", "text/plain"),)), ("A note.",))
    assert SecretRedaction(["tok-1234567890"]).redacted_in(done) is done


def test_no_secret_can_be_read_back_from_what_hides_it() -> None:
    assert "tok-" not in repr(SecretRedaction(["tok-1234567890"]))
