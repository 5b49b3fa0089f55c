"""Topics on a cluster: a single replica and what else loses events with one broker is refused, or warned of."""

import logging

import pytest

from poweron_events.errors import Refused
from poweron_events.log.kafka_topics import Cluster, check_replication

TWO_IN_SYNC = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


def check(replicas: int, *, brokers: int = 3, factor: int | None = None, **changed: str) -> None:
    settings = TWO_IN_SYNC | {name.replace("_", "."): value for name, value in changed.items()}
    check_replication("poweron.events", replicas, settings, brokers=brokers, factor=factor)


@pytest.mark.req("E-02")
def test_three_replicas_of_which_two_confirm_are_fine(caplog: pytest.LogCaptureFixture) -> None:
    check(3)
    assert caplog.records == []


@pytest.mark.req("E-02")
def test_a_single_replica_on_a_cluster_is_refused_unless_a_setting_allows_it() -> None:
    with pytest.raises(Refused, match=r"one replica on a cluster of 3 brokers.*POWERON_KAFKA_REPLICATION_FACTOR=1"):
        check(1, min_insync_replicas="1")
    check(1, min_insync_replicas="1", factor=1)
    check(1, min_insync_replicas="1", brokers=1)


@pytest.mark.req("E-02")
def test_no_broker_that_missed_events_may_become_the_leader() -> None:
    with pytest.raises(Refused, match=r"unclean\.leader\.election\.enable=false$"):
        check(3, unclean_leader_election_enable="true")


@pytest.mark.req("E-02")
def test_a_topic_that_can_take_no_append_is_refused() -> None:
    with pytest.raises(Refused, match="nothing can be appended"):
        check(1, factor=1)


def test_a_topic_that_one_broker_confirms_alone_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check(3, min_insync_replicas="1")
    assert [record.message for record in caplog.records] == ["weak_replication"]


@pytest.mark.req("E-02")
def test_topics_that_brokers_would_keep_once_are_not_created_on_a_cluster() -> None:
    defaults = {"default.replication.factor": "1", "min.insync.replicas": "1"}
    with pytest.raises(Refused, match="POWERON_KAFKA_REPLICATION_FACTOR=3; 1 accepts"):
        Cluster(3, defaults).expect_replicas(None)
    for cluster, factor in ((Cluster(3, defaults), 1), (Cluster(3, defaults), 3), (Cluster(1, defaults), None)):
        cluster.expect_replicas(factor)


@pytest.mark.req("E-02")
@pytest.mark.parametrize(
    ("factor", "default", "in_sync", "settings"),
    [
        (3, "1", "1", {"min.insync.replicas": "2"}),
        (None, "3", "1", {"min.insync.replicas": "2"}),
        (None, "3", "2", {}),
        (2, "3", "1", {}),
        (1, "3", "1", {}),
    ],
)
def test_new_topics_with_three_replicas_have_each_append_confirmed_by_two(
    factor: int | None, default: str, in_sync: str, settings: dict[str, str]
) -> None:
    cluster = Cluster(3, {"default.replication.factor": default, "min.insync.replicas": in_sync})
    assert cluster.topic_settings(factor) == settings
