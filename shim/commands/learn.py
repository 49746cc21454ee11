"""`kafka-shim learn`: lessons in the terminal.

Decides how a lesson looks, and from where an answer comes. What a lesson is and does is `learn/`'s.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from kafka_shim.learn.lesson import Lesson, Step, Unteachable, find, ours
from kafka_shim.learn.scene import Scene
from kafka_shim.learn.teaching import Shown, play, right_option, scene_of

WIDTH = 100
STYLES = {"title": "bold", "question": "bold", "story": "cyan", "frame": "dim", "right": "green", "wrong": "yellow"}


@click.command("learn")
@click.argument("lesson", required=False)
@click.option("--unattended", is_flag=True, help="Ask nothing, and play to the end.")
@click.option("--solutions", is_flag=True, help="For teachers: each question with its right answer and the replies.")
@click.option("--check", is_flag=True, help="For teachers: play the lesson and check every claim; say nothing else.")
def learn(lesson: str | None, unattended: bool, solutions: bool, check: bool) -> None:
    """Play LESSON, the number or name of one of ours or a file of your own; without it, list them.

    Each step asks what will happen. Type the number of an answer, or press Enter for none; then it happens.
    """
    console = Console(width=min(WIDTH, Console().width), highlight=False)
    try:
        if lesson is None:
            _list(console, ours())
            return
        found = find(lesson)
        if solutions:
            _solve(console, found)
            return
        if check:
            for _ in play(found, lambda step: None):
                pass
            click.echo(f"{found.name}: every claim holds.")
            return
        click.echo(f"{found.title}  ({found.minutes} minutes)\n")
        for shown in play(found, (lambda step: None) if unattended or not sys.stdin.isatty() else _ask):
            _show(console, shown)
        click.echo("Sources: " + ", ".join(found.sources))
    except Unteachable as error:
        raise click.ClickException(str(error)) from None


def _list(console: Console, lessons: Sequence[Lesson]) -> None:
    table = Table("", "name", "lesson", "minutes", "members", box=None)
    for lesson in lessons:
        table.add_row(str(lesson.number), lesson.name, lesson.title, str(lesson.minutes), lesson.client or "puppets")
    console.print(table)
    console.print("\nBegin with kafka-shim learn 1.")


def _ask(step: Step) -> int | None:
    choices = [str(number) for number in range(1, len(step.options) + 1)]
    while True:
        answer = click.prompt("Your answer", default="", show_default=False).strip()
        if not answer:
            return None
        if answer in choices:
            return int(answer) - 1
        click.echo(f"Type one of {', '.join(choices)}, or nothing.")


def _show(console: Console, shown: Shown) -> None:
    if not shown.text:
        return
    if shown.kind == "prose":
        console.print(Markdown(shown.text))
    else:
        indent = "  " if shown.kind in ("story", "frame", "option") else ""
        style = STYLES.get(shown.kind, "")
        for line in shown.text.splitlines():
            console.print(Text(indent + line, style=style), soft_wrap=True)
        if shown.kind == "option":
            return
    console.print()


def _solve(console: Console, lesson: Lesson) -> None:
    """The solution sheet: what is right is found by playing the lesson."""
    console.print(Text(f"{lesson.title}: solutions", style="bold"))
    with scene_of(lesson) as scene:
        _solve_in(scene, console, lesson)


def _solve_in(scene: Scene, console: Console, lesson: Lesson) -> None:
    for step in lesson.steps:
        scene.step()
        for line in step.do:
            scene.do(line)
        if not step.ask:
            continue
        right = right_option(scene, step)
        console.print(f"\n{step.title}", style="bold", markup=False, soft_wrap=True)
        console.print(step.ask, markup=False, soft_wrap=True)
        for number, option in enumerate(step.options):
            mark = "*" if number == right else " "
            console.print(f" {mark} {number + 1}  {option.text}", markup=False, soft_wrap=True)
            if option.reply and number != right:
                console.print(f"        {option.reply}", markup=False, soft_wrap=True)
        for line in step.after.splitlines()[:3]:
            console.print(f"   {line}", markup=False, soft_wrap=True)
