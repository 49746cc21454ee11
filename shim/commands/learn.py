"""`kafka-shim learn`: lessons in the terminal.

`learn/` has the lessons and plays them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from kafka_shim.apis.readable import LONGEST_LINE, readable, readable_lines
from kafka_shim.commands.damaged import reads_files
from kafka_shim.learn.lesson import Lesson, Step, Unteachable, find, ours
from kafka_shim.learn.scene import Scene
from kafka_shim.learn.teaching import Output, carry_out, play, right_option, scene_of

WIDTH = 100
STYLES = {"title": "bold", "question": "bold", "story": "cyan", "frame": "dim", "right": "green", "wrong": "yellow"}


@click.command("learn")
@click.argument("lesson", required=False)
@click.option("--unattended", is_flag=True, help="Ask no questions, and play to the end.")
@click.option("--solutions", is_flag=True, help="For teachers: each question with its right answer and the replies.")
@click.option("--check", is_flag=True, help="For teachers: play the lesson and check every claim; print nothing else.")
@reads_files
def learn(lesson: str | None, unattended: bool, solutions: bool, check: bool) -> None:
    """Play LESSON, the number or name of one of ours or your own file; without it, list them.

    Most steps ask you to predict their result. Type the number of an answer, or press Enter for none; then the step
    runs. In some you act yourself, until a goal is reached.
    """
    console = Console(width=min(WIDTH, Console().width), highlight=False)
    try:
        if lesson is None:
            _list(console, ours())
            return
        chosen = find(lesson)
        if solutions:
            _solve(console, chosen)
            return
        if check:
            for _ in play(chosen, lambda step: None):
                pass
            click.echo(f"{chosen.name}: every claim holds.")
            return
        click.echo(f"{readable(chosen.title)}  ({chosen.minutes} minutes)\n")
        alone = unattended or not sys.stdin.isatty()
        for result in play(chosen, (lambda step: None) if alone else _ask, None if alone else _act):
            _show(console, result)
        click.echo(readable("Sources: " + ", ".join(chosen.sources), LONGEST_LINE))
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


def _act(step: Step) -> str:
    return str(click.prompt("You do (Enter for the solution)", default="", show_default=False))


def _show(console: Console, output: Output) -> None:
    if not output.text:
        return
    if output.kind == "prose":
        console.print(Markdown(readable_lines(output.text)))
    else:
        indent = "  " if output.kind in ("story", "frame", "option") else ""
        style = STYLES.get(output.kind, "")
        for line in output.text.split("\n"):
            console.print(Text(indent + readable(line, LONGEST_LINE), style=style), soft_wrap=True)
        if output.kind == "option":
            return
    console.print()


def _solve(console: Console, lesson: Lesson) -> None:
    """Print the solutions: playing the lesson determines the right answers."""
    console.print(Text(f"{readable(lesson.title)}: solutions", style="bold"))
    with scene_of(lesson) as scene:
        _solve_in(scene, console, lesson)


def _solve_in(scene: Scene, console: Console, lesson: Lesson) -> None:
    for step in lesson.steps:
        scene.step()
        carry_out(scene, step)
        if not step.ask:
            continue
        right = right_option(scene, step)
        _tell(console, f"\n{step.title}", style="bold")
        _tell(console, step.ask)
        for number, option in enumerate(step.options):
            mark = "*" if number == right else " "
            _tell(console, f" {mark} {number + 1}  {option.text}")
            if option.reply and number != right:
                _tell(console, f"        {option.reply}")
        for line in step.after.splitlines()[:3]:
            _tell(console, f"   {line}")


def _tell(console: Console, text: str, style: str = "") -> None:
    console.print(Text(readable_lines(text), style=style), soft_wrap=True)
