"""Every lesson runs to its end with every answer; the trace proves its claims."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.commands.learn import learn
from kafka_shim.conformance.sources import citations, cited_rules
from kafka_shim.learn.lesson import Lesson, Unteachable, find, ours, parse
from kafka_shim.learn.scene import Scene
from kafka_shim.learn.teaching import play, right_option

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [lesson for lesson in ours() if not lesson.client]
"""Lessons with puppets; the others are in `test_client_lessons.py`."""
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


def output_of(lesson: Lesson, answer: int | None = None) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for each in play(lesson, lambda step: answer)]


def test_fifteen_lessons_each_ask_a_question() -> None:
    assert len(LESSONS) >= 15
    assert [lesson.number for lesson in ours()] == list(range(1, len(ours()) + 1))
    assert all(any(step.ask for step in lesson.steps) for lesson in LESSONS)
    claims = [step for lesson in LESSONS for step in lesson.steps if step.happens or step.never or step.holds]
    assert len(claims) >= 2 * len(LESSONS)


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.name for lesson in LESSONS])
def test_a_lesson_is_played_to_its_end_with_every_answer(lesson: Lesson) -> None:
    first = output_of(lesson)
    questions = [step for step in lesson.steps if step.ask]
    assert sum(kind == "right" for kind, _ in first) == len(questions)
    for answer in range(max(len(step.options) for step in questions)):
        answered = [step for step in questions if answer < len(step.options)]
        if len(answered) == len(questions):
            kinds = [(kind, text) for kind, text in output_of(lesson, answer) if kind in ("right", "wrong")]
            wrong = [text for kind, text in kinds if kind == "wrong"]
            right = [text for kind, text in kinds if text.startswith("Right: ")]
            assert len(wrong) + len(right) == len(questions), "every wrong option has a reply"


@pytest.mark.parametrize("lesson", ours(), ids=[lesson.name for lesson in ours()])
def test_the_sources_of_a_lesson_exist(lesson: Lesson) -> None:
    assert lesson.sources
    for source in lesson.sources:
        if citations(source):
            assert all(map(cited_rules, citations(source))), source
        else:
            assert source.startswith("https://") or (ROOT / source).exists(), source


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
def test_a_false_claim_ends_the_lesson(claim: str) -> None:
    assert ("right", "What happens: It is Stable") in output_of(parse(SCRIPT % "", "mine"))
    with pytest.raises(Unteachable, match="a claim of"):
        output_of(parse(SCRIPT % claim, "mine"))


def test_exactly_one_option_is_right() -> None:
    both = SCRIPT.replace('state = "Empty"', 'state = "Stable"')
    with pytest.raises(Unteachable, match="exactly one option should be right"):
        output_of(parse(both % "", "mine"))
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
def test_a_file_without_lesson_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Unteachable, match=sentence):
        parse(text, "mine")


def test_an_impossible_line_is_refused() -> None:
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


def test_a_scene_continues_until_its_condition_holds() -> None:
    scene = Scene()
    scene.do("A joins")
    scene.do("until { event = 'assignment', generation = 1 }")
    assert scene.fits({"state": "Stable"})
    assert scene.since_beginning(scene.simulation.now) < 1
    scene.do("A crashes")
    scene.do("until { event = 'member', who = 'A', change = 'expired' }")
    assert 40 < scene.since_beginning(scene.simulation.now) < 50


def test_learn_command_plays_lessons(tmp_path: Path) -> None:
    def output(*words: str) -> str:
        done = CliRunner().invoke(learn, words)
        assert done.exit_code == 0
        return done.output

    assert all(lesson.name in output() for lesson in LESSONS)
    fencing = output("fencing")
    assert "is expelled: it sent no heartbeat within its session timeout" in fencing
    assert "generation_id" in fencing
    assert "What happens: UNKNOWN_MEMBER_ID (25)" in fencing
    assert " * 3  UNKNOWN_MEMBER_ID (25)" in output("3", "--solutions")
    mine = tmp_path / "mine.md"
    mine.write_text(SCRIPT % "")
    assert output(str(mine), "--check") == "mine: every claim holds.\n"


def test_a_wrong_claim_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    mine = tmp_path / "mine.md"
    mine.write_text(SCRIPT % 'holds = [{ state = "Empty" }]')
    command = [sys.executable, "-m", "kafka_shim", "learn", str(mine), "--check"]
    failed = subprocess.run(command, capture_output=True, text=True)
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert "a claim of 'holds' fails: {'state': 'Empty'}" in failed.stderr


def test_find_accepts_number_and_name() -> None:
    assert find("1") == find("two-phases") == LESSONS[0]


def test_the_example_of_the_documentation_is_a_lesson() -> None:
    example = re.search(r"````markdown\n(.*?)````", (ROOT / "docs/lessons.md").read_text(), re.S)
    assert example is not None
    assert ("right", "What happens: After 10 s") in output_of(parse(example[1], "mine"))


ACTED = """+++
title = "Mine"
minutes = 1
sources = ["semantics 2.7"]
+++
Act.

## It is yours

```toml
do = ["A joins", "wait 5"]
goal = { state = "Stable", members = 1 }
```
"""


def acted(*lines: str) -> list[tuple[str, str]]:
    typed = iter(lines)
    return [(each.kind, each.text) for each in play(parse(ACTED, "mine"), lambda _: None, lambda _: next(typed))]


def test_the_learner_acts_until_the_goal_is_reached() -> None:
    output = acted("A jions", "wait 1", "A joins", "wait 5")
    wrong = [text for kind, text in output if kind == "wrong"]
    assert "did you mean joins?" in wrong[0]
    assert wrong[1] == "Not yet: state is 'Dead', members is 0"
    assert ("right", "You did it.") in output


def test_an_empty_line_plays_the_solution() -> None:
    output = acted("")
    assert ("option", "A joins\nwait 5") in output
    assert ("right", "You did it.") not in output


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("A joins", "A crshes", "Line 11, step 'It is yours': 'A crshes' cannot be done: .*did you mean crashes?"),
        ("A joins", "B leaves", "Line 11, .*there is no member B .there is none yet"),
        ("members = 1", "members = 2", r"Line 12, .*'goal' fails: .*\(state is 'Stable', members is 1\)"),
        ("goal =", "gaol =", "Line 11, .*has no field gaol; did you mean goal"),
        ('"wait 5"]', '"wait 5"', "Line 1[12], "),
    ],
)
def test_a_mistake_of_an_author_has_a_line_and_a_suggestion(wrong: str, right: str, message: str) -> None:
    with pytest.raises(Unteachable, match=message):
        list(play(parse(ACTED.replace(wrong, right), "mine"), lambda _: None))


def test_every_question_has_three_options() -> None:
    few = [(lesson.name, step.title) for lesson in ours() for step in lesson.steps if 0 < len(step.options) < 3]
    assert few == []
