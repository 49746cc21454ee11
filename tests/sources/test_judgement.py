"""Departures and silences in the log of a broker are judged as far as it goes, and the rest is said."""

from pathlib import Path

import pytest

from kafka_shim.why.explanation import Explanation, explain
from tests.sources.broker_lines import Broker, uuid
from tests.sources.test_story import history_of, read

ONE, TWO, THREE = (f"app-{number}-{uuid(number)}" for number in (1, 2, 3))


def started(release: str) -> Broker:
    broker = Broker(release)
    broker.new_member(0, ONE, 0, "Empty")
    broker.round(3, 1, ONE, 1)
    broker.new_member(20, TWO, 1, "Stable")
    broker.round(21, 2, ONE, 2)
    return broker


def explained(tmp_path: Path, broker: Broker) -> Explanation:
    history = history_of(read(tmp_path, broker.text)[1])
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    return explanation


def troubles(explanation: Explanation) -> list[tuple[str, str, bool]]:
    return [(each.code, each.client, each.is_likely) for each in explanation.troubles]


@pytest.mark.parametrize(("after", "is_overrun"), [(300.5, True), (120.0, False)])
def test_a_departure_at_the_end_of_a_poll_interval_is_a_probable_overrun(
    tmp_path: Path, after: float, is_overrun: bool
) -> None:
    broker = started("3.9")
    broker.leaves(21.05 + after, TWO, 2)
    broker.round(22.0 + after, 3, ONE, 1)
    explanation = explained(tmp_path, broker)
    assert troubles(explanation) == ([("POLL_TIMEOUT_REASON", "app-2", True)] if is_overrun else [])
    assert ("its application probably did not poll" in explanation.verdict) is is_overrun
    assert any("whether app-2 was closed or did not poll in time" in each for each in explanation.limits)


def test_equal_stays_of_one_process_have_a_poll_interval_in_common(tmp_path: Path) -> None:
    broker = started("4.4")
    at, member = 21.05, TWO
    for number in range(3):
        broker.leaves(at + 8.02, member, 2 + 2 * number)
        broker.round(at + 8.5, 3 + 2 * number, ONE, 1)
        member = f"app-2-{uuid(10 + number)}"
        broker.new_member(at + 20, member, 3 + 2 * number, "Stable")
        broker.round(at + 20.5, 4 + 2 * number, ONE, 2)
        at += 20.55
    assert troubles(explained(tmp_path, broker)) == [("POLL_TIMEOUT_REASON", "app-2", True)]


def test_members_that_leave_together_are_a_deploy(tmp_path: Path) -> None:
    broker = started("3.9")
    broker.leaves(321.5, TWO, 2)
    broker.leaves(321.9, ONE, 3)
    broker.empty(321.91, 4)
    assert troubles(explained(tmp_path, broker)) == []


def test_a_group_with_members_of_before_the_log_does_not_shut_down(tmp_path: Path) -> None:
    broker = Broker("3.9")
    broker.leaves(0, ONE, 7, "the consumer is being closed")
    broker.round(1, 8, TWO, 4)
    explanation = explained(tmp_path, broker)
    assert [each.code for each in explanation.advice.findings] == ["SCALE_IN"]
    assert explanation.history.size == 4


def test_a_silence_may_be_a_death_or_a_pause(tmp_path: Path) -> None:
    broker = started("3.9")
    broker.expiry(100, TWO, 2)
    broker.round(101, 3, ONE, 1)
    explanation = explained(tmp_path, broker)
    assert explanation.verdict.endswith(
        "app-2 sent no heartbeat for its session timeout, once: it died or stood still."
    )
    assert explanation.limits == (
        "whether app-2 died or stood still; add its log: it ends, starts again, or has a gap",
    )


def test_the_reason_alone_tells_of_a_member_of_before_the_log(tmp_path: Path) -> None:
    broker = Broker("2.3")
    broker.round(0, 7, "", 2)
    broker.preparing(100, 7, f"removing member {TWO} on heartbeat expiration")
    broker.round(109.5, 8, "", 1)
    explanation = explained(tmp_path, broker)
    assert explanation.verdict == (
        "Rebalanced 2 times in 2 min: app-2 sent no heartbeat for its session timeout, once: it died or stood still;"
        " and for 1 of them no line of the log says why."
    )
    assert explanation.history.members[TWO].how == "expired"
    assert explanation.advice.remedies[0].seen == "silent, and not back when the log ends, 9.6 s later"


def test_a_departure_of_which_the_reason_alone_tells_ends_the_member(tmp_path: Path) -> None:
    broker = Broker("2.1")
    broker.new_member(0, TWO, 7, "Stable")
    broker.round(1, 8, "", 2)
    broker.preparing(20, 8, f"removing member {TWO} on LeaveGroup")
    broker.round(21, 9, "", 1)
    assert explained(tmp_path, broker).history.members[TWO].how == "left"


def test_a_process_that_was_killed_and_restarted_is_one_trouble(tmp_path: Path) -> None:
    broker = started("3.9")
    again = f"app-2-{uuid(20)}"
    broker.new_member(100, again, 2, "Stable")
    broker.expired(130, TWO)
    broker.round(130.001, 3, ONE, 2)
    explanation = explained(tmp_path, broker)
    assert [(each.code, each.count) for each in explanation.troubles] == [("GHOST", 1)]


def test_a_long_wait_without_a_culprit_is_no_calm(tmp_path: Path) -> None:
    broker = started("3.9")
    broker.new_member(100, THREE, 2, "Stable")
    broker.round(160, 3, ONE, 3)
    explanation = explained(tmp_path, broker)
    assert not explanation.is_calm
    assert "which member joined last in a long rebalance; add the logs of the members" in explanation.limits


def test_the_refused_requests_of_an_older_process_are_a_fight_for_its_instance_id(tmp_path: Path) -> None:
    broker = Broker("3.9")
    ids = [f"i-{uuid(number)}" for number in range(4)]
    broker.new_member(0, ids[0], 0, "Empty", instance="i")
    broker.round(3, 1, ids[0], 1)
    for number in range(1, 4):
        at = 10.0 * number
        broker.write(
            at,
            "Static member with groupInstanceId=i and unknown member id joins group billing in Stable state. Replacing"
            f" previously mapped member {ids[number - 1]} with this groupInstanceId.",
        )
        cause = f"Updating metadata for static member {ids[number]} with instance id i; client reason: not provided"
        broker.preparing(at + 0.001, number, cause)
        broker.round(at + 0.5, number + 1, ids[number], 1)
        broker.write(
            at + 2,
            f"Request memberId={ids[number - 1]} for static member with groupInstanceId=i is fenced by current"
            f" memberId={ids[number]} during operation heartbeat",
        )
    assert [(each.code, each.client) for each in explained(tmp_path, broker).troubles] == [
        ("DUPLICATE_INSTANCE_ID", "i"),
    ]


def rejoins(broker: Broker, at: float, old: int) -> None:
    cause = f"Updating metadata for member {TWO} during Stable; client reason: not provided"
    broker.preparing(at, old, cause)
    broker.round(at + 0.2, old + 1, ONE, 2)


@pytest.mark.parametrize(("is_first", "topic_grew"), [(True, False), (False, True), (False, False)])
def test_a_group_that_was_empty_or_whose_topic_grew_has_no_follow_up(
    tmp_path: Path, is_first: bool, topic_grew: bool
) -> None:
    broker = started("3.9")
    if is_first:
        broker = Broker("3.9")
        broker.new_member(0, ONE, 0, "Empty")
        broker.id_given(1, TWO, "PreparingRebalance")
        broker.round(3, 1, ONE, 2)
    if topic_grew:
        text = "Created log for partition orders-4 in /data/orders-4 with properties {}"
        broker.write(21.2, text, logger="kafka.log.LogManager")
        broker.lines[-1] = broker.lines[-1].replace("[GroupCoordinator 0]: ", "")
    rejoins(broker, 4.5 if is_first else 22.5, 1 if is_first else 2)
    cause = explained(tmp_path, broker).last.cause
    assert cause == ("SUBSCRIPTION_CHANGED" if is_first or topic_grew else "COOPERATIVE_FOLLOWUP")


def test_a_long_wait_names_no_member_and_says_so(tmp_path: Path) -> None:
    broker = started("3.9")
    broker.new_member(100, THREE, 2, "Stable")
    broker.round(105, 3, ONE, 3)
    explanation = explained(tmp_path, broker)
    assert [(each.code, each.client, round(each.seconds)) for each in explanation.troubles] == [("SLOW_MEMBER", "", 5)]
    assert "waited up to 5.0 s for a member to join again" in explanation.verdict
    assert [each.who for each in explanation.advice.remedies] == ["all"]
    assert "which member joined last in a long rebalance; add the logs of the members" in explanation.limits


def test_a_group_that_was_empty_and_is_as_large_again_was_deployed(tmp_path: Path) -> None:
    broker = Broker("2.8")
    broker.new_member(0, ONE, 0, "Empty")
    broker.round(3, 1, ONE, 3)
    broker.leaves(100, TWO, 1)
    broker.empty(101, 2)
    broker.new_member(103, f"app-2-{uuid(12)}", 2, "Empty")
    broker.round(106, 3, f"app-2-{uuid(12)}", 3)
    assert [each.code for each in explained(tmp_path, broker).advice.findings] == ["DEPLOY", "START"]
