"""Resolved patterns of large groups: shared sets of topics, the cost of a result, and results that are too large."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafka_shim.groups.consumer.member import Member, Reader
from kafka_shim.groups.regex import Matching
from tests.groups.consumer.context import HOST, Cluster, Consumer, settle

PATTERNS = ("t.*", "t[ab]", "ta|tb")
ANONYMOUS = Reader("User:ANONYMOUS", HOST)


class Rights:
    """Rights to describe all topics; they count the topics that they look at."""

    of_members = True

    def __init__(self) -> None:
        self.looks = 0

    def described(self, principal: str, host: str, topics: Iterable[str]) -> frozenset[str]:
        described = frozenset(topics)
        self.looks += len(described)
        return described


class Restricted(Cluster):
    """A cluster with ACLs."""

    def start(self) -> None:
        self.rights = Rights()
        self.serve(topics=self.topics, topic_rights=self.rights)


def joined(cluster: Cluster, patterns: Iterable[str]) -> list[Consumer]:
    """Let a member with each pattern join, and have all patterns resolved together."""
    members = [cluster.consumer(f"m{number}", regex=pattern) for number, pattern in enumerate(patterns)]
    for each in members:
        assert each.join(subscribed_topic_names=None).error_code == 0
    cluster.advance(11_000)
    members[0].heartbeat()
    cluster.advance(0)
    return members


def sets_of(cluster: Cluster) -> list[frozenset[str]]:
    return [each.topics for each in cluster.consumer_group.subscriptions.resolved.values()]


def test_patterns_with_the_same_topics_share_one_set() -> None:
    cluster = Cluster(ta=1, tb=1, other=1)
    joined(cluster, PATTERNS)
    assert sets_of(cluster) == [{"ta", "tb"}] * 3
    assert len(set(map(id, sets_of(cluster)))) == 1
    members = cluster.consumer_group.specs.members().values()
    assert [len(each.topics) for each in members] == [2, 2, 2]
    assert len({id(each.topics) for each in members}) == 1


def test_a_loaded_group_shares_them_too() -> None:
    cluster = Cluster(ta=1, tb=1, other=1)
    joined(cluster, PATTERNS)
    cluster.crash()
    assert sets_of(cluster) == [{"ta", "tb"}] * 3
    assert len(set(map(id, sets_of(cluster)))) == 1


def test_a_matching_keeps_each_set_once() -> None:
    matching = Matching([*PATTERNS, "other"], ["ta", "tb", "other"])
    while matching.go_on():
        pass
    sets = [matching.found[pattern] for pattern in PATTERNS]
    assert sets == [{"ta", "tb"}] * 3
    assert len(set(map(id, sets))) == 1
    assert matching.found["other"] == {"other"}


@pytest.mark.parametrize(("limit", "fits"), [(150, False), (400, True)])
def test_records_that_are_too_large_together_are_dropped(limit: int, fits: bool) -> None:
    cluster = Cluster(**{"t" + letter * 50: 1 for letter in "ab"})
    cluster.topics.max_batch_bytes = limit
    member = cluster.consumer("a", regex="t.*")
    member.join(subscribed_topic_names=None)
    settle(member)
    assert bool(sets_of(cluster)) == bool(member.owned) == fits
    cluster.topics.max_batch_bytes = 2**20
    member.full(subscribed_topic_names=None)
    settle(member)
    assert len(member.owned) == 2


def test_names_alone_can_be_too_large() -> None:
    cluster = Cluster(**{"t" + letter * 200: 1 for letter in "ab"})
    cluster.topics.max_batch_bytes = 300
    member = cluster.consumer("a", regex="t.*")
    member.join(subscribed_topic_names=None)
    settle(member)
    assert (sets_of(cluster), member.owned) == ([], set())


def test_a_resolution_looks_at_each_member_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def regex(self: Member) -> str | None:
        nonlocal looks
        looks += 1
        return self.topic_regex or None

    cluster = Cluster(t=1)
    monkeypatch.setattr(Member, "regex", property(regex))
    joined(cluster, ["t"])
    members = [cluster.consumer(f"n{number}", regex=f"t|x{number}") for number in range(50)]
    for each in members:
        each.join(subscribed_topic_names=None)
    cluster.advance(11_000)
    looks = 0
    members[0].heartbeat()
    cluster.advance(0)
    assert len(sets_of(cluster)) == 51
    assert looks < 4 * 51


def test_rights_look_once_at_topics_that_many_patterns_match() -> None:
    cluster = Restricted(**{f"t{number}": 1 for number in range(10)})
    joined(cluster, ["t.*"])
    patterns = [f"t.*|x{number}" for number in range(20)]
    for number, pattern in enumerate(patterns):
        cluster.consumer(f"n{number}", regex=pattern).join(subscribed_topic_names=None)
    cluster.advance(11_000)
    cluster.rights.looks = 0
    cluster.consumer("last", regex="t.*|last").join(subscribed_topic_names=None)
    cluster.advance(0)
    assert [len(each) for each in sets_of(cluster)] == [10] * 22
    assert cluster.rights.looks == 10


def test_the_view_of_a_pattern_without_subscribers_is_forgotten() -> None:
    cluster = Restricted(ta=1, tb=1)
    (member,) = joined(cluster, ["ta"])
    views = cluster.consumer_group.subscriptions.views
    assert views is not None
    assert views.knows("m0", ANONYMOUS, "ta")
    assert member.full(subscribed_topic_names=None, subscribed_topic_regex="tb").error_code == 0
    assert views.knows("m0", ANONYMOUS, "tb")
    assert not views.knows("m0", ANONYMOUS, "ta")


def test_a_static_member_that_comes_back_keeps_the_view_of_its_pattern() -> None:
    cluster = Restricted(ta=2, tb=2, other=1)
    member = cluster.consumer("s1", regex="t.*", instance_id="i")
    member.join(subscribed_topic_names=None)
    cluster.advance(0)
    member.obey()
    assert member.heartbeat(member_epoch=-2).error_code == 0
    again = cluster.consumer("s2", regex="t.*", instance_id="i")
    again.join(subscribed_topic_names=None)
    cluster.create("unrelated", 1)
    # The other member computes the target before the next heartbeat of the static one.
    assert cluster.consumer("b", "other").join().error_code == 0
    again.obey()
    assert sorted(again.assigned) == [("ta", 0), ("ta", 1), ("tb", 0), ("tb", 1)]
