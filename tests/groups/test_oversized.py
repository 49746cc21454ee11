"""Records too large for `__consumer_offsets`: the clients concerned get -1, and nothing is stored (semantics 2.10).

The numbers are those at which Kafka 4.2.2 begins to refuse: a batch of more than 1,048,588 bytes.
"""

from __future__ import annotations

from kafka_shim.persistence.batch import batch_size
from kafka_shim.persistence.records import encode_key, encode_value
from tests.groups.offsets_coordinator import Coordinator

LIMIT = 1_048_588


def test_assignments_too_large_to_store_are_refused_to_all_and_the_group_rebalances(coordinator):
    leader, follower = coordinator.prepare(2)
    coordinator.end_round()
    written = len(coordinator.written)
    waiting = coordinator.sync(follower, 1)
    assert coordinator.sync(leader, 1, {leader: bytes(LIMIT)}).error == -1
    assert (waiting.error, waiting.assignment) == (-1, b"")
    assert coordinator.state == "PreparingRebalance"
    assert (coordinator.heartbeat(leader, 1), coordinator.heartbeat(follower, 1)) == (27, 27)
    assert len(coordinator.written) == written
    assert coordinator.causes()[-1] == "ASSIGNMENT_WRITE_FAILED"
    coordinator.join(leader)
    coordinator.join(follower)
    coordinator.sync_all([leader, follower])
    assert (coordinator.state, coordinator.group.generation) == ("Stable", 2)


def test_the_largest_assignment_fits(coordinator):
    (leader,) = coordinator.prepare(1)
    coordinator.end_round()
    least, most = 0, LIMIT
    while most - least > 1:
        size = (least + most) // 2
        error = coordinator.sync(leader, coordinator.group.generation, {leader: bytes(size)}).error
        least, most = (size, most) if error == 0 else (least, size)
        coordinator.join(leader)
    assert coordinator.sync(leader, coordinator.group.generation, {leader: bytes(least)}).error == 0
    key, value = coordinator.written[-1]
    assert batch_size([(encode_key(key), encode_value(key, value))]) == LIMIT


def test_a_static_member_is_not_taken_over_with_metadata_too_large_to_store(coordinator):
    (member,) = coordinator.form(1, instances=["instance"])
    large = ("range", bytes(LIMIT))
    answer = coordinator.join("", large, instance="instance")
    assert (answer.error, answer.member_id) == (-1, "")
    assert coordinator.group.static == {"instance": member}
    assert coordinator.heartbeat(member, 1, instance="instance") == 0
    assert coordinator.describe().members[0].member_assignment == b"0"
    coordinator.crash()
    assert coordinator.group.static == {"instance": member}


def test_a_commit_too_large_to_store_is_refused_as_a_whole():
    here = Coordinator()
    here.broker.topics.partitions["foo"] = 400
    offsets = {("foo", partition): 1 for partition in range(400)}
    assert set(here.commit("grp", offsets, metadata="m" * 4096).values()) == {-1}
    assert here.service.groups == {}
    assert set(here.commit("grp", offsets, metadata="m" * 2000).values()) == {0}
    assert set(here.commit("grp", offsets, metadata="m" * 4096).values()) == {-1}
    assert {value[0] for value in here.fetch("grp").items()} == set(offsets)


def test_a_smaller_limit_of_the_topic_counts():
    here = Coordinator()
    here.service._parts.topics.max_batch_bytes = 500
    assert here.commit("grp", {("foo", 0): 1}, metadata="m" * 300) == {("foo", 0): 0}
    assert here.commit("grp", {("foo", 0): 1}, metadata="m" * 450) == {("foo", 0): -1}
