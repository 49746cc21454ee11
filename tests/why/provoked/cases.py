"""The provoked cases: the acts on a group of real clients, and the true answers.

Each case is a function that acts on a `Stage`. Its truth stands in its `Case`: the finding that `why` must name first,
the member behind it, the setting that is the right first remedy, and whether there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT
from tests.why.provoked.stage import PARTITIONS, POLL_MS, Stage

KP3, KP2, AIO, CONFLUENT = "kafka-python-3.0", "kafka-python-2.3", "aiokafka-0.14", "confluent-kafka-2.16"
KIP848: Final = "confluent-kafka-2.16-consumer"
JAVA, FRANZ, SARAMA, KAFKAJS = "java-4.2.2", "franz-go-1.22.2", "sarama-1.61.1", "kafkajs-2.2.4"
PYTHON: Final = (KP3, AIO, CONFLUENT)
STATIC: Final = (KP3, AIO, CONFLUENT, JAVA)


@dataclass(frozen=True)
class Case:
    """One of `causes` must be the first finding, and one of `remedies` the first remedy, if one is due. One of
    `culprits` must be named, empty if no member is to blame. `calm`: true if there is nothing to do, None if both
    answers are right. `others`: the client of the culprit, by that of the group, if it is another.
    """

    act: Callable[[Stage], None]
    clients: tuple[str, ...]
    causes: tuple[str, ...]
    culprits: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    calm: bool | None = False
    server: str = "plain"
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.act.__name__.replace("_", "-")


CASES: Final[list[Case]] = []


def collector(cases: list[Case]) -> Callable[..., Callable[[Callable[[Stage], None]], None]]:
    """Return a decorator that adds a case to this list."""

    def case(*clients: str, causes: tuple[str, ...], **truth: Any) -> Callable[[Callable[[Stage], None]], None]:
        def add(act: Callable[[Stage], None]) -> None:
            cases.append(Case(act, clients, causes, **truth))

        return add

    return case


case = collector(CASES)


# Faults


@case(
    KP3, AIO, CONFLUENT, JAVA, SARAMA, KAFKAJS, causes=("SESSION_EXPIRED",), culprits=("app-b",), remedies=("process",)
)
def killed_for_good(stage: Stage) -> None:
    _kill(stage)


@case(KP3, CONFLUENT, causes=("SESSION_EXPIRED",), culprits=("app-b",), remedies=("process",), server="relay")
def killed_behind_a_relay(stage: Stage) -> None:
    _kill(stage)


def _kill(stage: Stage) -> None:
    stage.started("app-a", "app-b", "app-c")
    stage.kill("app-b")
    stage.whole()


@case(
    *(KP3, KP2, AIO, CONFLUENT, JAVA),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("report-2",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def poll_interval_exceeded(stage: Stage) -> None:
    _miss_polls(stage)


@case(
    *(KP3, CONFLUENT),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("report-2",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
    server="relay",
)
def poll_interval_exceeded_behind_a_relay(stage: Stage) -> None:
    _miss_polls(stage)


def _miss_polls(stage: Stage) -> None:
    stage.start("report-1", max_poll_ms=300_000)
    stage.start("report-2", max_poll_ms=POLL_MS)
    stage.whole()
    for _ in range(3):
        member = stage.short["report-2"]
        member.do("hold")
        stage.whole("report-1")
        stage.rest(2.0)
        member.do("go")
        stage.whole()


@case(
    # aiokafka shows its poll interval nowhere.
    *(KP3, CONFLUENT),
    causes=("POLL_TIMEOUT_REASON",),
    culprits=("stuck",),
    remedies=("max.poll.records", "max.poll.interval.ms"),
)
def never_polls_again(stage: Stage) -> None:
    stage.start("steady", max_poll_ms=300_000)
    stage.start("stuck", max_poll_ms=POLL_MS)
    stage.whole()
    stage.short["stuck"].do("hold")
    stage.whole("steady")
    stage.rest(3.0)


@case(
    *(KP3, CONFLUENT, JAVA, FRANZ),
    causes=("ROLLING_RESTART", "STORM"),
    remedies=("group.instance.id",),
    calm=None,
)
def rolling_restart(stage: Stage) -> None:
    names = ("pod-0", "pod-1", "pod-2")
    stage.started(*names)
    for name in names:
        stage.close(name)
        stage.rest(1.5)
        stage.start(name)
        stage.whole()


@case(
    *(KP3, AIO, CONFLUENT, JAVA, FRANZ),
    causes=("DUPLICATE_INSTANCE_ID",),
    culprits=("worker-0",),
    remedies=("group.instance.id",),
)
def one_instance_id_twice(stage: Stage) -> None:
    stage.start("app-1", instance="worker-0")
    stage.start("app-3", instance="worker-1")
    stage.whole()
    for number in range(2):
        stage.start(f"app-2-{number}", instance="worker-0")
        stage.rest(5.0)


@case(
    # franz-go joins again while its application works.
    *(KP3, KP2, JAVA, CONFLUENT),
    causes=("SLOW_MEMBER",),
    culprits=("slow",),
    remedies=("max.poll.records", "processing"),
)
def slow_to_join_again(stage: Stage) -> None:
    stage.start("slow", max_poll_ms=60_000)
    stage.start("fast", max_poll_ms=60_000)
    stage.whole()
    for name in ("more-1", "more-2"):
        stage.short["slow"].do("hold")
        stage.start(name, max_poll_ms=60_000)
        stage.rest(8.0)
        stage.short["slow"].do("go")
        stage.whole()


@case(KIP848, causes=("SLOW_REVOCATION",), culprits=("slow",), remedies=("processing",))
def slow_to_give_up_partitions(stage: Stage) -> None:
    stage.start("slow", revoke_s=7)
    stage.whole()
    stage.start("new")
    stage.whole()


@case(AIO, CONFLUENT, causes=("SLOW_MEMBER",), culprits=("slow",), remedies=("processing",))
def slow_revoke_callback(stage: Stage) -> None:
    # The rebalance timeout of aiokafka is its session timeout.
    stage.start("slow", revoke_s=4)
    stage.start("fast")
    stage.whole()
    stage.start("new")
    stage.whole()


@case(
    *(KP3, AIO, CONFLUENT, JAVA),
    causes=("PAUSED_MEMBER",),
    culprits=("paused",),
    remedies=("session.timeout.ms",),
)
def paused_longer_than_its_session(stage: Stage) -> None:
    stage.started("paused", "steady")
    for _ in range(2):
        stage.short["paused"].stop()
        stage.whole("steady")
        stage.short["paused"].wake()
        # The commit of what it had read comes too late.
        stage.short["paused"].ask("commit")
        stage.whole()


@case(
    *(KP3, AIO, CONFLUENT, JAVA, KAFKAJS),
    causes=("JOIN_REFUSED",),
    culprits=("eager-beaver",),
    remedies=("session.timeout.ms",),
)
def session_timeout_too_long(stage: Stage) -> None:
    stage.started("fine")
    stage.start("eager-beaver", session_ms=2_000_000, max_poll_ms=2_100_000)
    stage.rest(8.0)


@case(
    *(KP3, AIO, CONFLUENT, JAVA),
    causes=("JOIN_REFUSED",),
    culprits=("odd",),
    remedies=("partition.assignment.strategy",),
)
def other_assignor(stage: Stage) -> None:
    stage.start("fine-1", assignors=["range"])
    stage.start("fine-2", assignors=["range"])
    stage.whole()
    stage.start("odd", assignors=["roundrobin"])
    stage.rest(12.0 if stage.client == JAVA else 6.0)


@case(
    *(KP3, AIO, CONFLUENT, KAFKAJS),
    causes=("JOIN_REFUSED",),
    culprits=("third",),
    remedies=("group.max.size",),
    server="small",
)
def group_is_full(stage: Stage) -> None:
    stage.started("first", "second")
    stage.start("third")
    stage.rest(6.0)


@case(
    *(KP3, AIO, CONFLUENT, JAVA, SARAMA),
    causes=("GHOST",),
    culprits=("app-b",),
    remedies=("group.instance.id",),
)
def killed_and_restarted_at_once(stage: Stage) -> None:
    # A Java process takes some seconds to start.
    session_ms = 20_000 if stage.client == JAVA else 10_000
    stage.started("app-a", "app-b", session_ms=session_ms)
    stage.kill("app-b")
    stage.rest(1.5)
    stage.start("app-b", session_ms=session_ms)
    stage.whole()


@case(KP3, AIO, CONFLUENT, causes=("CRASH_LOOP",), culprits=("flaky",), remedies=("process",))
def crashes_again_and_again(stage: Stage) -> None:
    stage.started("steady")
    for _ in range(4):
        stage.start("flaky")
        stage.whole()
        stage.kill("flaky")
        stage.whole()


# Healthy


@case(CONFLUENT, causes=("SUBSCRIPTION_CHANGED",), culprits=("curious",), calm=True)
def subscribes_to_more(stage: Stage) -> None:
    stage.started("curious", "content")
    admin = stage.processes.start(EVERY_CLIENT[CONFLUENT], client_id="admin")
    admin.do("create_topic", topic=f"{stage.group}-more", partitions=2)
    stage.short["curious"].do("subscribe", topics=[stage.group, f"{stage.group}-more"])
    stage.whole(topics={stage.group: PARTITIONS, f"{stage.group}-more": 2})
    admin.kill()


@case(CONFLUENT, causes=("RESTART",), culprits=("fickle",), remedies=("group.instance.id",), calm=None)
def unsubscribes_and_comes_back(stage: Stage) -> None:
    stage.started("fickle", "steady")
    stage.rest(1.0)
    stage.short["fickle"].do("unsubscribe")
    stage.whole("steady")
    stage.short["fickle"].do("subscribe", topics=[stage.group])
    stage.whole()


@case(*PYTHON, JAVA, FRANZ, SARAMA, KAFKAJS, causes=("START",), calm=True)
def clean_start_and_stop(stage: Stage) -> None:
    stage.started("a", "b")
    stage.rest(2.0)


@case(*PYTHON, JAVA, FRANZ, causes=("SCALE_OUT",), calm=True)
def scale_out(stage: Stage) -> None:
    stage.started("a")
    stage.rest(12.0)
    for name in ("b", "c"):
        stage.start(name)
        stage.whole()


@case(*PYTHON, causes=("SCALE_IN",), calm=True)
def scale_in(stage: Stage) -> None:
    stage.started("a", "b", "c")
    stage.close("c")
    stage.whole()
    stage.rest(12.0)


@case(KP3, CONFLUENT, JAVA, FRANZ, causes=("START", "STATIC_REPLACED"), calm=True)
def rolling_restart_of_static_members(stage: Stage) -> None:
    names = ("pod-0", "pod-1", "pod-2")
    for name in names:
        stage.start(name, instance=name, session_ms=20_000)
    stage.whole()
    for name in names:
        stage.kill(name)
        stage.rest(0.5)
        stage.start(name, instance=name, session_ms=20_000)
        stage.whole()


@case(KP3, CONFLUENT, JAVA, causes=("DEPLOY",), remedies=("group.instance.id",), calm=None)
def deploy_at_once(stage: Stage) -> None:
    names = ("pod-0", "pod-1", "pod-2")
    stage.started(*names)
    stage.close(*names)
    stage.rest(1.0)
    stage.started(*names)


@case(KP3, CONFLUENT, AIO, causes=("TOPICS_CHANGED",), calm=True)
def topic_grows(stage: Stage) -> None:
    stage.started("a", "b", metadata_ms=2_000)
    admin = stage.processes.start(EVERY_CLIENT[CONFLUENT], client_id="admin")
    admin.do("grow_topic", topic=stage.group, partitions=PARTITIONS + 2)
    stage.whole(topics={stage.group: PARTITIONS + 2})
    admin.kill()
