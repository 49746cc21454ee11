"""The tools of a client case: members of one group behind a relay, waits, and assertions.

Every wait ends with the event that fulfils it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import median
from typing import Any, Final

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.clients.client_processes import CLIENTS, Client, ClientProcesses, Member, Partition
from kafka_shim.conformance.clients.relay import Exchange, Relay
from kafka_shim.conformance.targets import Instance
from kafka_shim.conformance.verdict import Failed
from kafka_shim.conformance.wire import Connection, Tape

SESSION_MS: Final = 3_000
HEARTBEAT_MS: Final = 300
PATIENCE: Final = 40.0
CREATE_TOPICS_VERSION: Final = 5
STORY_CHARACTERS: Final = 12_000
MOST_REFUSALS: Final = 40
"""So many that a client without a backoff, slow at first on a busy machine, is quick in most of them."""
FEWEST_REFUSALS: Final = 8
REFUSING: Final = 3.0
"""After so many seconds `FEWEST_REFUSALS` are enough."""
BACKOFF: Final = 0.05
"""The median of seconds between two tries above which a client backs off: half of the shortest default of clients."""
GROUP_APIS: Final = frozenset(
    {
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
        "FindCoordinator",
        "ConsumerGroupHeartbeat",
    }
)


class Scenario:
    """One run of a client case. Use it in a `with` block. Times are seconds, except for client settings."""

    def __init__(self, instance: Instance, client: Client) -> None:
        unique = uuid.uuid4().hex[:10]
        self.client = client
        self.group = f"client-{unique}"
        self.topic = f"client-topic-{unique}"
        self.relay = Relay(instance.host, instance.port)
        self.processes = ClientProcesses(self.relay.bootstrap, self.group)
        self._instance = instance
        self.partitions: list[Partition] = []

    def __enter__(self) -> Scenario:
        self.relay.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.end()
        self.relay.__exit__()

    # -- the group

    def make_topic(self, partitions: int = 4) -> None:
        """Create the topic that all members subscribe to."""
        request = CreateTopicsRequest([CreatableTopic(self.topic, partitions, 1, [], [])], 10_000)
        answer = self.call(request, CREATE_TOPICS_VERSION)
        self.check(answer.topics[0].error_code == 0, "the topic could not be made")
        self.partitions = sorted({*self.partitions, *((self.topic, number) for number in range(partitions))})

    def call(self, request: Message, version: int) -> Any:
        """Send a request of the suite to the coordinator, not through the relay; return the answer."""
        connection = Connection(
            self._instance.endpoints[0],
            patience=PATIENCE,
            deadline=time.monotonic() + PATIENCE,
            tape=Tape(),
            label="suite",
        )
        try:
            return connection.call(request, version)
        finally:
            connection.close()

    def start(self, **config: Any) -> Member:
        """Start a member of the group. `config` is that of an adapter."""
        if not self.partitions:
            self.make_topic()
        usual = {
            "session_ms": SESSION_MS,
            "heartbeat_ms": HEARTBEAT_MS,
            "topics": [self.topic],
            "protocol": self.client.protocol,
            "verbose": True,
        }
        return self.processes.start(self.client, **(usual | config))

    def stable(self, count: int = 1, **config: Any) -> list[Member]:
        """Start members, and wait until they share all partitions."""
        members = [self.start(**config) for _ in range(count)]
        self.share(members)
        return members

    def share(self, members: Iterable[Member], patience: float = PATIENCE) -> None:
        """Wait until these members own all partitions, each exactly once, in one generation, and in even shares.

        Before the end of a cooperative rebalance they may own all of them too, but not evenly.
        """
        members = list(members)

        def shared() -> bool:
            sizes = [len(member.owns) for member in members]
            owned = sorted(each for member in members for each in member.owns)
            even = max(sizes) - min(sizes) <= 1
            return even and owned == self.partitions and len({self.generation(member) for member in members}) == 1

        self.until(shared, "the members share all partitions", patience)

    def generation(self, member: Member) -> int:
        """Return the generation in the member's last answer."""
        joined = [each for each in self.relay.seen("JoinGroup", member.name) if each.error == 0]
        return int(joined[-1].response.generation_id) if joined else -1

    def member_id(self, member: Member) -> str:
        """Return the member id in the member's last answer. Not every library shows it."""
        joined = [each for each in self.relay.seen("JoinGroup", member.name) if each.error == 0]
        return str(joined[-1].response.member_id) if joined else ""

    def produce(self, count: int = 40) -> None:
        """Write records, spread over all partitions, with a client outside of the group."""
        records: list[list[object]] = [[n % len(self.partitions), None, f"{n}", []] for n in range(count)]
        producer = self.processes.start(CLIENTS["kafka-python-3.0"])
        producer.do("produce", topic=self.topic, records=records)
        producer.close()

    # -- waiting

    def until(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Wait for reports of the members; raise `Failed` if they do not come."""
        self.processes.all_started()
        with self.processes.changed:
            value = self.processes.changed.wait_for(condition, patience)
        if not value:
            owned = {member.name: sorted(number for _, number in member.owns) for member in self.processes.members}
            raise Failed(f"not within {patience:.0f} s: {what}; owned: {owned}\n{self.story()}")
        return value

    def frames(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Wait for frames; raise `Failed` if they do not come."""
        self.processes.all_started()
        value = self.relay.wait(condition, patience)
        if not value:
            raise Failed(f"not within {patience:.0f} s: {what}\n{self.story()}")
        return value

    def request(self, api: str, member: Member, since: float, patience: float = PATIENCE, **fields: Any) -> Exchange:
        """Wait for a request of a member after a time, with these fields."""

        def match() -> Exchange | None:
            for each in self.relay.seen(api, member.name, since):
                if all(getattr(each.request, name, None) == value for name, value in fields.items()):
                    return each
            return None

        request: Exchange = self.frames(match, f"{member.name} sends {api} {fields or ''}", patience)
        return request

    def answered(self, api: str, member: Member, since: float, error: int = 0) -> Exchange:
        """Wait for an answer with this error, to a request of a member after a time."""

        def match() -> Exchange | None:
            return next((each for each in self.relay.seen(api, member.name, since) if each.error == error), None)

        exchange: Exchange = self.frames(match, f"{member.name} is answered {error} to {api}")
        return exchange

    # -- assertions

    def check(self, holds: bool, otherwise: str) -> None:
        """Raise `Failed` with the text unless `holds` is true."""
        if not holds:
            raise Failed(f"{otherwise}\n{self.story()}")

    def ids(self, member: Member, since: float = 0.0) -> set[str]:
        """Return the member ids in its JoinGroups."""
        return {
            each.request.member_id
            for each in self.relay.seen("JoinGroup", member.name, since)
            if each.request is not None and each.request.member_id
        }

    def expelled(self, names: set[str]) -> list[Exchange]:
        """Return the UNKNOWN_MEMBER_ID answers to these members that come from the coordinator, not from a plan."""
        return [
            each
            for each in self.relay.exchanges
            if each.client_id in names and each.error == ErrorCode.UNKNOWN_MEMBER_ID and not each.by_plan
        ]

    def rounds(self, since: float = 0.0) -> int:
        """Count the generations in the answers to JoinGroup."""
        return len(
            {each.response.generation_id for each in self.relay.seen("JoinGroup", since=since) if each.error == 0}
        )

    def aftermath(self) -> None:
        """Check the general requirements at the end of a case; none for the classic protocol."""

    def story(self) -> str:
        """Return the frames of the group as evidence; repeated heartbeats are counted instead of listed."""
        exchanges = [each for each in list(self.relay.exchanges) if each.api in GROUP_APIS]
        start = exchanges[0].at if exchanges else 0.0
        lines: list[str] = []
        repeated: dict[str, tuple[str, int]] = {}
        for each in exchanges:
            what = f"{each.client_id} {each.api} v{each.version}{request_fields(each)}"
            outcome = f"error {each.error}" if each.answered is not None else "no answer"
            before, times = repeated.get(each.client_id, ("", 0))
            again = "eartbeat" in each.api and before == f"{what} {outcome}"
            repeated[each.client_id] = (f"{what} {outcome}", times + 1 if again else 0)
            if again:
                continue
            if times:
                lines.append(f"{'':8} {each.client_id} {times} more of the last kind")
            when = "..." if each.answered is None else f"{each.answered - start:.3f} {outcome}"
            lines.append(f"{each.at - start:8.3f} {what} -> {when}{' (by plan)' if each.by_plan else ''}")
        lines += [f"{'':8} {name} {times} more of the last kind" for name, (_, times) in repeated.items() if times]
        return "\n".join(lines)[-STORY_CHARACTERS:]


def refuse_a_joiner(s: Scenario, api: str) -> None:
    """Start a member that a loading coordinator refuses again and again; raise `Failed` unless it backs off and joins.

    `api` is the request by which it joins.
    """
    refused = s.relay.plan(api, "error", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=MOST_REFUSALS)

    def has_shown_its_pace() -> bool:
        tries = [each.at for each in refused.fired]
        enough = len(tries) >= FEWEST_REFUSALS and tries[-1] - tries[0] >= REFUSING
        return enough or len(tries) == MOST_REFUSALS

    member = s.start()
    s.frames(has_shown_its_pace, f"{member.name} tries again")
    s.relay.release(refused)
    s.share([member])
    apart = sorted(later.at - earlier.at for earlier, later in pairwise(refused.fired))
    s.check(median(apart) > BACKOFF, f"it tried again after {[round(each * 1000) for each in apart]} ms")


def request_fields(exchange: Exchange) -> str:
    """Return the fields of a request that explain its place in the story."""
    request = exchange.request
    if request is None or exchange.api not in ("ConsumerGroupHeartbeat", "OffsetCommit"):
        return ""
    if exchange.api == "OffsetCommit":
        return f" epoch {request.generation_id_or_member_epoch}"
    owned = request.topic_partitions
    numbers = "" if owned is None else f" owns {[number for topic in owned for number in topic.partitions]}"
    subscribed = "" if request.subscribed_topic_names is None else f" to {request.subscribed_topic_names}"
    answer = exchange.response
    gets = "" if answer is None else f", gets epoch {answer.member_epoch}"
    if answer is not None and answer.assignment is not None:
        gets += f" and {[number for topic in answer.assignment.topic_partitions for number in topic.partitions]}"
    return f" epoch {request.member_epoch}{numbers}{subscribed}{gets}"


def now() -> float:
    """Return the time in seconds, on the clock of exchanges."""
    return time.monotonic()
