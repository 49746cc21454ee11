"""What a case has in its hands: a group of its own, connections, members, topics, and ways to say what must hold.

Everything made here ends with the cell. It does not know which target it talks to, only its limits and versions.
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

    `name` tells the groups of different cells and runs apart. `is_timed`: it has let time pass, or has sent the
    target a timeout that may run out. `is_calm`: it runs with more time and few others beside it.
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
        is_calm: bool = False,
    ) -> None:
        limits = peer.limits.calmer() if is_calm else peer.limits
        super().__init__(peer, f"{group}-{name}", api, version, limits, cap + limits.patience)
        self.is_timed = is_timed
        self.unique = name
        self._members = 0
        # Members have a client id of their own each; one that the user chose is seen in all of them.
        self._prefix = "" if peer.client_id == CLIENT_ID else f"{peer.client_id}-"

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
        """A scripted member that has not joined yet; see `Member`. Its session is one nobody has to wait for."""
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
        """A member of a consumer group that has not joined yet; see `ConsumerMember`."""
        self._members += 1
        return ConsumerMember(self, f"{self._prefix}m{self._members}", topics, **options)

    def converge(self, *members: ConsumerMember) -> None:
        """Let every member follow its assignment until all are of one epoch and together own all their topics."""
        counts = self.peer.partitions
        expected = {(topic, n) for each in members for topic in each.topics for n in range(counts.get(topic, 0))}

        def quiet() -> bool:
            before = [(each.epoch, frozenset(each.assigned), frozenset(each.owned)) for each in members]
            for each in members:
                self.expect(each.obey(), error_code=0)
            after = [(each.epoch, frozenset(each.assigned), frozenset(each.owned)) for each in members]
            settled = before == after and len({each.epoch for each in members}) == 1
            return settled and set().union(*(each.owned for each in members)) == expected

        self.until(quiet, bool, f"the members never settled: {[(each.epoch, each.assigned) for each in members]}")

    def configure(self, group: str | None = None, **settings: object) -> None:
        """Set configurations of a group, their dots as underscores."""
        configs = [AlterableConfig(name.replace("_", "."), 0, str(value)) for name, value in settings.items()]
        answer = self.call(IncrementalAlterConfigsRequest([AlterConfigsResource(32, group or self.group, configs)]))
        code = answer.responses[0].error_code
        if code != 0:
            raise Skipped(f"the group cannot be configured: {error_name(code)}")
        if not self.peer.routes.is_alone:
            self._await_settings(group or self.group, {each.name: each.value for each in configs})

    def _await_settings(self, group: str, settings: Mapping[str, str | None]) -> None:
        """Wait until every broker has these settings of a group: each learns of them in its own time."""
        resource = DescribeConfigsResource(32, group, list(settings))
        request = DescribeConfigsRequest([resource])
        version = self.version_of(request)
        for endpoint in self.peer.routes.everywhere():
            wire = self.connect_to(endpoint, "settings")

            def found(wire: Connection = wire) -> dict[str, str | None]:
                return {each.name: each.value for each in wire.call(request, version).results[0].configs}

            self.until(found, lambda shown: shown == settings, f"the settings of {group} never showed")

    def stable(self, count: int = 1, **options: Any) -> list[Member]:
        """`count` new members in a Stable group, the leader first. `options` as of `member`."""
        members = [self.member(**options) for _ in range(count)]
        return self.settle(members)

    def joined(self, count: int = 1, **options: Any) -> list[Member]:
        """`count` new members in CompletingRebalance, the leader first, nobody having synced."""
        members = [self.member(**options) for _ in range(count)]
        return self.gather(members)

    def gather(self, members: list[Member]) -> list[Member]:
        """Bring members, joined or not, into one new generation; the leader comes first in what is returned."""
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
        """`gather`, then sync: the leader gives each member `assignment of NAME`."""
        members = self.gather(members)
        assignments = {each: f"assignment of {each.name}".encode() for each in members}
        self.expect(members[0].sync(assignments), error_code=0, assignment=assignments[members[0]])
        for each in members[1:]:
            self.expect(each.sync(), error_code=0, assignment=assignments[each])
        return members

    # -- the state of the group, as anybody may ask it

    def describe(self, group: str | None = None) -> DescribedGroup:
        """The group as DescribeGroups shows it."""
        described: list[DescribedGroup] = self.call(DescribeGroupsRequest([group or self.group])).groups
        self.check(len(described) == 1, f"the request was for one group and {len(described)} were described")
        return described[0]

    def await_state(self, state: str, group: str | None = None) -> DescribedGroup:
        """Ask until the group is in `state`."""
        return self.until(
            lambda: self.describe(group), lambda now: now.group_state == state, f"the group never became {state}"
        )

    def await_members(self, count: int, group: str | None = None) -> DescribedGroup:
        """Ask until the group has `count` members."""
        return self.until(
            lambda: self.describe(group),
            lambda now: len(now.members) == count,
            f"the group never came to {count} members",
        )

    def until(
        self, ask: Callable[[], T], holds: Callable[[T], bool], otherwise: str, seconds: float | None = None
    ) -> T:
        """Ask until it holds; `Failed` with the last answer when the patience, or `seconds`, is over."""
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
            # What takes long is seen a little later, and does not keep the target busy meanwhile.
            time.sleep(max(_POLL, min(_SELDOM, (now - start) / 20)))

    # -- topics

    def topic(self, partitions: int = 3) -> str:
        """A topic that exists, made once per target."""
        name = topic_name(partitions)
        return name if name in self.peer.partitions else self.new_topic(partitions, name)

    def new_topic(self, partitions: int, name: str | None = None) -> str:
        """Create a topic, by a Metadata request if there is no other way, and wait until it is there."""
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

            def found(wire: Connection = wire) -> Any:
                return wire.call(request, version).topics[0]

            topic = self.until(found, lambda topic: len(topic.partitions) >= partitions, f"topic {name} never showed")
        self.peer.topic_ids[name] = topic.topic_id
        self.peer.partitions[name] = partitions
        return name

    def parked(self, connection: Connection | Member, why: str) -> None:
        """`Failed` if an answer has come already. Call it after something that proves the request was handled."""
        wire = connection.wire if isinstance(connection, Member) else connection
        if not wire.is_silent():
            try:
                answer = wire.receive()
            except NoAnswer:
                return
            raise Failed(f"answered at once where it must wait ({why}): {answer!r}")

    def lapse(self, milliseconds: float, meanwhile: Callable[[], object] | None = None, every: float = 50) -> None:
        """Let a time of the target's own limits pass, doing `meanwhile` every `every` milliseconds."""
        self.is_timed = True
        end = time.monotonic() + milliseconds / 1000
        while (left := end - time.monotonic()) > 0:
            if meanwhile is not None:
                meanwhile()
            time.sleep(min(left, every / 1000))
