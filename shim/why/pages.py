"""A page for each cause and each finding: an example, its signs, the remedy and its price.

`kafka-shim why --explain NAME` prints one. It says nothing of a present group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Final

from kafka_shim.trace.causes import MEANING, Cause
from kafka_shim.why.diagnoses import Diagnosis

COLUMNS: Final = 80


@dataclass(frozen=True, kw_only=True)
class Page:
    """`signs` are the requests that show it, by client, or for all clients with an empty name; `logs` are the lines of
    logs, at the level INFO, by program."""

    meaning: str = ""
    example: str
    signs: dict[str, str] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    remedy: str
    price: str


_STATIC: Final = "A process that is shut down for good is missed only after its session timeout."
_NO_PRICE: Final = "Nothing."

PAGES: Final[dict[str, Page]] = {
    Cause.NEW_MEMBER: Page(
        example="A third process starts. All members stop, join again, and get two partitions each in place of three.",
        signs={"": "a JoinGroup without a member id, or with an id that the coordinator has just handed out"},
        logs={
            "broker": '"Adding new member" in the reason of the rebalance, or "joins group"',
            "kafka-python": '"Received member id", then "Successfully joined group"',
            "librdkafka": "nothing",
        },
        remedy="Nothing, if it comes to stay. Start the members together, so that one rebalance serves them all.",
        price="group.initial.rebalance.delay.ms makes an empty group wait for the others.",
    ),
    Cause.MEMBER_LEFT: Page(
        example="A process is stopped: its consumer closes, and the others divide its partitions.",
        signs={"": "a LeaveGroup, and no later JoinGroup on the same connection"},
        logs={
            "broker": '"has left group", with the reason "is being closed" of Java; others give none',
            "Java": '"sending LeaveGroup request to coordinator"',
            "kafka-python": '"Leaving consumer group"',
            "aiokafka": '"LeaveGroup request succeeded", and nothing after it',
            "librdkafka": "nothing",
        },
        remedy="Nothing, if it left for good. For a restart group.instance.id: a static member does not leave.",
        price=_STATIC,
    ),
    Cause.MEMBER_GONE: Page(
        example="Generation 8 lacks a member that generation 7 had, and `why` has read `__consumer_offsets` alone.",
        signs={"": "the member is in one record of the group, and not in the next; of KIP-848, its tombstone"},
        remedy="Add the broker's log, `--log server.log`: it says whether the member left, and for which reason, or was"
        " expelled. The member's own log says it too.",
        price=_NO_PRICE,
    ),
    Cause.SESSION_EXPIRED: Page(
        example="A process is killed with kill -9. Its partitions stand still for session.timeout.ms, 45 s by default.",
        signs={
            "": "no request for the session timeout, and none of the process afterwards",
            "kafkajs": "the same for a long eachMessage: it sends heartbeats only between messages",
        },
        logs={
            "broker": '"on heartbeat expiration"; in the new protocol "session expired"',
            "the member": "its log ends. If it goes on after a pause, see PAUSED_MEMBER.",
        },
        remedy="Find out why it died: memory, the machine, an exception. A shorter session.timeout.ms finds it sooner.",
        price="With a short session, a long pause of a healthy process looks like its death.",
    ),
    Cause.REBALANCE_TIMEOUT: Page(
        example="A rebalance begins while a member works at a batch for longer than its max.poll.interval.ms.",
        signs={"": "the member is in `dropped`: it neither joined again nor gave up its partitions in time"},
        logs={
            "broker": '"removed dynamic members who haven\'t joined", since 2.7; in the new protocol "failed to'
            ' transition from epoch"',
            "the member": "as for PAUSED_MEMBER, when it comes back",
        },
        remedy="Let a batch take less time: fewer max.poll.records, or work in another thread. Or raise"
        " max.poll.interval.ms of that member.",
        price="With a longer interval all others wait longer for a member that hangs.",
    ),
    Cause.POLL_TIMEOUT_REASON: Page(
        example="max.poll.interval.ms is 300000, and 500 records take six minutes. After five the consumer leaves the"
        " group; when its batch is over it joins again. Each time is two rebalances, and other members read the batch"
        " a second time.",
        signs={
            "Java": 'a LeaveGroup with the reason "consumer poll timeout has expired"',
            "librdkafka": "a LeaveGroup without a reason when the rebalance timeout of its JoinGroup is over; then a"
            " JoinGroup on the same connection",
            "kafka-python": "as librdkafka",
            "librdkafka in the new protocol": "no heartbeat from the end of the interval on; the session runs out, and"
            " the first request afterwards is a departure, then one to join",
            "static members": "no LeaveGroup: the heartbeats stop at the end of the interval, the session runs out, and"
            " then comes a JoinGroup on the same connection, without a refused heartbeat before it",
            "Java in the new protocol": "a departure later than the interval, then a join under the same member id; a"
            " consumer that unsubscribes after so long, and subscribes again, sends the same",
            "static members in the new protocol": "Java: a departure for a while (epoch -2) at the end of the interval,"
            " the end of its session, then a join under the same member id. librdkafka: silence, then such a departure",
            "aiokafka": "a LeaveGroup, then a JoinGroup on the same connection; its requests do not show"
            " max.poll.interval.ms",
            "franz-go, sarama": "never: they have no poll interval",
        },
        logs={
            "broker": '"consumer poll timeout has expired" as the reason of a departure: of Java, since 3.2. Of other'
            ' clients it says "has left group" alone, as for a consumer that is closed.',
            "Java": '"consumer poll timeout has expired"; in the new protocol "Consumer"',
            "librdkafka": 'MAXPOLL, "Application maximum poll interval"',
            "kafka-python": '"Consumer poll timeout has expired"; before 2.1 "Heartbeat poll expired, leaving group"',
            "aiokafka": '"LeaveGroup request succeeded", and commits that fail right after it',
        },
        remedy="Take fewer records at a time (max.poll.records; librdkafka ignores it), or raise max.poll.interval.ms"
        " above the longest batch. session.timeout.ms does not help: the heartbeats were in time.",
        price="With a longer interval a rebalance may wait as long for a member that hangs.",
    ),
    Cause.SUBSCRIPTION_CHANGED: Page(
        example="A member of orders subscribes to payments too, and joins again.",
        signs={"": "a JoinGroup of a present member with other metadata, or other assignors"},
        logs={
            "broker": '"Updating metadata" in the reason of the rebalance; nothing in the new protocol',
            "Java": '"subscription has changed"',
        },
        remedy="Nothing. A subscription that changes often is better as several consumers.",
        price=_NO_PRICE,
    ),
    Cause.LEADER_REJOINED: Page(
        example="A topic grows from 4 partitions to 8. The leader sees it in its metadata, and joins again.",
        signs={"": "a JoinGroup of the leader in a Stable group, with the same metadata"},
        logs={
            "broker": '"Leader" and "re-joining" in the reason of the rebalance',
            "Java": '"cached metadata has changed", with both',
            "aiokafka": '"Metadata for topic has changed"',
        },
        remedy="Nothing, if topics changed. Else the leader's client sees other metadata again and again.",
        price=_NO_PRICE,
    ),
    Cause.STATIC_REPLACED: Page(
        example="A static member is restarted as a version with other assignors, so the generation cannot go on.",
        signs={"": "a JoinGroup with a known group.instance.id and no member id"},
        logs={
            "broker": '"Replacing previously mapped member"; with "will not trigger rebalance" it was silent',
        },
        remedy="Nothing. Without a change of assignors or of the leader the restart of a static member is silent.",
        price=_NO_PRICE,
    ),
    Cause.PENDING_SYNC_EXPIRED: Page(
        example="A member hangs between its JoinGroup and its SyncGroup.",
        signs={"": "no SyncGroup for the rebalance timeout after the answer to its JoinGroup"},
        logs={
            "broker": '"pending sync request expiration", since 2.8.1. Before, the group hangs without a line.',
        },
        remedy="Look into that process: rebalance callbacks, long pauses of the garbage collector.",
        price=_NO_PRICE,
    ),
    Cause.TOPIC_METADATA_CHANGED: Page(
        example="An operator creates a topic that a regular expression of the group matches (KIP-848).",
        signs={"": "no request: the coordinator looks at the topics itself"},
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
    Cause.ADMIN_REMOVED: Page(
        example="kafka-consumer-groups --remove-member, or an administrator's LeaveGroup.",
        signs={"": "a LeaveGroup for another member"},
        logs={
            "broker": '"removed by an admin", if the administrator\'s client gives a reason. No line names the'
            " administrator.",
            "the member": "an unknown member id without any pause before it",
        },
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
    Cause.COORDINATOR_RELOADED: Page(
        example="group.max.size becomes 10, the broker is restarted, and a group of 12 is loaded.",
        signs={"": "no request: the coordinator has just loaded the group"},
        logs={
            "broker": '"over capacity", after "Loading group metadata"',
        },
        remedy="Raise group.max.size, or stop members.",
        price="A larger group has longer rebalances.",
    ),
    Cause.ASSIGNMENT_WRITE_FAILED: Page(
        example="The disk of the coordinator is full when the leader hands in the assignments.",
        signs={"": "every SyncGroup of the generation is answered with an error"},
        remedy="Look into the log of the broker.",
        price=_NO_PRICE,
    ),
    Cause.COOPERATIVE_FOLLOWUP: Page(
        example="With cooperative-sticky a partition moves in two rebalances: one takes it away, the next assigns it.",
        signs={"": "a JoinGroup of a member that has just given up partitions"},
        logs={
            "Java": '"need to revoke partitions"; the broker has it as reason since 3.2',
        },
        remedy="Nothing: it belongs to the rebalance before it, and the kept partitions did not stop.",
        price=_NO_PRICE,
    ),
    Cause.PROTOCOL_CHANGED: Page(
        example="The first consumer with group.protocol=consumer joins a classic group.",
        signs={"": "a ConsumerGroupHeartbeat to a classic group, or the last such member has left"},
        logs={
            "broker": '"Downgrade group" in the reason of the rebalance',
        },
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
    Diagnosis.JOIN_REFUSED: Page(
        meaning="A member is refused, and repeats its request to join without end. It consumes nothing.",
        example="session_timeout_ms=2000, but the broker's group.min.session.timeout.ms is 6000.",
        signs={
            "": "JoinGroup with INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL or GROUP_MAX_SIZE_REACHED. No"
            " generation has the member, so no rebalance shows it.",
            "in the new protocol": "a heartbeat with UNSUPPORTED_ASSIGNOR, or with UNRELEASED_INSTANCE_ID: a static"
            " member was killed, and its session is not over; GROUP_ID_NOT_FOUND: the group is of the classic"
            " protocol, and group.consumer.migration.policy keeps the protocols apart",
            "without rights": "GROUP_AUTHORIZATION_FAILED, to FindCoordinator at first; to heartbeats if the rights end"
            " while it runs, and then its session runs out too",
        },
        logs={
            "broker": "nothing, whatever the error; UNRELEASED_INSTANCE_ID alone has a line",
            "Java": '"failed due to fatal error"',
            "kafka-python, aiokafka": '"failed due to fatal error"',
            "librdkafka": "nothing; the application receives an error, and has to print it",
        },
        remedy="INVALID_SESSION_TIMEOUT: a session within the limits of the broker. INCONSISTENT_GROUP_PROTOCOL: an"
        " assignor that all members have. GROUP_MAX_SIZE_REACHED: a larger group.max.size (group.consumer.max.size in"
        " the new protocol), or fewer members. UNSUPPORTED_ASSIGNOR: a group.remote.assignor that the broker has."
        " GROUP_ID_NOT_FOUND: the group.protocol of the other members. UNRELEASED_INSTANCE_ID: close the consumer when"
        " its process stops, so that it leaves with epoch -2; or a shorter consumer.session.timeout.ms. A longer one"
        " keeps the new process out for longer.",
        price=_NO_PRICE,
    ),
    Diagnosis.DUPLICATE_INSTANCE_ID: Page(
        meaning="Two running processes have one group.instance.id. Each that joins fences the other.",
        example="A Deployment of two pods with group.instance.id=worker in its settings.",
        signs={
            "": "FENCED_INSTANCE_ID, twice within five minutes, for processes that still run. One such error is a"
            " restart that began before the old process had ended.",
            "in the new protocol": "UNRELEASED_INSTANCE_ID for the second process, while the first goes on with"
            " heartbeats",
            "Java, librdkafka": "the error ends the consumer; a supervisor starts it again",
        },
        logs={
            "broker": '"Replacing previously mapped member" again and again, and "fenced"',
            "Java": '"has been fenced by another instance"',
            "librdkafka": 'FATAL, "Static consumer fenced by other consumer"',
            "kafka-python": '"caught fenced group_instance_id"',
        },
        remedy="Another group.instance.id for each process: the name of a StatefulSet's pod, not that of the service.",
        price=_NO_PRICE,
    ),
    Diagnosis.PAUSED_MEMBER: Page(
        meaning="A member sent no heartbeat for its session timeout, but its process went on afterwards.",
        example="A virtual machine is moved, or a garbage collection takes 20 s, with a session of 10 s.",
        signs={"": "a request of the expelled member, with UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION in its answer"},
        logs={
            "broker": '"on heartbeat expiration", and soon "joins group" of the same client',
            "Java": '"session timed out without receiving a heartbeat response", or a heartbeat that failed by'
            " UNKNOWN_MEMBER_ID",
            "librdkafka": 'SESSTMOUT, "Consumer group session timed out"',
            "kafka-python, aiokafka": '"Heartbeat session expired", "local member_id was not recognized"',
            "kafkajs": '"The coordinator is not aware of this member"',
            "all": "stamps with a gap longer than the session, and no start of a process in it",
        },
        remedy="A session.timeout.ms above the longest pause, or an end of the pauses. Records of the refused commits"
        " are read by other members a second time.",
        price="A process that did die is missed later.",
    ),
    Diagnosis.GHOST: Page(
        meaning="A process was killed and came back under a new member id. The group waited for the old one in vain.",
        example="A pod is killed, and its successor joins after 2 s. The rebalance lasts until the session of the dead"
        " member, its ghost, is over: 45 s by default.",
        signs={"": "a rebalance that waits for a member without requests, which expires before it ends"},
        logs={
            "broker": '"joins group" of a client, and the end of its older member, "on heartbeat expiration", after it',
        },
        remedy="group.instance.id: the new process takes the place of the old one, without a rebalance. Or end the"
        " process with SIGTERM, so that its consumer leaves. In the new protocol only that helps: a static member that"
        " was killed is refused until its session is over.",
        price=_STATIC,
    ),
    Diagnosis.CRASH_LOOP: Page(
        meaning="A process came three times or more, and never left: it crashes, or does not close its consumer.",
        example="A record that cannot be parsed ends the process. After a restart it reads the record again.",
        signs={"": "sessions of one client that run out again and again"},
        logs={
            "broker": '"on heartbeat expiration" for one client again and again',
        },
        remedy="Close the consumer when the process is done. If it crashes, find out why; a longer delay of the"
        " supervisor spares the others rebalances until then. If it is back within its session, group.instance.id gives"
        " it its old place.",
        price=_NO_PRICE,
    ),
    Diagnosis.FLAPPING: Page(
        meaning="One process leaves and comes back three times or more.",
        example="A job that consumes for a minute and closes its consumer, each quarter of an hour.",
        signs={
            "": "LeaveGroup and JoinGroup of one client in turn",
            "jobs": "members of other names, each in the group for less than a minute while nobody else comes or goes",
        },
        remedy="group.instance.id, if the process is back within its session; or a consumer that stays.",
        price=_STATIC,
    ),
    Diagnosis.SLOW_MEMBER: Page(
        meaning="All other members waited over a second for one that knew of the rebalance.",
        example="A member works at a batch for 9 s when a rebalance begins. It joins again at its next poll.",
        signs={
            "": "its JoinGroup comes long after its heartbeat was answered REBALANCE_IN_PROGRESS",
            "aiokafka": "it joins without a poll, so only its rebalance callback is slow",
            "a process that stood still": "its heartbeat, too, comes much later than its heartbeats do",
        },
        logs={
            "broker": 'some time between "Preparing to rebalance group" and "Stabilized group"; no line says for whom'
            " it waited",
            "Java": 'the slow one is the last with "Request joining group due to: group is already rebalancing"',
        },
        remedy="Fewer max.poll.records (librdkafka ignores it), or shorter work between two polls and in callbacks."
        " If the process stood still, find out what stopped it.",
        price="More requests for smaller batches.",
    ),
    Diagnosis.SLOW_REVOCATION: Page(
        meaning="Members of a KIP-848 or a cooperative group waited over a second for one to give up partitions.",
        example="The callback for revoked partitions flushes a file for 7 s.",
        signs={
            "": "a ConsumerGroupHeartbeat without the revoked partitions comes long after the request to revoke",
            "cooperative-sticky": "its second JoinGroup comes long after the answer to its SyncGroup",
        },
        remedy="Shorter work between two polls, and in rebalance callbacks.",
        price=_NO_PRICE,
    ),
    Diagnosis.SLOW_LEADER: Page(
        meaning="All members waited over a second for the leader to divide the partitions.",
        example="An assignor asks the metadata of 10,000 topics, or the leader's process is starved of processor time.",
        signs={"": "the leader's SyncGroup comes long after the answer to its JoinGroup"},
        logs={
            "broker": 'some time between "Stabilized group" and "Assignment received from leader"',
        },
        remedy="Find out what the leader waits for. With KIP-848 the coordinator divides.",
        price=_NO_PRICE,
    ),
    Diagnosis.SELDOM_HEARTBEATS: Page(
        meaning="A member learned of a rebalance late, since its heartbeats are rare.",
        example="heartbeat.interval.ms is 20000: all others wait up to 20 s for the member.",
        signs={
            "": "its heartbeat is answered REBALANCE_IN_PROGRESS long after the begin",
            "rarer than its session": "its session runs out before its first heartbeat, three times or more",
        },
        remedy="heartbeat.interval.ms of 3000, the default.",
        price="More heartbeats.",
    ),
    Diagnosis.DIFFERENT_SUBSCRIPTIONS: Page(
        meaning="Members of a classic group subscribe to different topics, and the assignments do not fit: a topic has"
        " no owner, or a member has partitions of a topic that it does not subscribe to. The group is Stable and"
        " does not do its work.",
        example="Two services have the same group.id, one reads orders, the other payments. The RoundRobinAssigner of"
        " kafkajs gives the partitions of orders to both, and payments to neither.",
        signs={
            "": "the metadata of the JoinGroups has different topics; the leader's SyncGroup lacks one of them",
            "kafkajs": "its assignor takes the topics of the leader for those of all members",
        },
        remedy="A group.id for each service. Java, librdkafka, kafka-python and franz-go divide by each member's"
        " topics.",
        price="The new group has no committed offsets: auto.offset.reset decides, or copy the offsets first.",
    ),
    Diagnosis.COMMIT_REFUSED: Page(
        meaning="Commits were refused for good, so the next owner of the partitions reads their records again. Either a"
        " member had lost its partitions, or the client is no member of the group.",
        example="A job with assign() and the group.id of a service that subscribes: each of its commits is refused, and"
        " after a restart it begins where it began.",
        signs={
            "a member": "OffsetCommit with its old generation or epoch: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,"
            " FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH",
            "no member": "OffsetCommit without a member id, UNKNOWN_MEMBER_ID",
            "an administrator": "the same: offsets of a group with members cannot be set",
            "Java": "CommitFailedException",
        },
        logs={
            "broker": "nothing, but for fenced static members",
            "Java": '"Offset commit failed on partition". CommitFailedException names max.poll.interval.ms whatever the'
            " cause.",
            "librdkafka": "COMMITFAIL",
            "kafka-python, aiokafka": '"OffsetCommit for group", "OffsetCommit failed"',
        },
        remedy="A group.id of its own for a consumer with assign(). A member commits in its callback for revoked"
        " partitions, before these are given up. To set the offsets of a group, stop its members first.",
        price="A new group has no committed offsets: auto.offset.reset decides, or copy the offsets first.",
    ),
    Diagnosis.UNKNOWN: Page(
        meaning="The request that began the rebalance did not pass the relay.",
        example="Some consumers go to the broker directly, past `kafka-shim trace record`.",
        signs={"": "a new generation without a request that explains it"},
        remedy="Send all consumers of the group through the relay.",
        price=_NO_PRICE,
    ),
    Diagnosis.ROLLING_RESTART: Page(
        meaning="Two processes or more were restarted, or replaced, one after the other.",
        example="A new version of three pods: each leaves and joins, which is six rebalances.",
        signs={"": "LeaveGroup and JoinGroup of several clients in turn; a replacement may come first"},
        remedy="group.instance.id, the same after a restart, and a restart that is shorter than the session: no"
        " rebalance at all. Else nothing.",
        price=_STATIC,
    ),
    Diagnosis.DEPLOY: Page(
        meaning="All members left, and new ones started.",
        example="A Deployment with the strategy Recreate.",
        signs={"": "the group is Empty in between"},
        remedy="Nothing, if a pause of all partitions is right. Else group.instance.id, or a rolling restart.",
        price=_STATIC,
    ),
    Diagnosis.RESTART: Page(
        meaning="One process was restarted, or replaced.",
        example="A pod is moved to another machine.",
        signs={"": "a LeaveGroup, and a JoinGroup of the same client or of a new one soon after"},
        remedy="group.instance.id, if it happens often. Else nothing.",
        price=_STATIC,
    ),
    Diagnosis.SCALE_OUT: Page(
        meaning="New members joined a group that was at work.",
        example="An autoscaler starts two pods more.",
        signs={"": "JoinGroups of new clients, and no departure near them"},
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
    Diagnosis.SCALE_IN: Page(
        meaning="Members left, and did not come back.",
        example="An autoscaler stops two pods at night.",
        signs={"": "LeaveGroups, and no JoinGroup near them"},
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
    Diagnosis.TOPICS_CHANGED: Page(
        meaning="Topics or their partitions changed, or the leader's view of them.",
        example="A topic grows from 4 partitions to 8.",
        signs={"": "the leader joins again, and the assignment has partitions that had no owner before"},
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
    Diagnosis.ENDED_BY_TEST: Page(
        meaning="A test ended the session of a member before its time, or a fault expelled it.",
        example='server.expire("billing", "one"), or POST /v1/groups/billing/expire, ends the session of one.',
        signs={"": "none: the trace has an intervention event, which only a laboratory writes"},
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
    Diagnosis.START: Page(
        meaning="The group started.",
        example="Three processes of a new application start together.",
        signs={"": "the first JoinGroups of an empty group"},
        remedy="Nothing. If they come one by one, a longer group.initial.rebalance.delay.ms spares rebalances.",
        price="An empty group starts later.",
    ),
    Diagnosis.SHUTDOWN: Page(
        meaning="All members left within a few seconds of each other, and the group is empty.",
        example="An application is stopped.",
        signs={"": "the last LeaveGroups of the group"},
        remedy="Nothing.",
        price=_NO_PRICE,
    ),
}
"""By the name of a cause or a finding."""


def page_of(name: str) -> Iterator[str]:
    """Yield the lines of a page, at most 80 columns wide."""
    page = PAGES[name]
    yield from wrap(f"{name}: {page.meaning or MEANING[Cause(name)]}", COLUMNS)
    signs = [f"{client}: {text}" if client else text for client, text in page.signs.items()]
    logs = [f"{program}: {text}" for program, text in page.logs.items()]
    for title, texts in (
        ("For example", [page.example]),
        ("In its requests", signs),
        ("In logs", logs or ["Nothing says it by itself: `kafka-shim why --log FILE` puts lines together."]),
        ("What to do", [page.remedy]),
        ("What that costs", [page.price]),
    ):
        yield ""
        yield title
        for text in texts:
            yield from wrap(text, COLUMNS, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
