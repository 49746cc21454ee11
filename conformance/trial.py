"""The tools of a running case: its own group, connections, members, topics, and assertions.

The end of the cell closes everything made here.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.releases import Rules, rules_of
from kafka_shim.conformance.consumer_member import ConsumerMember
from kafka_shim.conformance.contact import Contact
from kafka_shim.conformance.member import RANGE, Member, Protocols
from kafka_shim.conformance.peer import Peer, topic_name
from kafka_shim.conformance.plain import error_name
from kafka_shim.conformance.verdict import Failed, Skipped
from kafka_shim.conformance.wire import CLIENT_ID, Connection, NoAnswer

T = TypeVar("T")
_POLL: Final = 0.004
_SELDOM: Final = 0.1
_BRIEF_MS: Final = 10_000
TOPIC_ALREADY_EXISTS: Final = 36


class Trial(Contact):
    """One cell while it runs.

    `name` separates the groups of different cells and runs. `is_timed`: the case let time pass, or sent a timeout that
    may expire. `has_more_time`: the cell runs with longer waits and few cells beside it.
    """

    def __init__(
        self,
        peer: Peer,
        group: str,
        name: str,
        *,
        api: str | None = None,
        version: int = 0,
        cap: float = 30.0,
        is_timed: bool = False,
        has_more_time: bool = False,
    ) -> None:
        limits = peer.limits.with_more_time() if has_more_time else peer.limits
        super().__init__(peer, f"{group}-{name}", api, version, limits, cap + limits.patience)
        self.is_timed = is_timed
        self.has_more_time = has_more_time
        self.unique = name
        self._members = 0
        # Each member has its own client id; a client id from the user is its prefix.
        self._prefix = "" if peer.client_id == CLIENT_ID else f"{peer.client_id}-"

    # -- what differs by release

    @property
    def rules(self) -> Rules:
        """The rules of the target's release."""
        return rules_of(self.peer.release)

    @property
    def first_epoch(self) -> int:
        """The epoch of the first member of a group."""
        return 1 + self.rules.first_epoch_two

    # -- members

    def member(
        self,
        name: str | None = None,
        *,
        group: str | None = None,
        instance_id: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_timeout: int | None = None,
        rebalance_timeout: int = 30_000,
    ) -> Member:
        """Create a scripted member that has not joined yet; see `Member`. Its session timeout is long by default."""
        self._members += 1
        self.is_timed |= min(rebalance_timeout, session_timeout or _BRIEF_MS) < _BRIEF_MS
        return Member(
            self,
            name or f"{self._prefix}m{self._members}",
            group or self.group,
            instance_id=instance_id,
            protocols=protocols,
            protocol_type=protocol_type,
            session_timeout=self.limits.usual_session if session_timeout is None else session_timeout,
            rebalance_timeout=rebalance_timeout,
        )

    def consumer(self, *topics: str, **options: Any) -> ConsumerMember:
        """Create a member of a consumer group that has not joined yet; see `ConsumerMember`."""
        self._members += 1
        return ConsumerMember(self, f"{self._prefix}m{self._members}", topics, **options)

    def converge(self, *members: ConsumerMember) -> None:
        """Let every member follow its assignment until all have one epoch and together own all their topics."""
        counts = self.peer.partitions
        expected = {(topic, n) for each in members for topic in each.topics for n in range(counts.get(topic, 0))}

        def quiet() -> bool:
            before = [(each.epoch, frozenset(each.assigned), frozenset(each.owned)) for each in members]
            for each in members:
                self.expect(each.reconcile(), error_code=0)
            after = [(each.epoch, frozenset(each.assigned), frozenset(each.owned)) for each in members]
            settled = before == after and len({each.epoch for each in members}) == 1
            return settled and set().union(*(each.owned for each in members)) == expected

        self.until(quiet, bool, f"the members never settled: {[(each.epoch, each.assigned) for each in members]}")

    def configure(self, group: str | None = None, **settings: object) -> None:
        """Set configurations of a group; underscores in the names stand for dots."""
        configs = [AlterableConfig(name.replace("_", "."), 0, str(value)) for name, value in settings.items()]
        answer = self.call(IncrementalAlterConfigsRequest([AlterConfigsResource(32, group or self.group, configs)]))
        code = answer.responses[0].error_code
        if code != 0:
            raise Skipped(f"the group cannot be configured: {error_name(code)}")
        # A broker answers when the controller has the settings, and takes them itself a moment later.
        self._await_settings(group or self.group, {each.name: each.value for each in configs})

    def _await_settings(self, group: str, settings: Mapping[str, str | None]) -> None:
        """Wait until every broker has these settings of a group."""
        resource = DescribeConfigsResource(32, group, list(settings))
        request = DescribeConfigsRequest([resource])
        version = self.version_of(request)
        for endpoint in self.peer.routes.everywhere():
            wire = self.connect_to(endpoint, "settings")

            def current(wire: Connection = wire) -> dict[str, str | None]:
                return {each.name: each.value for each in wire.call(request, version).results[0].configs}

            self.until(current, lambda values: values == settings, f"the settings of {group} never showed")

    def stable(self, count: int = 1, **options: Any) -> list[Member]:
        """Return `count` new members in a Stable group, the leader first. `options` as for `member`."""
        members = [self.member(**options) for _ in range(count)]
        return self.settle(members)

    def joined(self, count: int = 1, **options: Any) -> list[Member]:
        """Return `count` new members in CompletingRebalance, the leader first; no member has synced."""
        members = [self.member(**options) for _ in range(count)]
        return self.gather(members)

    def gather(self, members: list[Member]) -> list[Member]:
        """Bring members, joined or not, into one new generation; return them with the leader first."""
        fresh = [each for each in members if not each.is_joined]
        if not fresh:
            leader = next(each for each in members if each.is_leader)
            leader.send_join()
            for each in members:
                if each is not leader:
                    self.await_state("PreparingRebalance", each.group)
                    each.send_join()
        elif len(fresh) == len(members):
            members[0].join()
            fresh = fresh[1:]
        if fresh:
            for each in fresh:
                each.send_join()
            if self.peer.offers("DescribeGroups"):
                self.await_members(len(members), members[0].group)
            for each in members:
                if each not in fresh:
                    each.send_join()
        for each in members:
            if each.is_waiting:
                self.expect(each.receive_join(), error_code=0)
        generations = {each.generation for each in members}
        self.check(len(generations) == 1, f"members of one round have generations {sorted(generations)}")
        leaders = [each for each in members if each.is_leader]
        self.check(len(leaders) == 1, f"one generation has {len(leaders)} leaders")
        return leaders + [each for each in members if not each.is_leader]

    def settle(self, members: list[Member]) -> list[Member]:
        """Gather and sync the members: the leader assigns `assignment of NAME` to each."""
        members = self.gather(members)
        assignments = {each: f"assignment of {each.name}".encode() for each in members}
        self.expect(members[0].sync(assignments), error_code=0, assignment=assignments[members[0]])
        for each in members[1:]:
            self.expect(each.sync(), error_code=0, assignment=assignments[each])
        return members

    # -- the state of the group

    def describe(self, group: str | None = None) -> DescribedGroup:
        """Return the group as DescribeGroups describes it."""
        described: list[DescribedGroup] = self.call(DescribeGroupsRequest([group or self.group])).groups
        self.check(len(described) == 1, f"the request was for one group and {len(described)} were described")
        return described[0]

    def await_state(self, state: str, group: str | None = None) -> DescribedGroup:
        """Poll until the group is in `state`."""
        return self.until(
            lambda: self.describe(group), lambda now: now.group_state == state, f"the group never became {state}"
        )

    def await_members(self, count: int, group: str | None = None) -> DescribedGroup:
        """Poll until the group has `count` members."""
        return self.until(
            lambda: self.describe(group),
            lambda now: len(now.members) == count,
            f"the group never came to {count} members",
        )

    def until(
        self, ask: Callable[[], T], holds: Callable[[T], bool], otherwise: str, seconds: float | None = None
    ) -> T:
        """Poll until the answer holds; raise `Failed` with the last answer after the patience, or `seconds`."""
        self.is_timed |= seconds is not None
        start = time.monotonic()
        limit = min(self._deadline, start + (self.limits.patience if seconds is None else seconds))
        while True:
            answer = ask()
            if holds(answer):
                return answer
            now = time.monotonic()
            if now > limit:
                raise Failed(f"{otherwise}; last: {answer!r}")
            # A long wait polls less often, to keep the target free.
            time.sleep(max(_POLL, min(_SELDOM, (now - start) / 20)))

    # -- topics

    def topic(self, partitions: int = 3) -> str:
        """Return a shared topic with this number of partitions; create it on first use."""
        name = topic_name(partitions)
        return name if name in self.peer.partitions else self.new_topic(partitions, name)

    def new_topic(self, partitions: int, name: str | None = None) -> str:
        """Create a topic, by a Metadata request without CreateTopics, and wait until every broker shows it."""
        name = name or f"topic-{self.unique}-{uuid.uuid4().hex[:8]}"
        makes_topics = self.peer.offers("CreateTopics")
        if makes_topics:
            answer = self.call(CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], [])], 10_000))
            if answer.topics[0].error_code not in (0, TOPIC_ALREADY_EXISTS):
                raise Skipped(f"the target made no topic: {error_name(answer.topics[0].error_code)}")

        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=not makes_topics)
        version = self.version_of(request)
        for endpoint in self.peer.routes.everywhere():
            wire = self.connect_to(endpoint, "topics")

            def described(wire: Connection = wire) -> Any:
                return wire.call(request, version).topics[0]

            topic = self.until(described, lambda now: len(now.partitions) >= partitions, f"topic {name} never showed")
        self.peer.topic_ids[name] = topic.topic_id
        self.peer.partitions[name] = partitions
        return name

    def parked(self, connection: Connection | Member, why: str) -> None:
        """Raise `Failed` if an answer has come. Call it after an exchange that proves the request was handled."""
        wire = connection.wire if isinstance(connection, Member) else connection
        if not wire.is_silent():
            try:
                answer = wire.receive()
            except NoAnswer:
                return
            raise Failed(f"answered at once where it must wait ({why}): {answer!r}")

    def lapse(self, milliseconds: float, action: Callable[[], object] | None = None, every: float = 50) -> None:
        """Let a time of the target's limits pass; call `action` every `every` milliseconds."""
        self.is_timed = True
        end = time.monotonic() + milliseconds / 1000
        while (remaining := end - time.monotonic()) > 0:
            if action is not None:
                action()
            time.sleep(min(remaining, every / 1000))
