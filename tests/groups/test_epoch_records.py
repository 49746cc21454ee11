"""Records of groups with epochs, of every kind: the order of their tombstones (semantics 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_shim.groups.epochs.group import EpochGroup, ReplayError
from tests.groups.consumer.context import Cluster as ConsumerCluster
from tests.groups.context import GROUP
from tests.groups.share.context import Cluster as ShareCluster
from tests.groups.streams.context import Cluster as StreamsCluster
from tests.groups.streams.context import one_subtopology


def consumer_group() -> EpochGroup[Any, Any]:
    cluster = ConsumerCluster(t=1)
    cluster.consumer("m", "t").join()
    return cluster.consumer_group


def share_group() -> EpochGroup[Any, Any]:
    cluster = ShareCluster(t=1)
    cluster.sharer("m", "t").join()
    return cluster.share_group


def streams_group() -> EpochGroup[Any, Any]:
    cluster = StreamsCluster(t=1)
    member = cluster.member("m", one_subtopology("t"))
    member.join()
    # The first assignment waits for more members.
    cluster.advance(3_000)
    member.heartbeat()
    return cluster.streams_group


@pytest.mark.parametrize("group_of_one", [consumer_group, share_group, streams_group])
def test_each_tombstone_comes_after_those_of_its_parts(group_of_one: Callable[[], EpochGroup[Any, Any]]) -> None:
    group = group_of_one()
    classes = group.record_classes
    group.replay(classes.target_assignment(GROUP, "m"), classes.target_value(next(iter(group.targets.values()))))
    with pytest.raises(ReplayError, match="'m' was deleted before its current assignment"):
        group.replay(classes.member(GROUP, "m"), None)
    group.replay(classes.current_assignment(GROUP, "m"), None)
    with pytest.raises(ReplayError, match="'m' was deleted before its target assignment"):
        group.replay(classes.member(GROUP, "m"), None)
    with pytest.raises(ReplayError, match="target epoch of 'group' was deleted before its target assignments"):
        group.replay(classes.target_epoch(GROUP), None)
    group.replay(classes.target_assignment(GROUP, "m"), None)
    group.replay(classes.target_epoch(GROUP), None)
    with pytest.raises(ReplayError, match="'group' was deleted while it had 1 members"):
        group.replay(classes.group(GROUP), None)
    assert GROUP in group.shard.groups
    group.replay(classes.member(GROUP, "m"), None)
    group.replay(classes.group(GROUP), None)
    assert GROUP not in group.shard.groups
