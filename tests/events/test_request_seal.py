"""The seal of a request: a claim to be verified counts only if a door with the key has sealed exactly that request."""

from typing import Any

import orjson
import pytest

from poweron_events.actor import Actor
from poweron_events.codec import InvalidRequest, Undecodable, decode_request, dumps, encode_request, has_seal
from poweron_events.request import RequestWorkflow
from poweron_events.request_seal import sealed
from poweron_events.stream import claimed_actor

KEY = b"k" * 32
ADA = Actor(id="ada", roles=("officer",), via="http", verified=True)


def value() -> bytes:
    request = RequestWorkflow(prompt="When does it open?", actor=ADA)
    return encode_request(request, source="/poweron/keys/crm", request_id="1", time="2026-11-29T00:00:00.000Z")


def actor(value: bytes, key: bytes | None = KEY, headers: dict[str, bytes] | None = None) -> Actor:
    received = decode_request(value, headers or {}, seal_key=key)
    return claimed_actor(received.request, received.identity.source)


def test_what_a_door_has_sealed_is_verified() -> None:
    assert actor(sealed(value(), KEY)) == ADA


def test_the_time_of_a_request_and_the_order_of_its_fields_do_not_matter() -> None:
    changed = orjson.loads(sealed(value(), KEY)) | {"time": "2027-01-01T00:00:00.000Z"}
    assert actor(orjson.dumps(dict(reversed(changed.items())))).verified


def test_a_seal_holds_in_a_binary_record_too() -> None:
    attributes = orjson.loads(sealed(value(), KEY))
    data = dumps(attributes.pop("data"))
    headers = {f"ce_{name}": text.encode() for name, text in attributes.items()}
    assert has_seal(data, headers)
    assert actor(data, headers=headers).verified


UNSEALED: list[dict[str, Any]] = [
    {"seal": None},
    {"seal": ""},
    {"seal": 7},
    {"seal": True},
    {"seal": "0" * 64},
    {"seal": "é" * 64},
    {"seal": ["0" * 64]},
    {"id": "2"},
    {"source": "/poweron/keys/other"},
    {"data": {"prompt": "Pay!", "actor": ADA.model_dump(mode="json")}},
    {"data": {"prompt": "When does it open?", "actor": {"id": "root", "via": "http", "verified": True}}},
]


@pytest.mark.parametrize("change", UNSEALED, ids=str)
def test_a_request_that_was_changed_after_it_was_sealed_is_a_claim(change: dict[str, Any]) -> None:
    changed = dumps(orjson.loads(sealed(value(), KEY)) | change)
    assert not actor(changed).verified


@pytest.mark.parametrize("key", [None, b"", b"other"])
def test_a_seal_of_another_key_is_a_claim(key: bytes | None) -> None:
    assert actor(sealed(value(), KEY), key) == ADA.model_copy(update={"verified": False})


def test_a_request_without_a_seal_is_a_claim_whatever_it_says() -> None:
    assert not has_seal(value(), {})
    assert actor(value()) == ADA.model_copy(update={"verified": False})


def test_a_seal_makes_nothing_else_acceptable() -> None:
    broken = dumps(orjson.loads(sealed(value(), KEY)) | {"data": None})
    with pytest.raises((InvalidRequest, Undecodable)):
        decode_request(broken, {}, seal_key=KEY)
