"""What a case has in its hands: a group of its own, connections, members, topics, and ways to say what must hold.

Everything made here ends with the cell. It does not know which target it talks to, only its limits and versions.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.case import Case, Failed, NotServed, Skipped, Unadvertised
from kafka_shim.conformance.consumer_member import ConsumerMember
from kafka_shim.conformance.member import RANGE, Member, Protocols
from kafka_shim.conformance.protocol import BY_NAME, error_name, exchange_of
from kafka_shim.conformance.targets import Instance, Limits
from kafka_shim.conformance.wire import Connection, NoAnswer, Tape

T = TypeVar("T")
_POLL: Final = 0.004
_BRIEF_MS: Final = 10_000
TOPIC_ALREADY_EXISTS: Final = 36


def topic_name(partitions: int) -> str:
    """The name of the topic that all cells share which need so many partitions."""
    return f"conformance-{partitions}"


class Peer:
    """The target as the cells share it: where it is, what it advertises and serves, topics made once.

    `asks_for_ids`: it was seen to hand out a member id before it lets a member join.
    """

    def __init__(self, instance: Instance, versions: dict[int, tuple[int, int]]) -> None:
        self.instance = instance
        self.versions = versions
        self.served: dict[int, int] = {}
        self.asks_for_ids = False
        self.topic_ids: dict[str, bytes] = {}
        self.partitions: dict[str, int] = {}

    @property
    def limits(self) -> Limits:
        return self.instance.limits

    def offers(self, name: str) -> bool:
        """Whether the target advertises an API at all."""
        return BY_NAME[name].key in self.versions

    def newest(self, name: str) -> int:
        """The newest version of an API both sides have and the target was seen to serve; else `Unadvertised`."""
        exchange = BY_NAME[name]
        low, high = self.versions.get(exchange.key, (1, 0))
        high = self.served.get(exchange.key, high)
        newest = min(high, exchange.request.versions[-1])
        if newest < max(low, exchange.request.versions[0]):
            raise Unadvertised(f"the target does not advertise {name}")
        return newest


class Trial:
    """One cell while it runs. `is_timed`: it has let time pass, or told the target of a time that may run out."""

    def __init__(self, case: Case, version: int, peer: Peer, name: str, *, calm: bool = False) -> None:
        self.case = case
        self.version = version
        self.peer = peer
        self.limits = peer.limits.calmer() if calm else peer.limits
        self.is_timed = case.profile != "default"
        self.group = f"{case.id.replace('/', '-')}-v{version}-{name}"
        self.tape = Tape()
        self.answered: set[tuple[int, int]] = set()
        self._unique = name
        self._deadline = time.monotonic() + case.cap + self.limits.patience
        self._connections: list[Connection] = []
        self._aside: Connection | None = None
        self._members = 0

    # -- talking to the target

    def connect(self, label: str | None = None, *, client_id: str = "conformance") -> Connection:
        """A new connection."""
        connection = Connection(
            self.peer.instance.host,
            self.peer.instance.port,
            patience=self.limits.patience,
            deadline=self._deadline,
            tape=self.tape,
            label=label or f"c{len(self._connections) + 1}",
            client_id=client_id,
        )
        connection.answered = self.answered
        self._connections.append(connection)
        return connection

    def version_of(self, request: Message | str) -> int:
        """The version to send a request in: the cell's for the API the case is about, else the newest."""
        name = request if isinstance(request, str) else exchange_of(request).name
        return self.version if name == self.case.api else self.peer.newest(name)

    def call(self, request: Message, version: int | None = None) -> Any:
        """Ask on a connection of the trial's own and wait for the answer."""
        if self._aside is None:
            self._aside = self.connect("aside")
        return self._aside.call(request, self.version_of(request) if version is None else version)

    def end(self) -> None:
        """Close what is open."""
        for connection in self._connections:
            connection.close()

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
            name or f"m{self._members}",
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
        return ConsumerMember(self, f"m{self._members}", topics, **options)

    def converge(self, *members: ConsumerMember) -> None:
        """Let every member do as it is told until all are of one epoch and together own all they subscribed to."""
        counts = self.peer.partitions
        wanted = {(topic, n) for each in members for topic in each.topics for n in range(counts.get(topic, 0))}

        def quiet() -> bool:
            before = [(each.epoch, frozenset(each.assigned), frozenset(each.owned)) for each in members]
            for each in members:
                self.expect(each.obey(), error_code=0)
            after = [(each.epoch, frozenset(each.assigned), frozenset(each.owned)) for each in members]
            settled = before == after and len({each.epoch for each in members}) == 1
            return settled and set().union(*(each.owned for each in members)) == wanted

        self.until(quiet, bool, f"the members never settled: {[(each.epoch, each.assigned) for each in members]}")

    def configure(self, group: str | None = None, **settings: object) -> None:
        """Set configurations of a group, their dots as underscores."""
        configs = [AlterableConfig(name.replace("_", "."), 0, str(value)) for name, value in settings.items()]
        answer = self.call(IncrementalAlterConfigsRequest([AlterConfigsResource(32, group or self.group, configs)]))
        code = answer.responses[0].error_code
        if code != 0:
            raise Skipped(f"the group cannot be configured: {error_name(code)}")

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
        self.check(len(described) == 1, f"one group was asked about and {len(described)} were described")
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
        """Ask until it holds; `Failed` with what was last said when the patience, or `seconds`, is over."""
        self.is_timed |= seconds is not None
        limit = min(self._deadline, time.monotonic() + (self.limits.patience if seconds is None else seconds))
        while True:
            said = ask()
            if holds(said):
                return said
            if time.monotonic() > limit:
                raise Failed(f"{otherwise}; last: {said!r}")
            time.sleep(_POLL)

    # -- topics

    def topic(self, partitions: int = 3) -> str:
        """A topic that exists, made once per target."""
        name = topic_name(partitions)
        return name if name in self.peer.partitions else self.new_topic(partitions, name)

    def new_topic(self, partitions: int, name: str | None = None) -> str:
        """Create a topic, by asking for it where there is no other way, and wait until it is known."""
        name = name or f"topic-{self._unique}-{uuid.uuid4().hex[:8]}"
        makes_topics = self.peer.offers("CreateTopics")
        if makes_topics:
            answer = self.call(CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], [])], 10_000))
            if answer.topics[0].error_code not in (0, TOPIC_ALREADY_EXISTS):
                raise Skipped(f"the target made no topic: {error_name(answer.topics[0].error_code)}")

        def known() -> Any:
            request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=not makes_topics)
            return self.call(request).topics[0]

        found = self.until(known, lambda topic: len(topic.partitions) >= partitions, f"topic {name} never showed")
        self.peer.topic_ids[name] = found.topic_id
        self.peer.partitions[name] = partitions
        return name

    def topic_id(self, name: str) -> bytes:
        """The id of a topic of `topic` or `new_topic`."""
        return self.peer.topic_ids[name]

    # -- what must hold

    def check(self, holds: bool, otherwise: str) -> None:
        """`Failed` with the text unless it holds."""
        if not holds:
            raise Failed(otherwise)

    def equal(self, actual: object, expected: object, what: str) -> None:
        """`Failed` unless both are the same."""
        if actual != expected:
            raise Failed(f"{what} is {actual!r}, must be {expected!r}")

    def expect(self, answer: Message | Any, **fields: Any) -> Any:
        """`Failed` unless the answer has these fields. A set of values allows any of them."""
        kind = type(answer).__name__
        for name, expected in fields.items():
            actual = getattr(answer, name)
            allowed = tuple(expected) if isinstance(expected, set) else (expected,)
            if actual in allowed:
                continue
            if name == "error_code" and actual == ErrorCode.UNSUPPORTED_VERSION:
                raise NotServed(f"{kind} says {error_name(actual)} to a version the target advertises")
            if name == "error_code":
                wanted = " or ".join(error_name(code) for code in allowed)
                raise Failed(f"{kind} says {error_name(actual)}, must say {wanted}")
            raise Failed(f"{kind}.{name} is {actual!r}, must be {expected!r}")
        return answer

    def parked(self, connection: Connection | Member, why: str) -> None:
        """`Failed` if an answer has come already. Call it after something that proves the request was handled."""
        wire = connection.wire if isinstance(connection, Member) else connection
        if not wire.is_silent():
            try:
                said = wire.receive()
            except NoAnswer:
                return
            raise Failed(f"answered at once where it must wait ({why}): {said!r}")

    def lapse(self, milliseconds: float, meanwhile: Callable[[], object] | None = None, every: float = 50) -> None:
        """Let a time of the target's own limits pass, doing `meanwhile` every `every` milliseconds."""
        self.is_timed = True
        end = time.monotonic() + milliseconds / 1000
        while (left := end - time.monotonic()) > 0:
            if meanwhile is not None:
                meanwhile()
            time.sleep(min(left, every / 1000))
