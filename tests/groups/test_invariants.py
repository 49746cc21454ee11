"""Random requests, time and crashes under the invariants I1 to I11.

Tests of the server check I4: no reply leaves before its records are durable.
"""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_shim.apis import offset_commit
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.trace.causes import Cause
from tests.examples import examples
from tests.groups.classic_safety import check_counts, check_reload, check_timers
from tests.groups.context import GROUP, RANGE, ROUND_ROBIN, Context, Reply, subscription

LONGEST = 20_000
PROTOCOLS = [(RANGE,), (RANGE, ROUND_ROBIN), (ROUND_ROBIN, RANGE), (("range", subscription("other")), ROUND_ROBIN)]
PARTITIONS = 6


class EveryTopic:
    """Topics with every partition."""

    def partitions_of(self, topic: str) -> int:
        return 2**31


class Coordinated(RuleBasedStateMachine):
    """Members, ghosts and administrators at one group."""

    @initialize(delay=st.sampled_from([0, 3000]), size=st.sampled_from([3, 100]))
    def begin(self, delay: int, size: int) -> None:
        self.coordinator = Context(
            f"group.initial.rebalance.delay.ms={delay}",
            f"group.max.size={size}",
            "offsets.retention.check.interval.ms=40000",
        )
        self.ids = ["nobody"]
        self.joins: list[tuple[Reply, str | None]] = []
        self.syncs: list[tuple[Reply, str]] = []
        self.parked_at: dict[Reply, float] = {}
        self.fenced: set[str] = set()
        self.seen = 0
        self.committed: dict[int, int] = {}
        self.forget_generations()

    def forget_generations(self) -> None:
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.owners: dict[tuple[int, int], str] = {}

    # Identities

    @property
    def group(self) -> ClassicGroup | None:
        return self.coordinator.service.groups.get(GROUP)

    def place(self, member_id: str) -> str:
        """The common part of a static member's ids; a dynamic member's id."""
        return member_id.split("-")[0] if member_id.startswith("instance") else member_id

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.ids))

    # Requests

    @rule(
        data=st.data(), version=st.sampled_from([3, 8, 9]), instance=st.sampled_from([None, "instanceA", "instanceB"])
    )
    def join_new(self, data: st.DataObject, version: int, instance: str | None) -> None:
        reply = self.coordinator.join(
            "",
            *data.draw(st.sampled_from(PROTOCOLS)),
            instance=instance,
            version=version,
            session=data.draw(st.sampled_from([6000, 15_000])),
            rebalance=data.draw(st.sampled_from([0, 6000, LONGEST])),
        )
        self.note_join(reply, instance)

    @rule(data=st.data())
    def rejoin(self, data: st.DataObject) -> None:
        member_id = self.pick(data)
        protocols = data.draw(st.sampled_from(PROTOCOLS))
        self.note_join(self.coordinator.join(member_id, *protocols, rebalance=LONGEST), None)

    @rule()
    def everybody_rejoins(self) -> None:
        for member_id in list(self.group.members) if self.group else []:
            self.note_join(self.coordinator.join(member_id, rebalance=LONGEST), None)

    def note_join(self, reply: Reply, instance: str | None) -> None:
        self.joins.append((reply, instance))
        self.parked_at[reply] = self.coordinator.now

    @rule(data=st.data(), stale=st.booleans())
    def sync(self, data: st.DataObject, stale: bool) -> None:
        self.send_sync(self.pick(data), data, stale)

    @precondition(lambda self: self.group is not None and self.group.leader is not None)
    @rule(data=st.data())
    def leader_syncs(self, data: st.DataObject) -> None:
        self.send_sync(self.group.leader, data, False)

    def send_sync(self, member_id: str, data: st.DataObject, stale: bool) -> None:
        group = self.group
        generation = (group.generation if group else 0) - stale
        members = list(group.members) if group else []
        assignments: dict[str, bytes] = dict.fromkeys(members, b"")
        for partition in range(PARTITIONS if members else 0):
            assignments[data.draw(st.sampled_from(members))] += bytes([partition])
        was_member = member_id in members
        reply = self.coordinator.sync(member_id, generation, assignments, protocol_name=None, protocol_type="consumer")
        if reply.parked or reply.error == 0:
            assert was_member, "I6"
            assert not stale
        self.syncs.append((reply, member_id))
        self.parked_at[reply] = self.coordinator.now

    @rule(data=st.data(), stale=st.booleans())
    def heartbeat(self, data: st.DataObject, stale: bool) -> None:
        member_id, group = self.pick(data), self.group
        generation = (group.generation if group else 0) - stale
        if self.coordinator.heartbeat(member_id, generation) in (0, 27):
            assert group is not None
            assert member_id in group.members, "I6"
            assert generation == group.generation
            assert member_id not in self.fenced, "I8"

    @rule()
    def everybody_heartbeats(self) -> None:
        if self.group is not None:
            for member_id in list(self.group.members):
                assert self.coordinator.heartbeat(member_id, self.group.generation) in (0, 27)

    @rule(data=st.data(), by_instance=st.booleans())
    def leave(self, data: st.DataObject, by_instance: bool) -> None:
        if by_instance:
            self.coordinator.leave(("", data.draw(st.sampled_from(["instanceA", "instanceB"]))))
        else:
            self.coordinator.leave(self.pick(data), self.pick(data))

    @rule(data=st.data(), partition=st.integers(0, 2), offset=st.integers(0, 9), stale=st.booleans())
    def commit(self, data: st.DataObject, partition: int, offset: int, stale: bool) -> None:
        member_id, group = self.pick(data), self.group
        generation = (group.generation if group else 0) - stale
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="topic",
                    partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
                )
            ],
        )
        self.coordinator.broker = SimpleNamespace(topics=EveryTopic(), remote_share_states=None)
        was_member = group is not None and member_id in group.members
        reply = self.coordinator.send(offset_commit, request, 9)
        if reply.topics[0].partitions[0].error_code == 0:
            if generation >= 0:
                assert was_member, "I6"
            self.committed[partition] = offset

    @rule()
    def delete(self) -> None:
        ((_, error),) = self.coordinator.delete(GROUP)
        if error == 0:
            self.committed.clear()

    # Time

    @rule(ms=st.sampled_from([0, 1, 1000, 3000, 5999, 6001, 10_000, 21_000]))
    def pass_time(self, ms: int) -> None:
        self.coordinator.advance(ms)

    @rule()
    def crash(self) -> None:
        self.coordinator.crash()
        self.joins.clear()
        self.syncs.clear()
        self.parked_at.clear()
        self.generation = 0
        self.leaders.clear()

    # Invariants

    @invariant()
    def answers_are_right(self) -> None:
        for reply, instance in self.joins:
            if not reply.parked:
                self.check_join(reply, instance)
        self.joins = [(reply, instance) for reply, instance in self.joins if reply.parked]
        for reply, member_id in self.syncs:
            if not reply.parked and reply.error == 0:
                for partition in reply.assignment:
                    owner = self.owners.setdefault((self.generation_of(reply), partition), self.place(member_id))
                    assert owner == self.place(member_id), "I1"
        self.syncs = [(reply, member_id) for reply, member_id in self.syncs if reply.parked]

    def check_join(self, reply: Reply, instance: str | None) -> None:
        if reply.member_id and reply.member_id not in self.ids:
            self.ids.append(reply.member_id)
        if reply.error == 0:
            assert reply.generation_id >= 1
            if reply.members:
                assert reply.leader == reply.member_id
                leader = self.leaders.setdefault(reply.generation_id, self.place(reply.leader))
                assert leader == self.place(reply.leader), "I7"
        else:
            assert (reply.generation_id, reply.members, reply.leader) == (-1, [], "")

    def generation_of(self, reply: Reply) -> int:
        # A sync is answered with 0 only while its generation is Stable, and these checks run after every step.
        assert self.group is not None
        return self.group.generation

    @invariant()
    def generations_only_grow(self) -> None:
        if self.group is None:
            self.forget_generations()
        else:
            assert self.group.generation >= self.generation, "I2"
            self.generation = self.group.generation

    @invariant()
    def parked_requests_are_answered_in_time(self) -> None:
        self.parked_at = {reply: at for reply, at in self.parked_at.items() if reply.parked}
        for at in self.parked_at.values():
            assert self.coordinator.now - at <= LONGEST / 1000 + 0.01, "I3"

    @invariant()
    def records_give_the_hard_state(self) -> None:
        check_reload(self.group, self.reloaded())

    def reloaded(self) -> ClassicGroup | None:
        other = Context("group.max.size=100")
        other.durable = self.coordinator.durable
        other.start()
        return other.service.groups.get(GROUP)

    @invariant()
    def every_rebalance_has_a_cause(self) -> None:
        for event in self.coordinator.events[self.seen :]:
            if event["event"] == "state" and event["to"] == "PreparingRebalance":
                assert event["cause"] in set(Cause), "I9"
            if event["event"] == "member" and event["change"] == "fenced":
                self.fenced.add(event["member_id"])
        self.seen = len(self.coordinator.events)

    @invariant()
    def timers_belong_to_somebody(self) -> None:
        check_timers(self.coordinator.service.timers, self.group)

    @invariant()
    def counts_are_those_of_the_members(self) -> None:
        if self.group is not None:
            check_counts(self.group)

    @invariant()
    def offsets_change_by_commits_alone(self) -> None:
        shard = self.coordinator.service.shards[self.coordinator.service.partition_of(GROUP)]
        offsets = {partition: value.offset for partition, value in shard.offsets.of(GROUP).get("topic", {}).items()}
        assert offsets == self.committed, "I11"


TestInvariants = Coordinated.TestCase
TestInvariants.settings = settings(
    max_examples=examples(300, fuzz=10_000),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
