"""The topics: settings that would break the log are refused with the command that mends them."""

import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from poweron_events import topics
from poweron_events.errors import Refused

GOOD = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "segment.bytes": "1073741824",
}


@pytest.mark.req("E-02")
def test_a_topic_that_keeps_everything_is_taken() -> None:
    topics.check(topics.EVENTS, GOOD)


@pytest.mark.req("E-02")
@pytest.mark.parametrize(
    ("setting", "found", "wanted"),
    [
        ("cleanup.policy", "compact", "delete"),
        ("cleanup.policy", "compact,delete", "delete"),
        ("retention.ms", "604800000", "-1"),
        ("retention.bytes", "1000000", "-1"),
        ("message.timestamp.type", "CreateTime", "LogAppendTime"),
    ],
)
def test_a_setting_that_would_break_the_log_is_refused(setting: str, found: str, wanted: str) -> None:
    with pytest.raises(Refused) as raised:
        topics.check(topics.EVENTS, GOOD | {setting: found})
    assert str(raised.value) == (
        f"Topic 'poweron.events' has {setting}='{found}', but nothing in it may be forgotten or rewritten: PowerOn needs '{wanted}'. "
        "Mend it with: kafka-configs.sh --alter --entity-type topics --entity-name poweron.events "
        f"--add-config {setting}={wanted}"
    )


@pytest.mark.req("E-02")
def test_a_setting_that_the_broker_does_not_tell_is_refused() -> None:
    with pytest.raises(Refused, match=r"retention\.ms=''"):
        topics.check(topics.EVENTS, {"cleanup.policy": "delete"})


@pytest.mark.req("E-02")
def test_the_topics_of_this_release() -> None:
    assert [(topic.name, topic.partitions) for topic in topics.ALL] == [
        ("poweron.events", 12),
        ("poweron.requests", 12),
        ("poweron.deadletter", 1),
        ("poweron.ledger", 1),
        ("poweron.checkpoints", 1),
    ]


def test_requests_do_not_expire_either_since_they_may_wait_for_postgres() -> None:
    with pytest.raises(Refused, match=r"'poweron.requests' has retention.ms='604800000'"):
        topics.check(topics.REQUESTS, {"cleanup.policy": "delete", "retention.ms": "604800000"})


@pytest.mark.req("E-02")
def test_a_topic_that_has_grown_is_refused() -> None:
    topics.check_partitions(topics.EVENTS, 12)
    with pytest.raises(Refused, match="has 24 partitions, but must have 12 for all its life"):
        topics.check_partitions(topics.EVENTS, 24)


@pytest.mark.req("E-02")
@given(st.binary(max_size=80), st.integers(1, 100))
def test_a_key_belongs_in_the_partition_that_kafkas_clients_send_it_to(key: bytes, partitions: int) -> None:
    assert topics.partition_of(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions
