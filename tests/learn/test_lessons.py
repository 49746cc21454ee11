"""Every lesson is played to its end, with every answer; what it claims is checked against the trace."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.commands.learn import learn
from kafka_shim.learn.lesson import Lesson, Unteachable, find, ours, parse
from kafka_shim.learn.scene import Scene
from kafka_shim.learn.teaching import play, right_option

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [lesson for lesson in ours() if not lesson.client]
"""Those with puppets; the others are in `test_client_lessons.py`."""
SCRIPT = """+++
title = "A lesson"
minutes = 1
sources = []
+++
Hello.

## A step

Before.

```toml
ask = "What happens?"
do = ["A joins", "wait 1"]
%s
[[options]]
text = "It is Stable"
when = { state = "Stable" }
[[options]]
text = "It is Empty"
when = { state = "Empty" }
reply = "A joined."
```

After.
"""


def shown(lesson: Lesson, answer: int | None = None) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for each in play(lesson, lambda step: answer)]


def test_there_are_fifteen_and_each_asks() -> None:
    assert len(LESSONS) >= 15
    assert [lesson.number for lesson in ours()] == list(range(1, len(ours()) + 1))
    assert all(any(step.ask for step in lesson.steps) for lesson in LESSONS)
    claims = [step for lesson in LESSONS for step in lesson.steps if step.happens or step.never or step.holds]
    assert len(claims) >= 2 * len(LESSONS)


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.name for lesson in LESSONS])
def test_a_lesson_is_played_to_its_end_with_every_answer(lesson: Lesson) -> None:
    first = shown(lesson)
    questions = [step for step in lesson.steps if step.ask]
    assert sum(kind == "right" for kind, _ in first) == len(questions)
    for answer in range(max(len(step.options) for step in questions)):
        answered = [step for step in questions if answer < len(step.options)]
        if len(answered) == len(questions):
            kinds = [(kind, text) for kind, text in shown(lesson, answer) if kind in ("right", "wrong")]
            wrong = [text for kind, text in kinds if kind == "wrong"]
            right = [text for kind, text in kinds if text.startswith("Right: ")]
            assert len(wrong) + len(right) == len(questions), "every wrong option has a reply"


@pytest.mark.parametrize("lesson", ours(), ids=[lesson.name for lesson in ours()])
def test_its_sources_can_be_opened(lesson: Lesson) -> None:
    assert lesson.sources
    for source in lesson.sources:
        page, _, section = source.partition(" ")
        if not source.startswith("https://"):
            text = (ROOT / page).read_text()
            assert not section or re.search(rf"^#+ {re.escape(section)} ", text, re.M), source


@pytest.mark.parametrize(
    "claim",
    [
        'happens = [{ event = "member", change = "expired" }]',
        'happens = [{ event = "exchange", api = "JoinGroup", times = 3 }]',
        'never = [{ event = "exchange", api = "JoinGroup", error = 0 }]',
        'holds = [{ owned = { A = ["orders-0"] } }]',
        "holds = [{ members = { min = 2 } }]",
    ],
)
def test_a_claim_that_is_not_so_ends_the_lesson(claim: str) -> None:
    assert ("right", "What happens: It is Stable") in shown(parse(SCRIPT % "", "mine"))
    with pytest.raises(Unteachable, match="it is claimed"):
        shown(parse(SCRIPT % claim, "mine"))


def test_exactly_one_option_is_right() -> None:
    both = SCRIPT.replace('state = "Empty"', 'state = "Stable"')
    with pytest.raises(Unteachable, match="exactly one option should be so"):
        shown(parse(both % "", "mine"))
    lesson = parse(SCRIPT % "", "mine")
    scene = Scene()
    with pytest.raises(Unteachable, match="these are: none"):
        right_option(scene, lesson.steps[0])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# A page", "front matter"),
        (SCRIPT.replace("minutes", "hours") % "", "A field"),
        (SCRIPT.replace("```toml", "```") % "", "has 0 blocks"),
    ],
)
def test_a_file_that_is_no_lesson_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Unteachable, match=sentence):
        parse(text, "mine")


def test_a_line_that_nobody_can_do_is_refused() -> None:
    for line in (
        "A dances",
        "wait long",
        "broker 9 dies",
        "until { members = 1 }",
        "until x",
        "A sends Nothing",
        "A commits",
        "fault {action='x'}",
    ):
        with pytest.raises(Unteachable, match="cannot be done"):
            Scene().do(line)


def test_a_scene_goes_on_until_something_is_so() -> None:
    scene = Scene()
    scene.do("A joins")
    scene.do("until { event = 'assignment', generation = 1 }")
    assert scene.fits({"state": "Stable"})
    assert scene.since_beginning(scene.simulation.now) < 1
    scene.do("A crashes")
    scene.do("until { event = 'member', who = 'A', change = 'expired' }")
    assert 40 < scene.since_beginning(scene.simulation.now) < 50


def test_the_command(tmp_path: Path) -> None:
    def output(*words: str) -> str:
        done = CliRunner().invoke(learn, words)
        assert done.exit_code == 0
        return done.output

    assert all(lesson.name in output() for lesson in LESSONS)
    fencing = output("fencing")
    assert "is expelled: not heard of for its session timeout" in fencing
    assert "generation_id" in fencing
    assert "What happens: UNKNOWN_MEMBER_ID (25)" in fencing
    assert " * 3  UNKNOWN_MEMBER_ID (25)" in output("3", "--solutions")
    mine = tmp_path / "mine.md"
    mine.write_text(SCRIPT % "")
    assert output(str(mine), "--check") == "mine: every claim holds.\n"


def test_what_a_lesson_claims_wrongly_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    mine = tmp_path / "mine.md"
    mine.write_text(SCRIPT % 'holds = [{ state = "Empty" }]')
    command = [sys.executable, "-m", "kafka_shim", "learn", str(mine), "--check"]
    failed = subprocess.run(command, capture_output=True, text=True)
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert "it is claimed that this is so: {'state': 'Empty'}" in failed.stderr


def test_one_is_found_by_number_and_by_name() -> None:
    assert find("1") == find("two-phases") == LESSONS[0]


def test_the_example_of_the_documentation_is_a_lesson() -> None:
    example = re.search(r"````markdown\n(.*?)````", (ROOT / "docs/lessons.md").read_text(), re.S)
    assert example is not None
    assert ("right", "What happens: After 10 s") in shown(parse(example[1], "mine"))
