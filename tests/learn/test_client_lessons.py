"""Lessons with real clients are played, each by consumers of a library in processes of their own."""

from __future__ import annotations

import threading

import pytest

from kafka_shim.learn.clients import ClientScene
from kafka_shim.learn.lesson import Lesson, Unteachable, ours
from kafka_shim.learn.member import CLIENTS
from kafka_shim.learn.teaching import play

pytestmark = pytest.mark.second_stage("real clients")

LESSONS = [lesson for lesson in ours() if lesson.client]


def test_three_client_lessons_have_every_library() -> None:
    assert len(LESSONS) >= 3
    words = {word for lesson in LESSONS for step in lesson.steps for line in step.do for word in line.split()}
    assert {lesson.client for lesson in LESSONS} | {word.removeprefix("client=") for word in words} >= set(CLIENTS)


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.name for lesson in LESSONS])
def test_a_lesson_is_played_to_its_end_and_every_claim_holds(lesson: Lesson) -> None:
    # The reader takes the first answer, which has a reply unless it is right.
    answers = [(each.kind, each.text) for each in play(lesson, lambda step: 0)]
    questions = [step for step in lesson.steps if step.ask]
    assert sum(kind == "right" for kind, _ in answers) == len(questions)
    wrong = [step.options[0].reply for step in questions if ("right", f"Right: {step.options[0].text}") not in answers]
    assert all(wrong)
    assert "lesson" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_leaves_and_another_crashes_or_falls_silent(client: str) -> None:
    with ClientScene(client=client) as scene:
        scene.do("A joins session=6")
        scene.do("until { state = 'Stable', members = 1, balance = [4] }")
        scene.do("B joins session=6 instance=b")
        scene.do("until { state = 'Stable', balance = [2, 2] }")
        scene.do("A leaves")
        scene.do("until { event = 'member', who = 'A', change = 'left' }")
        scene.do("until { state = 'Stable', members = 1 }")
        scene.do("B falls-silent" if client == "aiokafka" else "B crashes")
        scene.do("until { event = 'member', who = 'B', change = 'expired' }")
        assert scene.frames_of("LeaveGroup", "A").api == "LeaveGroup"
        with pytest.raises(Unteachable, match="has sent no LeaveGroup"):
            scene.hex("LeaveGroup", "B")


def done(scene: dict[str, str], line: str) -> None:
    with ClientScene(**scene) as scene_of_clients:
        scene_of_clients.do(line)
        scene_of_clients.do("until { members = 1 }")


@pytest.mark.parametrize(
    ("scene", "line", "sentence"),
    [
        ({"client": "sarama"}, "", "has clients of kafka-python, aiokafka, confluent-kafka, not of sarama"),
        ({"client": "aiokafka"}, "A joins never-syncs", "real clients have no option never-syncs"),
        ({"client": "aiokafka"}, "A commits orders-0=1", "cannot be done"),
        ({"client": "aiokafka"}, "A joins protocols=of-my-own", "A has ended: KeyError: 'of-my-own'"),
    ],
)
def test_impossible_client_option_is_one_sentence(scene: dict[str, str], line: str, sentence: str) -> None:
    with pytest.raises(Unteachable, match=sentence):
        done(scene, line)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.learn.clients.find_spec", lambda name: None)
    with pytest.raises(Unteachable, match=r"needs aiokafka, which is not installed: pip install aiokafka\."):
        ClientScene(client="aiokafka")
