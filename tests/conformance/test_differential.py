"""The differential mode: scripts, differences that count, and a shrunk one."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from kafka_shim.apis.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from kafka_shim.apis.heartbeat import HeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.conformance.differential import run as differential
from kafka_shim.conformance.differential.compare import Difference, Outcome, compare
from kafka_shim.conformance.differential.play import Answer, Player, Transcript
from kafka_shim.conformance.differential.run import LONGER_QUIETS, QUIET, Pair, run, shortest, started
from kafka_shim.conformance.differential.script import Script, Step, entrance, formation
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.targets import Instance, TargetError, open_target
from kafka_shim.conformance.wire import NoAnswer

STATE = HeartbeatResponse()


def transcript(*codes: int) -> Transcript:
    return Transcript(
        [Answer(at, at, 0, HeartbeatResponse(5, code)) for at, code in enumerate(codes)], [STATE] * len(codes)
    )


def test_the_first_different_answer_counts() -> None:
    script = (Step("heartbeat"), Step("heartbeat"), Step("heartbeat"))
    difference = compare(script, transcript(25, 0, 0), transcript(25, 27, 22), "g").difference
    assert difference is not None
    assert difference.step == 1
    assert difference.kind == "heartbeat: error_code 0 / 27"


def test_times_do_not_count() -> None:
    first, second = transcript(0), transcript(0)
    second.answers[0].message.throttle_time_ms = 99
    assert compare((Step("heartbeat"),), first, second, "g").difference is None


def test_only_a_superseded_request_may_stay_unanswered() -> None:
    script = (Step("join"), Step("join"))
    answered = Transcript([Answer(0, 1, 0, HeartbeatResponse(0, 27))], [STATE] * 2)
    silent = Transcript([], [STATE] * 2)
    assert compare(script, answered, silent, "g").difference is None
    assert compare((Step("join"), Step("heartbeat")), answered, silent, "g").difference is not None


def test_a_sync_of_a_former_member_may_stay_unanswered() -> None:
    answered = Transcript([Answer(0, 1, 0, HeartbeatResponse(0, 25))], [STATE] * 2)
    silent = Transcript([], [STATE] * 2)
    assert compare((Step("sync"), Step("leave")), answered, silent, "g").difference is None
    assert compare((Step("sync"), Step("heartbeat")), answered, silent, "g").difference is not None
    assert compare((Step("join"), Step("leave")), answered, silent, "g").difference is not None


def test_the_leader_of_a_converted_group_is_a_free_choice() -> None:
    answered = Transcript([Answer(1, 1, 0, JoinGroupResponse(leader="m1"))], [STATE] * 2)
    silent = Transcript([], [STATE] * 2)
    assert compare((Step("enter"), Step("join")), answered, silent, "g") == Outcome(None, 1)
    assert compare((Step("heartbeat"), Step("join")), answered, silent, "g").difference is not None


@pytest.mark.parametrize(
    ("do", "code", "ends"), [("stream-join", 111, True), ("enter", 111, False), ("stream-join", 110, False)]
)
def test_what_follows_a_fault_of_kafka_with_static_members_does_not_count(do: str, code: int, ends: bool) -> None:
    outcome = compare((Step(do), Step("heartbeat")), transcript(code, 0), transcript(code, 25), "g")
    assert (outcome == Outcome(None, 1)) == ends
    assert (outcome.difference is None) == ends


def test_a_refusal_of_one_target_alone_counts() -> None:
    assert compare((Step("stream-join"),), transcript(111), transcript(0), "g").difference is not None


def described(*shares: list[int], epoch: int = 1) -> Any:
    members = [
        Member(
            member_id=f"m{number}",
            member_epoch=epoch,
            assignment=Assignment([TopicPartitions(partitions=share)]),
        )
        for number, share in enumerate(shares)
    ]
    return Transcript([], [[DescribedGroup(members=members)]])


def test_the_choice_of_partitions_is_not_a_difference() -> None:
    assert compare((Step("beat"),), described([0, 1], [2]), described([1, 2], [0]), "g") == Outcome(None, 1)


def test_a_script_ends_where_members_have_different_numbers_of_partitions() -> None:
    assert compare((Step("beat"),), described([0, 1], [2]), described([0], [1, 2]), "g") == Outcome(None, 0)


def test_an_epoch_counts_as_long_as_members_have_the_same_partitions() -> None:
    later = described([0], [1], epoch=2)
    assert compare((Step("beat"),), described([0], [1]), later, "g").difference is not None
    assert compare((Step("beat"),), described([1], [0]), later, "g") == Outcome(None, 0)


@pytest.fixture(scope="module")
def ours() -> Iterator[Pair]:
    targets = open_target("shim"), open_target("shim")
    try:
        yield Pair(started(targets[0]), started(targets[1]))
    finally:
        for target in targets:
            target.stop()


def compared(pair: Pair, script: Script) -> tuple[Difference | None, int]:
    """Compare as a run does: a difference counts if it is there with every longer quiet time too."""
    for quiet in (QUIET, *LONGER_QUIETS):
        difference, steps = pair.compare(script, quiet)
        if difference is None:
            break
    return difference, steps


def test_a_formation_brings_its_members_together(ours: Pair) -> None:
    script = tuple(formation((0, 1, 2), False, 99, 0, 0))
    difference, steps = compared(ours, script)
    assert difference is None
    assert steps == len(script)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_an_entrance_gives_every_member_its_share(ours: Pair, kind: str) -> None:
    script = (*entrance(kind, (0, 1), 99, 0, 3), Step("list"))
    difference, steps = compared(ours, script)
    assert difference is None
    assert steps == len(script)
    group = f"{kind}-{id(script)}"
    transcript = Player(ours.peers[0], group, ours.versions, QUIET).play(script)
    beats = [answer.message for answer in transcript.answers if answer.sent >= 2 and answer.sent < len(script) - 1]
    assert {message.error_code for message in beats} == {0}
    assert len({message.member_epoch for message in beats[-2:]}) == 1
    group_description = next(each for each in transcript.states[-1] if each.error_code == 0)
    assert len(group_description.members) == 2
    for member in group_description.members:
        assignment = member.assignment
        parts = assignment.active_tasks if kind == "streams" else assignment.topic_partitions
        assert sum(len(each.partitions) for each in parts) == 30


@pytest.mark.second_stage("two servers")
def test_two_shims_have_no_difference() -> None:
    report = run((open_target("shim"), open_target("shim")), 6, seed=1, jobs=6)
    assert report.scripts >= 6
    assert report.findings == []
    assert report.steps > report.scripts


def test_a_difference_is_shrunk_to_the_step_that_shows_it(ours: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    class Misheard(Player):
        """Changes the answers of one of two coordinators: heartbeats of unknown members are answered 22."""

        def play(self, script: Script) -> Transcript:
            transcript = super().play(script)
            for answer in transcript.answers if self._peer is ours.peers[0] else ():
                if isinstance(answer.message, HeartbeatResponse) and answer.message.error_code == 25:
                    answer.message.error_code = 22
            return transcript

    monkeypatch.setattr(differential, "Player", Misheard)
    script = (*formation((0, 1), False, 99, 0, 0), Step("heartbeat", who="unknown"), Step("commit"))
    difference = ours.confirmed(script)
    assert difference is not None
    shrunk, difference = shortest(ours, (script, difference), difference.kind)
    assert [step.do for step in shrunk] == ["heartbeat"]
    assert difference.kind == "heartbeat: error_code 22 / 25"


class Moving(Player):
    """Answers the scripts on the second of two coordinators as a broker that coordinates no more, `times` times."""

    times: ClassVar[float]
    absent: ClassVar[Peer]

    def play(self, script: Script) -> Transcript:
        transcript = super().play(script)
        if self._peer is self.absent and Moving.times > 0:
            Moving.times -= 1
            for answer in transcript.answers:
                answer.message.error_code = 16
                self.tape.record("m0", "=", b"", f"HeartbeatResponse {answer.message}")
        return transcript


def test_a_script_is_played_again_when_the_coordinator_is_back(ours: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[Instance] = []
    Moving.times, Moving.absent = 2, ours.peers[1]
    monkeypatch.setattr(differential, "Player", Moving)
    monkeypatch.setattr(differential, "probe", awaited.append)
    assert ours.compare((Step("heartbeat", who="unknown"),), QUIET) == (None, 1)
    assert awaited == [ours.peers[1].instance] * 2


def test_a_target_that_never_coordinates_differs(ours: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    Moving.times, Moving.absent = float("inf"), ours.peers[1]
    monkeypatch.setattr(differential, "Player", Moving)
    difference, _ = ours.compare((Step("heartbeat", who="unknown"),), QUIET)
    assert difference is not None
    assert difference.kind == "heartbeat: error_code 25 / 16"


class Slow(Moving):
    """Has no answer to the description of the group on one of two coordinators, `times` times."""

    def _settled(self) -> Any:
        if self._peer is self.absent and Moving.times > 0:
            Moving.times -= 1
            raise NoAnswer("no answer on connection aside.0 within 10.0 s")
        return super()._settled()

    def play(self, script: Script) -> Transcript:
        return Player.play(self, script)


def test_a_script_is_played_again_when_the_group_was_not_described(ours: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    Moving.times, Moving.absent = 1, ours.peers[0]
    monkeypatch.setattr(differential, "Player", Slow)
    before = ours.repeated.total()
    assert ours.compare((Step("heartbeat", who="unknown"),), QUIET) == (None, 1)
    assert ours.repeated.total() == before + 1


def test_a_target_that_never_describes_the_group_ends_the_run(ours: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    Moving.times, Moving.absent = float("inf"), ours.peers[1]
    monkeypatch.setattr(differential, "Player", Slow)
    with pytest.raises(TargetError, match=r"kafka-shim, store memory: is too slow: no answer on connection aside\.0"):
        ours.compare((Step("heartbeat", who="unknown"),), QUIET)
