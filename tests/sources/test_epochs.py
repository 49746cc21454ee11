"""The lines about consumer groups of KIP-848 become epochs with their causes."""

from pathlib import Path

import pytest

from kafka_shim.trace import schema
from kafka_shim.why.explanation import Explanation, explain
from tests.sources.broker_lines import BEGIN_MS, EpochBroker, uuid
from tests.sources.test_story import causes, history_of, read
from tests.sources.test_versions import answer

ONE, TWO = uuid(1), uuid(2)
RELEASES = ["4.0", "4.2", "4.4"]


def explanation_of(tmp_path: Path, broker: EpochBroker) -> Explanation:
    _, events = read(tmp_path, broker.text)
    assert [problem for event in events for problem in schema.problems(event)] == []
    history = history_of(events)
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    return explanation


@pytest.mark.parametrize("release", RELEASES)
def test_the_line_before_an_epoch_has_its_cause(tmp_path: Path, release: str) -> None:
    broker = EpochBroker(release)
    broker.joins(0, ONE, 2, 11)
    broker.joins(10, TWO, 3, 11)
    broker.says(60, f"Member {TWO} left the consumer group.")
    broker.epoch(60.001, 4, 11)
    broker.joins(120, TWO.replace("2", "3"), 5, 11)
    broker.says(180, f"Member {ONE} fenced from the group because it failed to transition from epoch 4 within 60000ms.")
    broker.epoch(180.001, 6, 11)
    broker.says(300, f"Member {TWO.replace('2', '3')} fenced from the group because the member session expired.")
    broker.epoch(300.001, 7, 11)
    explanation = explanation_of(tmp_path, broker)
    assert causes(explanation.history) == [
        (2, "NEW_MEMBER", ONE),
        (3, "NEW_MEMBER", TWO),
        (4, "MEMBER_LEFT", TWO),
        (5, "NEW_MEMBER", TWO.replace("2", "3")),
        (6, "REBALANCE_TIMEOUT", ONE),
        (7, "SESSION_EXPIRED", TWO.replace("2", "3")),
    ]
    assert [round(each.seconds, 3) for each in explanation.rebalances] == [1.0] * 6
    assert explanation.history.members[ONE].rebalance_timeout_ms == 60_000


@pytest.mark.parametrize(("topic_is_new", "cause"), [(True, "TOPIC_METADATA_CHANGED"), (False, "SUBSCRIPTION_CHANGED")])
def test_another_hash_without_a_member_is_a_topic_or_a_subscription(
    tmp_path: Path, topic_is_new: bool, cause: str
) -> None:
    broker = EpochBroker("4.4")
    broker.joins(0, ONE, 2, 11)
    if topic_is_new:
        logger = "org.apache.kafka.storage.internals.log.LogManager"
        broker.write(59, "Created log for partition orders-4 in /data/orders-4 with properties {}", logger=logger)
    broker.epoch(60, 3, 12)
    broker.epoch(90, 4, 12)
    explanation = explanation_of(tmp_path, broker)
    assert causes(explanation.history)[1:] == [(3, cause, ""), (4, "", "")]
    assert any("whether a subscription changed or a topic" in each for each in explanation.limits) is not topic_is_new


def test_a_member_that_comes_back_under_its_id_had_been_paused(tmp_path: Path) -> None:
    broker = EpochBroker("4.4")
    broker.joins(0, ONE, 2, 11)
    broker.joins(10, TWO, 3, 11)
    broker.says(100, f"Member {TWO} fenced from the group because the member session expired.")
    broker.epoch(100.001, 4, 11)
    broker.joins(107, TWO, 5, 11)
    explanation = explanation_of(tmp_path, broker)
    assert [(each.code, each.seconds) for each in explanation.troubles] == [("PAUSED_MEMBER", 7.0)]
    assert not any("died or stood still" in each for each in explanation.limits)


def test_a_member_that_leaves_and_comes_back_under_its_id_did_not_poll(tmp_path: Path) -> None:
    broker = EpochBroker("4.4")
    broker.joins(0, ONE, 2, 11)
    broker.joins(10, TWO, 3, 11)
    broker.says(400, f"Member {TWO} left the consumer group.")
    broker.epoch(400.001, 4, 11)
    broker.joins(400.01, TWO, 5, 11)
    explanation = explanation_of(tmp_path, broker)
    assert causes(explanation.history)[2] == (4, "POLL_TIMEOUT_REASON", TWO)
    assert [(each.code, each.is_likely) for each in explanation.troubles] == [("POLL_TIMEOUT_REASON", True)]


def test_a_static_member_that_leaves_for_a_while_stays(tmp_path: Path) -> None:
    broker = EpochBroker("4.4")
    broker.says(0, f"Static member {ONE} with instance id i joins the consumer group using the consumer protocol.")
    broker.epoch(0.001, 2, 11)
    broker.says(50, f"Static member {ONE} with instance id i temporarily left the consumer group.")
    broker.says(
        55,
        "Static member with instance id i re-joins the consumer group using the consumer protocol. Created a new member"
        f" {TWO} to replace the existing member {ONE}.",
    )
    history = explanation_of(tmp_path, broker).history
    assert causes(history) == [(2, "NEW_MEMBER", ONE)]
    assert (list(history.present), history.members[TWO].instance_id) == ([TWO], "i")


def test_a_share_group_is_told_from_a_consumer_group(tmp_path: Path) -> None:
    broker = EpochBroker("4.4")
    broker.says(0, f"Member {ONE} joins the share group using the share protocol.")
    broker.says(0, f"Member {ONE} updated its subscribed topics to: [orders].")
    broker.says(0, "Computed new metadata hash: 11.")
    broker.epoch(0.001, 2, 11)
    broker.says(
        0.002, f"Member {ONE} new assignment state: epoch=2, previousEpoch=0, state=STABLE, assignedPartitions={{}}."
    )
    broker.says(50, f"Member {ONE} left the share group.")
    broker.epoch(50.001, 3, 0)
    explanation = explanation_of(tmp_path, broker)
    assert explanation.history.kind == "share"
    assert causes(explanation.history) == [(2, "NEW_MEMBER", ONE), (3, "MEMBER_LEFT", ONE)]


def test_the_two_brackets_of_a_streams_group_are_read(tmp_path: Path) -> None:
    broker = EpochBroker("4.4")
    bracket = f"[GroupId billing][MemberId {ONE}] "
    for at, text in (
        (0, "Member joins the streams group."),
        (0, "Member updated its member metadata to {}."),
        (0, "Computed new metadata hash 11."),
        (0, "Bumped streams group epoch to 2 with metadata hash 11 and validated topic epoch 1."),
        (0.01, "Computed a new target assignment for epoch 2 with 'sticky' assignor in 1ms."),
        (0.02, "Member's new assignment state: epoch=2, assignedTasks={} and tasksPendingRevocation={}."),
    ):
        broker.write(at, bracket + text)
    broker.says(60, f"Streams member {ONE} fenced from the group because the member session expired..")
    broker.write(60, f"{bracket}Bumped streams group epoch to 3 with metadata hash 0 and validated topic epoch 1.")
    reading, _ = read(tmp_path, broker.text)
    assert (reading.unknown, list(reading.groups)) == (0, ["billing"])
    explanation = explanation_of(tmp_path, broker)
    assert explanation.history.kind == "streams"
    assert causes(explanation.history) == [(2, "NEW_MEMBER", ONE), (3, "SESSION_EXPIRED", ONE)]


def test_members_of_new_ids_are_other_processes(tmp_path: Path) -> None:
    broker = EpochBroker("4.4")
    three = uuid(3)
    broker.joins(0, ONE, 2, 11)
    broker.joins(100, TWO, 3, 11)
    broker.joins(103, three, 4, 11)
    for number, member in enumerate((three, ONE, TWO)):
        broker.says(200 + number / 10, f"Member {member} left the consumer group.")
        broker.epoch(200.001 + number / 10, 5 + number, 0 if member == TWO else 11)
    explanation = explanation_of(tmp_path, broker)
    assert explanation.history.state == "Empty"
    assert [each.code for each in explanation.advice.findings] == ["SCALE_OUT", "START", "SHUTDOWN"]


def missed(broker: EpochBroker, times: int, stays: tuple[float, ...]) -> EpochBroker:
    """A member that falls silent so long after each join, and comes back under its id."""
    broker.joins(0, ONE, 2, 11)
    at, epoch = 10.0, 3
    for stay in stays[:times]:
        broker.joins(at, TWO, epoch, 11)
        broker.says(at + stay, f"Member {TWO} fenced from the group because the member session expired.")
        broker.epoch(at + stay + 0.001, epoch + 1, 11)
        at, epoch = at + stay + 6, epoch + 2
    broker.joins(at, TWO, epoch, 11)
    return broker


@pytest.mark.parametrize(
    ("times", "stays", "code"),
    [
        (3, (55.0, 55.1, 55.2), "POLL_TIMEOUT_REASON"),
        (2, (55.0, 55.1), "PAUSED_MEMBER"),
        (3, (55.0, 70.0, 48.0), "PAUSED_MEMBER"),
    ],
)
def test_sessions_that_run_out_equally_long_after_each_join_are_missed_polls(
    tmp_path: Path, times: int, stays: tuple[float, ...], code: str
) -> None:
    (tmp_path / "server.log").write_bytes(missed(EpochBroker("4.4"), times, stays).text)
    found = answer("billing", tmp_path / "server.log")
    assert [each["code"] for each in found["findings"] if each["trouble"]] == [code]
    is_open = any("stood still or its application did not poll" in each for each in found["cannot_tell"])
    assert is_open is (code == "PAUSED_MEMBER")


def test_the_log_of_librdkafka_tells_a_missed_poll_from_a_pause(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(missed(EpochBroker("4.4"), 1, (55.0,)).text)
    at = BEGIN_MS / 1000 + 20
    text = "Application maximum poll interval (10000ms) exceeded by 88ms (adjust max.poll.interval.ms): leaving group"
    (tmp_path / "app.log").write_text(f"%4|{at:.3f}|MAXPOLL|report#consumer-1| [thrd:main]: {text}\n")
    found = answer("billing", tmp_path / "server.log", tmp_path / "app.log")
    trouble = next(each for each in found["findings"] if each["trouble"])
    assert (trouble["code"], trouble["client"]) == ("POLL_TIMEOUT_REASON", "report")
    assert found["remedies"][0]["setting"] == "max.poll.interval.ms"
