"""Lines of clients: each library's lines in its own layout, and their signs."""

from __future__ import annotations

import json

import pytest

from kafka_shim.sources.clients import PROGRAMS
from kafka_shim.sources.layouts import Layouts
from kafka_shim.sources.signs import Sign, SignName

UUID = "0d1f5ccd-0d4e-4cbb-8d5f-4f0f2a2c1b3a"
JAVA = "2026-11-27 09:26:06.123 [main] INFO org.apache.kafka.clients.consumer.internals.ConsumerCoordinator - "
SPRING = "2022-10-05 18:35:56.622  INFO 36 --- [ntainer#0-0-C-1] o.a.k.c.c.internals.ConsumerCoordinator  : "
C = "[Consumer clientId=c 1, groupId=a, b: [x]] "
MEMBERSHIP = "2026-11-27 09:26:06.123 [bg] INFO o.a.k.c.c.internals.ConsumerMembershipManager - "
PYTHON = "2026-11-27 09:26:06,123 INFO kafka.coordinator "
AIO = "2026-11-27 09:26:06,123 INFO aiokafka.consumer.group_coordinator "
RD = "%4|1795848836.731|"
FRANZ = "[INFO] "


def sign_of(raw: str) -> Sign | None:
    line = Layouts().line("app.log", 1, raw.encode())
    return next((sign for program in PROGRAMS if (sign := program.sign(line)) is not None), None)


def kafkajs(message: str, **fields: object) -> str:
    level = {"level": "INFO", "timestamp": "2026-11-27T09:26:06.123Z", "logger": "kafkajs"}
    return json.dumps({**level, "message": message, **fields})


LINES = [
    # Java, classic
    (JAVA + C + "(Re-)joining group", SignName.ASKS_TO_JOIN, "a, b: [x]", "", {"client_id": "c 1"}),
    (SPRING + C + "(Re-)joining group", SignName.ASKS_TO_JOIN, "a, b: [x]", "", {"client_id": "c 1"}),
    (
        f"{JAVA}{C}Successfully joined group with generation Generation{{generationId=3, memberId='c 1-{UUID}', "
        "protocol='range'}",
        SignName.IN_GENERATION,
        "a, b: [x]",
        f"c 1-{UUID}",
        {"generation": "3", "protocol": "range"},
    ),
    (JAVA + C + "Successfully joined group with generation 3", SignName.IN_GENERATION, "a, b: [x]", "", {}),
    (
        JAVA + C + "Request joining group due to: group is already rebalancing",
        SignName.FOLLOWS,
        "a, b: [x]",
        "",
        {},
    ),
    (JAVA + C + "Attempt to heartbeat failed since group is rebalancing", SignName.FOLLOWS, "a, b: [x]", "", {}),
    (
        f"{JAVA}{C}Request joining group due to: need to re-join with the given member-id: c 1-{UUID}",
        SignName.ID_RECEIVED,
        "a, b: [x]",
        f"c 1-{UUID}",
        {},
    ),
    (
        JAVA + C + "Request joining group due to: rebalance failed due to MemberIdRequiredException",
        SignName.ID_RECEIVED,
        "a, b: [x]",
        "",
        {},
    ),
    (
        JAVA + C + "Request joining group due to: cached metadata has changed from (version3: {t=[]}) at the beginning "
        "of the rebalance to (version4: {t=[], u=[]})",
        SignName.METADATA_CHANGED,
        "a, b: [x]",
        "",
        {"before": "(version3: {t=[]})", "after": "(version4: {t=[], u=[]})"},
    ),
    (
        JAVA + C + "Requesting to re-join the group and trigger rebalance since the assignment metadata has changed "
        "from {t=1} to {t=2}",
        SignName.METADATA_CHANGED,
        "a, b: [x]",
        "",
        {"before": "{t=1}", "after": "{t=2}"},
    ),
    (
        JAVA + C + "Request joining group due to: subscription has changed from [t] at the beginning of the rebalance "
        "to [t, u]",
        SignName.SUBSCRIPTION_CHANGED,
        "a, b: [x]",
        "",
        {"before": "[t]", "after": "[t, u]"},
    ),
    (
        JAVA + C + "Request joining group due to: need to revoke partitions [t-1] as indicated by the current "
        "assignment and re-join",
        SignName.REVOKED_AND_JOINS,
        "a, b: [x]",
        "",
        {"partitions": "[t-1]"},
    ),
    (
        JAVA + C + "Request joining group due to: rebalance enforced by user",
        SignName.ASKS_AGAIN,
        "a, b: [x]",
        "",
        {"reason": "rebalance enforced by user"},
    ),
    (
        JAVA + C + "consumer poll timeout has expired. This means the time between",
        SignName.POLL_EXPIRED,
        "a, b: [x]",
        "",
        {},
    ),
    (
        JAVA + C + "This member will leave the group because consumer poll timeout has expired. This means the time",
        SignName.POLL_EXPIRED,
        "a, b: [x]",
        "",
        {},
    ),
    (
        f"{JAVA}{C}Member c 1-{UUID} sending LeaveGroup request to coordinator h:9092 (id: 2147483646 rack: null) "
        "due to the consumer is being closed",
        SignName.LEAVES,
        "a, b: [x]",
        f"c 1-{UUID}",
        {"reason": "the consumer is being closed"},
    ),
    (
        f"{JAVA}{C}Attempt to heartbeat with Generation{{generationId=7, memberId='c 1-{UUID}', protocol='range'}} "
        "and group instance id Optional.empty failed due to UNKNOWN_MEMBER_ID, resetting generation",
        SignName.THROWN_OUT,
        "a, b: [x]",
        f"c 1-{UUID}",
        {"error": "UNKNOWN_MEMBER_ID", "generation": "7"},
    ),
    (
        JAVA + C + "Group coordinator h:9092 (id: 2147483646 rack: null) is unavailable or invalid due to cause: "
        "session timed out without receiving a heartbeat response. isDisconnected: false. Rediscovery will be",
        SignName.SESSION_LOST,
        "a, b: [x]",
        "",
        {},
    ),
    (
        JAVA + C + "Group coordinator h:9092 (id: 2147483646 rack: null) is unavailable or invalid due to cause:"
        "error response NOT_COORDINATOR.isDisconnected: false. Rediscovery will be attempted.",
        SignName.COORDINATOR_LOST,
        "a, b: [x]",
        "",
        {"error": "error response NOT_COORDINATOR"},
    ),
    (
        JAVA + "[Consumer instanceId=i-1, clientId=c, groupId=g] JoinGroup failed: The group instance id i-1 has been "
        "fenced by another instance. Sent generation was",
        SignName.REPLACED,
        "g",
        "",
        {"instance": "i-1", "fenced": "i-1"},
    ),
    (
        JAVA + C + "JoinGroup failed due to fatal error: The group member's supported protocols are incompatible",
        SignName.REFUSED,
        "a, b: [x]",
        "",
        {"error": "The group member's supported protocols are incompatible"},
    ),
    (
        JAVA + C + "Offset commit failed on partition t-1 at offset 17: The coordinator is not aware of this member.",
        SignName.COMMIT_FAILED,
        "a, b: [x]",
        "",
        {"partition": "t-1", "offset": "17"},
    ),
    (
        "2026-11-27 09:26:06.123 INFO [main] o.a.k.c.u.AppInfoParser - Kafka version: 3.9.2",
        SignName.VERSION,
        "",
        "",
        {},
    ),
    (
        JAVA + "[Worker clientId=connect-1, groupId=connect] Successfully joined group with generation "
        f"Generation{{generationId=2, memberId='connect-1-{UUID}', protocol='sessioned'}}",
        SignName.IN_GENERATION,
        "connect",
        f"connect-1-{UUID}",
        {"generation": "2"},
    ),
    (
        "[2026-11-27 09:26:06,123] INFO stream-thread [app-1] Triggering the followup rebalance scheduled for 17. "
        "(org.apache.kafka.streams.processor.internals.StreamThread)",
        SignName.ASKS_AGAIN,
        "",
        "",
        {"client_id": "app-1"},
    ),
    # Java, group.protocol=consumer
    (
        MEMBERSHIP + C + "Member AbC-1_2 with epoch 5 transitioned from STABLE to FENCED.",
        SignName.TRANSITION,
        "a, b: [x]",
        "AbC-1_2",
        {"epoch": "5", "before": "STABLE", "after": "FENCED"},
    ),
    (
        MEMBERSHIP + C + "Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, "
        "exceeded approximately by 212 ms. Member AbC-1_2 will rejoin the group now.",
        SignName.POLLS_AGAIN,
        "a, b: [x]",
        "AbC-1_2",
        {"excess_ms": "212"},
    ),
    (
        MEMBERSHIP + C + "ConsumerGroupHeartbeatRequest failed for member AbC-1_2 because epoch 4 is fenced.",
        SignName.THROWN_OUT,
        "a, b: [x]",
        "AbC-1_2",
        {"error": "fenced", "epoch": "4"},
    ),
    (
        MEMBERSHIP + C + "ConsumerGroupHeartbeatRequest failed due to unreleased instance id i-1: Static member",
        SignName.REPLACED,
        "a, b: [x]",
        "",
        {"unreleased": "i-1"},
    ),
    # librdkafka: at its default level, with the layout of confluent-kafka's logger, with debug=cgrp
    (
        RD + "MAXPOLL|c#consumer-1| [thrd:main]: Application maximum poll interval (6500ms) exceeded by 391ms (adjust",
        SignName.POLL_EXPIRED,
        "",
        "",
        {"client_id": "c", "interval_ms": "6500", "excess_ms": "391"},
    ),
    (
        "MAXPOLL [c#consumer-1] [thrd:main]: Application maximum poll interval (6500ms) exceeded by 391ms (adjust",
        SignName.POLL_EXPIRED,
        "",
        "",
        {"client_id": "c", "interval_ms": "6500"},
    ),
    (
        RD + "SESSTMOUT|c#consumer-1| [thrd:main]: Consumer group session timed out (in join-state steady) after 6100 "
        "ms without a successful response from the group coordinator (broker 1, last error was Success): revoking",
        SignName.SESSION_LOST,
        "",
        "",
        {"silent_ms": "6100", "coordinator": "1", "error": "Success"},
    ),
    (
        RD + "FATAL|c#consumer-1| [thrd:main]: Fatal error: Broker: Static consumer fenced by other consumer with same "
        "group.instance.id: ",
        SignName.REPLACED,
        "",
        "",
        {"client_id": "c"},
    ),
    # kafka-python
    (
        f"{PYTHON}Successfully joined group my group <Generation 4 (member_id: c-{UUID}, protocol: range)>",
        SignName.IN_GENERATION,
        "my group",
        f"c-{UUID}",
        {"generation": "4", "protocol": "range"},
    ),
    ("INFO:kafka.coordinator:(Re-)joining group g", SignName.ASKS_TO_JOIN, "g", "", {}),
    (
        f"{PYTHON}Received member id c-{UUID} for group g; will retry join-group",
        SignName.ID_RECEIVED,
        "g",
        f"c-{UUID}",
        {},
    ),
    (
        "2026-11-27 09:26:06,123 WARNING kafka.coordinator Heartbeat poll expired, leaving group",
        SignName.POLL_EXPIRED,
        "",
        "",
        {},
    ),
    (f"{PYTHON}Leaving consumer group g (member c-{UUID}).", SignName.LEAVES, "g", f"c-{UUID}", {}),
    (
        "2026-11-27 09:26:06,123 WARNING kafka.coordinator Heartbeat failed for group g: generation id is not  "
        "current.",
        SignName.THROWN_OUT,
        "g",
        "",
        {"error": "generation id is not  current"},
    ),
    (
        "2026-11-27 09:26:06,123 ERROR kafka.coordinator Attempt to join group g failed due to fatal error: "
        "InconsistentGroupProtocolError",
        SignName.REFUSED,
        "",
        "",
        {"error": "InconsistentGroupProtocolError"},
    ),
    (
        "2026-11-27 09:26:06,123 WARNING kafka.coordinator Marking the coordinator dead (node 1) for group g: X.",
        SignName.COORDINATOR_LOST,
        "g",
        "",
        {"coordinator": "1", "error": "X"},
    ),
    # aiokafka
    (
        f"{AIO}Joined group 'it's g' (generation 4) with member_id c-{UUID}",
        SignName.IN_GENERATION,
        "it's g",
        f"c-{UUID}",
        {"generation": "4"},
    ),
    (AIO + "LeaveGroup request succeeded", SignName.LEAVES, "", "", {}),
    (
        "2026-11-27 09:26:06,123 ERROR aiokafka.consumer.group_coordinator OffsetCommit failed for group g due to "
        "group error ([Error 25] UnknownMemberIdError: g), will rejoin",
        SignName.COMMIT_FAILED,
        "g",
        "",
        {"error": "UnknownMemberIdError"},
    ),
    # franz-go, sarama, KafkaJS
    (
        f"{FRANZ}joined, balancing group; group: g, member_id: c-{UUID}, instance_id: <nil>, generation: 4, "
        "balance_protocol: range, leader: true",
        SignName.IN_GENERATION,
        "g",
        f"c-{UUID}",
        {"generation": "4", "leader": "true"},
    ),
    (
        FRANZ + "heartbeat errored; group: g, err: REBALANCE_IN_PROGRESS: The group is rebalancing",
        SignName.FOLLOWS,
        "g",
        "",
        {},
    ),
    (FRANZ + "heartbeat errored; group: g, err: UNKNOWN_MEMBER_ID: x", SignName.THROWN_OUT, "g", "", {}),
    (
        '{"level":"info","ts":"2026-11-27T09:26:06.123Z","group":"g","error":"UNKNOWN_MEMBER_ID: x",'
        '"msg":"heartbeat errored again while waiting for user revoke to finish"}',
        SignName.THROWN_OUT,
        "g",
        "",
        {"error": "UNKNOWN_MEMBER_ID"},
    ),
    (
        RD + 'HEARTBEAT|c#consumer-1| [thrd:main]: Group "g" heartbeat error response in state up (join state steady, 2'
        " partition(s) assigned): Broker: Not coordinator for group",
        SignName.COORDINATOR_LOST,
        "g",
        "",
        {"error": "Broker: Not coordinator"},
    ),
    (
        RD + "HEARTBEAT|c#consumer-1| [thrd:main]: Heartbeat failed due to coordinator (kafka-1:9092/1) no longer"
        " available: Broker: Not coordinator for group: re-querying for coordinator",
        SignName.COORDINATOR_LOST,
        "",
        "",
        {"coordinator": "kafka-1:9092/1", "error": "Broker: Not coordinator for group"},
    ),
    (f"{FRANZ}leaving group; group: g, member_id: c-{UUID}", SignName.LEAVES, "g", f"c-{UUID}", {}),
    *(
        (line, SignName.IN_GENERATION, "g", f"c-{UUID}", {"generation": "4", "leader": "true"})
        for line in (
            '{"level":"info","ts":"2026-11-27T09:26:06.123+0800","caller":"kzap/kzap.go:114",'
            '"msg":"joined, balancing group","group":"g",'
            f'"member_id":"c-{UUID}","instance_id":null,"generation":4,"balance_protocol":"range","leader":true}}',
            'time=2026-11-27T09:26:06.123+08:00 level=INFO msg="joined, balancing group" group=g '
            f"member_id=c-{UUID} instance_id=<nil> generation=4 balance_protocol=range leader=true",
            "2026-11-27T09:26:06.123+0800\tinfo\tkzap/kzap.go:114\tjoined, balancing group\t"
            f'{{"group":"g","member_id":"c-{UUID}","generation":4,"balance_protocol":"range","leader":true}}',
        )
    ),
    (
        '{"level":"info","ts":"2026-11-27T09:26:06.123+0800","msg":"heartbeat errored","group":"g",'
        '"err":"UNKNOWN_MEMBER_ID: x"}',
        SignName.THROWN_OUT,
        "g",
        "",
        {},
    ),
    (
        "[Sarama] 2026/11/27 09:26:06 consumergroup/g loop check partition number goroutine find partitions in topics "
        "[t] changed from map[t:6] to map[t:8]",
        SignName.METADATA_CHANGED,
        "g",
        "",
        {"before": "map[t:6]", "after": "map[t:8]"},
    ),
    (
        kafkajs("[ConsumerGroup] Consumer has joined the group", groupId="g", memberId=f"c-{UUID}", isLeader=True),
        SignName.IN_GENERATION,
        "g",
        f"c-{UUID}",
        {},
    ),
    (
        kafkajs("[Runner] The coordinator is not aware of this member, re-joining the group", groupId="g"),
        SignName.THROWN_OUT,
        "g",
        "",
        {},
    ),
]


@pytest.mark.parametrize(("raw", "name", "group", "member", "fields"), LINES)
def test_a_line_gives_its_sign(raw: str, name: SignName, group: str, member: str, fields: dict[str, str]) -> None:
    sign = sign_of(raw)
    assert sign is not None
    assert (sign.name, sign.group, sign.member) == (name, group, member)
    assert fields.items() <= dict(sign.fields).items()


@pytest.mark.parametrize(
    "raw",
    [
        "2026-11-27 09:26:06,123 INFO app consumer poll timeouts are 300 s",
        JAVA + C + "Found no committed offset for partition t-1",
        "2026-11-27 09:26:06,123 ERROR my.app Fatal error: out of memory",
        RD + "FAIL|c#consumer-1| [thrd:h:9092/1]: h:9092/1: Disconnected (after 100ms in state UP)",
        "",
    ],
)
def test_another_line_gives_none(raw: str) -> None:
    assert sign_of(raw) is None


def test_every_line_of_a_pattern_has_its_anchor() -> None:
    for raw, *_ in LINES:
        sign = sign_of(raw)
        assert sign is not None
        assert any(anchor in raw for program in PROGRAMS for anchor in program.anchors), raw
        assert any(each.anchor in sign.line.text for program in PROGRAMS for each in program.patterns), raw


@pytest.mark.parametrize("length", [10, 60, 100, 140])
def test_a_cut_line_does_no_harm(length: int) -> None:
    for raw, *_ in LINES:
        sign_of(raw[:length])
