"""The page draws a trace from `__consumer_offsets`: members, assignments and moves, of both kinds of groups."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from tests.browser import Browser
from tests.sources.judge import unpacked
from tests.sources.recordings import WITH_TOPIC

pytestmark = pytest.mark.second_stage("a browser")


@pytest.mark.parametrize(
    ("name", "moved", "gone"),
    [("killed-for-good-kafka", [0, 2, None], "app-b"), ("slow-to-give-up", [0, 3, None, 0], "new")],
)
def test_a_trace_from_the_topic_is_drawn(
    browser: Browser, tmp_path: Path, name: str, moved: list[int | None], gone: str
) -> None:
    recording = next(each for each in WITH_TOPIC if each.name.startswith(name))
    trace, page = tmp_path / "trace.jsonl", tmp_path / "page.html"
    segments = unpacked(recording, tmp_path)
    write = ["trace", "from-offsets", str(segments), "--group", recording.group, "--out", str(trace)]
    assert CliRunner().invoke(cli, write).exit_code == 0
    export = ["trace", "export", str(trace), "--html", str(page), "--no-replay"]
    assert CliRunner().invoke(cli, export).exit_code == 0
    browser.open(page.as_uri())
    group = f"page.model.groups.get({json.dumps(recording.group)})"
    browser.wait(f"{group} !== undefined")
    assert browser.evaluate(f"{group}.rebalances.map((each) => each.moved)") == moved
    how = f"[...{group}.members.values()].filter((each) => each.how === 'gone').map((each) => each.name)"
    assert gone in browser.evaluate(how)
    assert browser.errors == []
