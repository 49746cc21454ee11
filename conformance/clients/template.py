"""`kafka-shim conformance template LANGUAGE`: writes a template of an adapter into a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import click

FOLDER: Final = Path(__file__).resolve().parent / "adapters" / "templates"
TEMPLATES: Final = {
    "python": ("adapter.py", 'kafka-shim conformance --adapter "python adapter.py"'),
    "node": ("adapter.js", 'kafka-shim conformance --adapter "node adapter.js"'),
    "go": ("adapter.go", "go build adapter.go && kafka-shim conformance --adapter ./adapter"),
    "java": (
        "Adapter.java",
        'javac -cp JARS Adapter.java && kafka-shim conformance --adapter "java -cp .:JARS Adapter"',
    ),
    "rust": ("rust", "cargo build --release && kafka-shim conformance --adapter target/release/adapter"),
}
"""The template of each language, a file or a folder, and the commands to use it."""


@click.command()
@click.argument("language", type=click.Choice(list(TEMPLATES)))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("."), show_default=True)
def template(language: str, into: Path) -> None:
    """Write a template of an adapter for your own client."""
    name, usage = TEMPLATES[language]
    source = FOLDER / name
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
    base = source.parent if source.is_file() else source
    for path in files:
        to = into / path.relative_to(base)
        if to.exists():
            raise click.UsageError(f"{to} exists already")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
        click.echo(f"wrote {to}")
    click.echo(f"fill it in, then: {usage}")
