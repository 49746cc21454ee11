"""Members in the logs of clients: ids, ends and their reasons, restarts, the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.sources.client_stories import NO_CAUSE, NO_NAMES, ClientStory
from kafka_shim.sources.clients import CLOSED, OVERRUN, PROGRAMS, ClientLogs, offset_text
from kafka_shim.sources.layouts import Layouts
from kafka_shim.sources.signs import Sign
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.schema import problems

M = "c-0d1f5ccd-0d4e-4cbb-8d5f-4f0f2a2c1b3a"
N = "d-7b1f5ccd-0d4e-4cbb-8d5f-4f0f2a2c1b3a"
MS = 1000


def at(second: int) -> int:
    return round(datetime(2026, 11, 27, 9, 26, second, tzinfo=UTC).timestamp()) * MS


def signs(file: str, *lines: str) -> Iterator[Sign]:
    for number, raw in enumerate(lines, 1):
        line = Layouts().line(file, number, raw.encode())
        yield from [sign for program in PROGRAMS if (sign := program.sign(line)) is not None][:1]


def java(second: int, text: str, client: str = "c", instance: str = "") -> str:
    static = f"instanceId={instance}, " if instance else ""
    name = f"[Consumer {static}clientId={client}, groupId=g] "
    prefix = "" if text.startswith("Kafka version") else name
    return f"2026-11-27 09:26:{second:02}.000 [main] INFO o.a.k.c.c.internals.ConsumerCoordinator - {prefix}{text}"


def joined(generation: int, member: str) -> str:
    inner = f"generationId={generation}, memberId='{member}', protocol='range'"
    return f"Successfully joined group with generation Generation{{{inner}}}"


def python(second: int, text: str) -> str:
    return f"2026-11-27 09:26:{second:02},000 INFO kafka.coordinator {text}"


def aio(second: int, text: str) -> str:
    return f"2026-11-27 09:26:{second:02},000 INFO aiokafka.consumer.group_coordinator {text}"


def rd(second: int, text: str, client: str = "c") -> str:
    return f"%4|{at(second) // MS}.000|MAXPOLL|{client}#consumer-1| [thrd:main]: {text}"


MAXPOLL = "Application maximum poll interval (6500ms) exceeded by 391ms (adjust max.poll.interval.ms)"
EXPIRED = "consumer poll timeout has expired. This means the time between subsequent calls"
LEAVES = f"Member {M} sending LeaveGroup request to coordinator h:9092 (id: 1 rack: null) due to "


def history_of(*lines: str, file: str = "app.log") -> tuple[GroupHistory | None, ClientStory]:
    story = ClientStory(ClientLogs(signs(file, *lines)), "g")
    history = History()
    for event in story.events():
        assert problems(event) == []
        history.add(event)
    return history.groups.get("g"), story


# Ends of memberships


def test_a_missed_poll_is_the_reason_of_the_departure() -> None:
    logs = ClientLogs(
        signs("a.log", java(1, joined(1, M)), java(9, EXPIRED), java(9, LEAVES + "consumer poll timeout has expired."))
    )
    ending = logs.ending(M, at(9))
    assert ending is not None
    assert ending.reason == OVERRUN
    assert ending.sign.where == "a.log:2"
    assert logs.ending(N, at(9)) is None


def test_a_closed_consumer_says_so() -> None:
    logs = ClientLogs(signs("a.log", java(1, joined(1, M)), java(9, LEAVES + CLOSED)))
    ending = logs.ending(M, at(9))
    assert ending is not None
    assert ending.reason == CLOSED


def test_kafka_python_gives_no_reason_when_it_closes() -> None:
    logs = ClientLogs(
        signs(
            "a.log",
            python(1, f"Successfully joined group g <Generation 1 (member_id: {M}, protocol: range)>"),
            python(9, f"Leaving consumer group g (member {M})."),
        )
    )
    ending = logs.ending(M, at(9))
    assert ending is not None
    assert ending.reason == ""


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (["Revoking previously assigned partitions frozenset() for group g"], OVERRUN),
        (["OffsetCommit failed before join, ignoring: CommitFailedError"], OVERRUN),
        ([], ""),
    ],
)
def test_aiokafka_goes_on_after_a_missed_poll(after: list[str], reason: str) -> None:
    logs = ClientLogs(
        signs(
            "a.log",
            aio(1, f"Joined group 'g' (generation 1) with member_id {M}"),
            aio(9, "LeaveGroup request succeeded"),
            *(aio(9, text) for text in after),
        )
    )
    ending = logs.ending(M, at(9))
    assert ending is not None
    assert ending.reason == reason


def test_librdkafka_is_known_by_its_client_id_and_the_time() -> None:
    logs = ClientLogs(signs("a.log", rd(9, MAXPOLL)))
    ending = logs.ending(M, at(9) + 20)
    assert ending is not None
    assert ending.reason == OVERRUN
    assert logs.ending(M, at(30)) is None
    assert logs.ending(N, at(9)) is None


def test_librdkafka_may_miss_its_poll_after_it_lost_its_session() -> None:
    lost = rd(
        1,
        "Consumer group session timed out (in join-state steady) after 10000 ms without a successful response"
        " from the group coordinator",
    )
    (client,) = ClientLogs(signs("app.log", lost, rd(2, MAXPOLL))).clients
    assert [each.is_nameless for each in client.memberships] == [True, True]
    assert client.memberships[0].expulsion is not None
    assert [each.ending.reason for each in client.memberships if each.ending is not None] == [OVERRUN]


def test_two_processes_of_one_client_id_are_not_told_apart() -> None:
    logs = ClientLogs([*signs("a.log", rd(9, MAXPOLL)), *signs("b.log", rd(9, MAXPOLL))])
    assert logs.ending(M, at(9)) is None


# Clients


def test_a_version_in_the_middle_of_a_file_begins_another_client() -> None:
    logs = ClientLogs(
        signs(
            "a.log",
            java(0, "Kafka version: 3.9.2"),
            java(1, joined(1, M)),
            java(20, "Kafka version: 4.4.0"),
            java(21, joined(3, N)),
        )
    )
    assert [(each.version, each.name, each.library) for each in logs.clients] == [
        ("3.9.2", "c", Library.JAVA),
        ("4.4.0", "c", Library.JAVA),
    ]


def test_a_clock_in_another_zone_shows_by_full_quarters_of_an_hour() -> None:
    logs = ClientLogs(signs("a.log", java(1, joined(1, M)), java(9, joined(2, M))))
    quarter = 15 * 60 * MS
    assert logs.offsets({("g", 1): at(1) - 22 * quarter - 40, ("g", 2): at(9) - 22 * quarter + 3}) == {
        "a.log": 22 * quarter
    }
    assert logs.offsets({("g", 1): at(1) - 400}) == {}
    assert (
        offset_text("a.log", 22 * quarter)
        == "The clock of a.log is 5:30 h ahead of the broker's; its lines were moved."
    )


# A story of clients alone


def test_a_member_that_misses_its_poll_begins_the_rebalance() -> None:
    history, story = history_of(
        java(0, "(Re-)joining group"),
        java(1, joined(1, M)),
        java(1, joined(1, N), "d"),
        java(9, EXPIRED),
        java(10, "Request joining group due to: group is already rebalancing", "d"),
        java(10, "(Re-)joining group", "d"),
        java(11, joined(2, N), "d"),
    )
    assert history is not None
    assert [(each.cause, each.trigger) for each in history.rebalances] == [
        (Cause.NEW_MEMBER, M),
        (Cause.POLL_TIMEOUT_REASON, M),
    ]
    assert story.cannot_tell == []


LEADS = "Finished assignment for group at generation 1: "


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_group_is_empty_only_if_all_members_of_the_leaders_list_left(is_whole: bool) -> None:
    others = "" if is_whole else f", {N}=Assignment(partitions=[t-1])"
    history, _ = history_of(
        java(1, joined(1, M)),
        java(1, f"{LEADS}{{{M}=Assignment(partitions=[t-0]){others}}}"),
        java(9, LEAVES + CLOSED),
        java(20, "(Re-)joining group", "d"),
        java(21, joined(3, N), "d"),
    )
    assert history is not None
    assert [each.initial for each in history.rebalances] == [True] + ([False, True] if is_whole else [False])


def test_an_innocent_follower_cannot_tell_the_cause() -> None:
    history, story = history_of(
        java(0, "(Re-)joining group"),
        java(1, joined(1, M)),
        java(9, "Request joining group due to: group is already rebalancing"),
        java(9, "(Re-)joining group"),
        java(10, joined(2, M)),
    )
    assert history is not None
    assert [each.cause for each in history.rebalances] == [Cause.NEW_MEMBER, ""]
    assert story.cannot_tell == [NO_CAUSE]


def test_a_refused_client_has_no_rebalance_but_a_refusal() -> None:
    history, _ = history_of(
        java(1, joined(1, N), "d"),
        java(2, "JoinGroup failed due to fatal error: The group member's supported protocols are incompatible with"),
    )
    assert history is not None
    assert [each.client_id for each in history.refusals.refused.values()] == ["c"]


def test_two_processes_with_one_instance_id_fence_each_other() -> None:
    history, _ = history_of(
        java(1, joined(1, M), "c", "i-1"),
        java(5, joined(1, N), "d", "i-1"),
        java(6, "JoinGroup failed: The group instance id i-1 has been fenced by another instance", "c", "i-1"),
    )
    assert history is not None
    assert history.members[M].how == "fenced"
    assert history.refusals.twice["i-1"].is_fight


def test_librdkafka_alone_tells_of_a_missed_poll_without_names() -> None:
    history, story = history_of(rd(9, MAXPOLL), rd(20, MAXPOLL))
    assert history is not None
    assert [(each.cause, each.trigger) for each in history.rebalances] == [(Cause.POLL_TIMEOUT_REASON, "c")] * 2
    assert story.cannot_tell == [NO_NAMES]


def test_lines_without_stamps_tell_no_story() -> None:
    history, _ = history_of(
        f"INFO:kafka.coordinator:Successfully joined group g <Generation 1 (member_id: {M}, protocol: r)>"
    )
    assert history is None


def test_lines_of_a_group_without_a_rebalance_are_no_calm(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("2026-11-27 09:26:06 [INFO] heartbeat errored; group: g, err: REBALANCE_IN_PROGRESS: rejoin\n")
    for group in ([], ["g"]):
        done = CliRunner().invoke(cli, ["why", *group, "--log", str(log)])
        assert done.exit_code == 4
        assert "show the begin and the end of no rebalance. That does not say that it had none" in done.stderr


def why(tmp_path: Path, *lines: str) -> str:
    log = tmp_path / "app.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    done = CliRunner().invoke(cli, ["why", "--log", str(log), "--no-replay", "--utc"])
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


LOST = "kafka.coordinator - WARNING - Heartbeat session expired, marking coordinator dead"
JOINS = "kafka.coordinator - INFO - (Re-)joining group g"


def test_a_lost_session_at_the_end_of_a_log_without_member_ids_is_no_calm(tmp_path: Path) -> None:
    text = why(
        tmp_path,
        f"2026-11-27 09:26:02,491 - {JOINS}",
        "2026-11-27 09:26:05,582 - kafka.coordinator - INFO - Successfully joined group g with generation 220",
        f"2026-11-27 09:29:37,880 - {LOST}",
    )
    assert "the client of app.log sent no heartbeat for its session timeout, once: it died or stood still." in text
    assert "silent; the log ends then -> find out why it died, or stood still" in text


def test_a_log_that_begins_with_a_lost_session_does_not_begin_with_a_start(tmp_path: Path) -> None:
    text = why(
        tmp_path,
        f"2026-11-27 09:26:45,363 - {LOST}",
        "2026-11-27 09:26:49,495 - kafka.coordinator - WARNING - Heartbeat: local member_id was not recognized; this",
        f"2026-11-27 09:26:49,496 - {JOINS}",
        "2026-11-27 09:26:49,600 - kafka.coordinator - INFO - Successfully joined group g with generation 5",
    )
    assert "Rebalanced once: the client of app.log sent no heartbeat" in text
    assert "silent, and back 4.2 s later" in text


def test_a_lost_session_in_the_layout_of_faust_names_the_file(tmp_path: Path) -> None:
    text = why(tmp_path, "[2026-11-27 09:26:01,117: ERROR]: Heartbeat session expired - marking coordinator dead")
    assert "the client of app.log sent no heartbeat for its session timeout" in text
    assert "generations and member ids; add the broker's log" in text


EXPELLED = (
    '{{"level":"ERROR","timestamp":"2026-11-27T{at}Z","logger":"kafkajs","groupId":"g","memberId":"mailer-{member}",'
    '"message":"[Runner] The coordinator is not aware of this member, re-joining the group",'
    '"error":"The coordinator is not aware of this member"}}'
)


def test_a_member_that_the_coordinator_forgot_is_no_calm(tmp_path: Path) -> None:
    uuids = ("5d0f8d3e-6f0e-4a77-9f5b-0c53f5b0b0a1", "5d0f8d3e-6f0e-4a77-9f5b-0c53f5b0b0a2")
    text = why(
        tmp_path,
        EXPELLED.format(at="09:26:00.000", member=uuids[0]),
        EXPELLED.format(at="09:31:00.000", member=uuids[1]),
    )
    assert "Rebalanced 2 times in 5 min: mailer sent no heartbeat for its session timeout and came back, 2" in text
    assert "mailer, client: sessionTimeout unknown -> longer than it stood still" in text


def test_a_departure_that_names_the_poll_is_a_missed_poll_without_any_other_line(tmp_path: Path) -> None:
    front = "2026-11-27 09:26:06.123 WARN 1 --- [ntainer#0-0-C-1] o.a.k.c.c.internals.AbstractCoordinator : "
    leaves = "[Consumer clientId=mail-0, groupId=g] Member mail-0-5d0f sending LeaveGroup request to coordinator k:9092"
    due = " (id: 2147483646 rack: null) due to consumer poll timeout has expired. This means the time between polls was"
    text = why(tmp_path, f"{front}{leaves}{due}")
    assert "mail-0 left when its poll interval was over, once: its application did not poll" in text
    assert "max.poll.interval.ms not in the log -> longer than its longest batch" in text


@pytest.mark.parametrize("times", [3, 40])
def test_a_client_that_repeats_its_complaint_lost_one_session(tmp_path: Path, times: int) -> None:
    lost = "[2026-11-27 09:26:{:06.3f}: ERROR]: Heartbeat session expired - marking coordinator dead"
    unknown = "[2026-11-27 09:26:{}: WARNING]: Heartbeat failed: local member_id was not recognized; resetting and"
    text = why(tmp_path, unknown.format("01.100"), *(lost.format(1.2 + each * 0.2) for each in range(times)))
    assert "Rebalanced once: the client of app.log sent no heartbeat for its session timeout" in text
    # Three consumers of one process may lose their sessions at once.
    assert ("aiokafka of unknown version -> 0.5.1 or later, if it is older than 0.5.1" in text) == (times > 3)


WORKER = "[2026-11-27 09:26:{},400] INFO [Worker clientId=loader-1, groupId=loaders] {} (a.b.WorkerCoordinator:1)"
IN = "Successfully joined group with generation Generation{{generationId={}, memberId='loader-1-5d0f', protocol='s'}}"


def test_a_log_that_begins_in_a_rebalance_does_not_begin_with_a_start(tmp_path: Path) -> None:
    text = why(
        tmp_path,
        WORKER.format("01", "Request joining group due to: rebalance failed due to 'x' (RebalanceInProgressException)"),
        WORKER.format("01", "(Re-)joining group"),
        WORKER.format("02", IN.format(4711)),
    )
    assert "Rebalanced once: no line of the log says why." in text
    assert "Cannot tell from this source: why the group rebalanced; add the broker's log." in text


def test_a_member_whose_first_line_lacks_its_id_is_not_gone_with_the_next(tmp_path: Path) -> None:
    text = why(
        tmp_path,
        WORKER.format("01", "Joined group at generation 8 with protocol version 2 and got assignment"),
        WORKER.format("07", "(Re-)joining group"),
        WORKER.format("08", IN.format(9)),
    )
    assert "SESSION_EXPIRED" not in text
    assert "Rebalanced 2 times in 7.0 s: no line of the log says why." in text


def test_a_fault_is_named_by_lines_without_a_member_id(tmp_path: Path) -> None:
    synced = "November 27th 2026, 09:26:{} Successfully synced group g with generation {}"
    text = why(tmp_path, synced.format("06.100", 12), synced.format("06.101", -1))
    assert "aiokafka of unknown version -> 0.7.1 or later, if it is older than 0.7.1" in text


def test_a_group_that_was_only_loaded_is_no_calm(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-27 09:26:06,006] INFO [GroupCoordinator 1]: Loading group metadata for g with generation 1"
        " (kafka.coordinator.group.GroupCoordinator)\n"
        "[2026-11-27 09:26:09,006] ERROR given member.id i-2 is identified as a known static member i,but not matching"
        " the expected member.id i-1 (kafka.coordinator.group.GroupMetadata)\n"
    )
    done = CliRunner().invoke(cli, ["why", "g", "--log", str(log)])
    assert done.exit_code == 4
    assert "The lines about g show no rebalance. That does not say that it had none" in done.stderr


def test_kafkajs_has_generations_by_their_times(tmp_path: Path) -> None:
    joined = (
        '{{"groupId":"g","isLeader":true,"level":"INFO","memberId":"c-{member}","timestamp":"2026-11-27T{at}Z",'
        '"message":"[ConsumerGroup] Consumer has joined the group"}}}}'
    )
    text = why(
        tmp_path,
        joined.format(member="a", at="09:26:00.000"),
        joined.format(member="b", at="09:26:00.100"),
        joined.format(member="a", at="09:36:00.000"),
    )
    assert "Rebalanced 2 times in 10 min" in text


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-27T09:26:06Z WARN  rdkafka::client] librdkafka: MAXPOLL [thrd:main]: {}",
        "W, [2026-11-27T09:26:06.005406 #46437]  WARN -- : rdkafka: [thrd:main]: {}",
        "2026-11-27T09:26:06.525282448Z Warning | [thrd:main]: {}",
    ],
)
def test_a_missed_poll_is_read_through_the_loggers_of_other_languages(tmp_path: Path, line: str) -> None:
    text = "Application maximum poll interval (300000ms) exceeded by 399ms (adjust max.poll.interval.ms): leaving group"
    answer = why(tmp_path, line.format(text))
    assert "the client of app.log left when its poll interval was over, once" in answer
    assert "max.poll.interval.ms 300000 -> longer than" in " ".join(answer.split())


def test_expired_members_without_a_rebalance_are_no_calm(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-27 09:26:06,006] INFO [GroupCoordinator 0]: Member c-1 in group g has failed, removing it from"
        " the group (kafka.coordinator.group.GroupCoordinator)\n"
    )
    listed = CliRunner().invoke(cli, ["why", "--log", str(log)])
    asked = CliRunner().invoke(cli, ["why", "g", "--log", str(log)])
    assert (listed.exit_code, asked.exit_code) == (4, 4)
    assert "1 member left or expired in g, but the lines of the rebalance are not there" in asked.stderr
