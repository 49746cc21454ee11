"""The inputs and the sums of `python -m bench.pipeline`; the pipeline's own tests cover its runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import traces
from bench.logs import BETWEEN, write
from bench.runs import Family
from kafka_shim.pipeline.run import sort_out
from kafka_shim.pipeline.sources.shim_trace import Part, files, read_part
from kafka_shim.sources.mixture import PROGRAMS
from kafka_shim.sources.reading import Reading

EVENT = '{{"event":"round","seq":{},"mono":1.0,"wall":2.0,"group":"g"}}\n'


def generated(folder: Path, rotated: int = 8) -> Path:
    """Write two nodes of this many files each; file n has n + 1 events."""
    for node in range(2):
        for number in range(rotated):
            place = folder / "trace" / f"node-{node}" / f"trace-{number:05d}.jsonl"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("".join(EVENT.format(seq) for seq in range(number + 1)))
    return folder


@pytest.mark.parametrize(("part", "count"), [(0.01, 1), (0.25, 2), (0.5, 4), (1.0, 8)])
def test_a_share_is_the_first_files_of_each_node_under_their_names(tmp_path: Path, part: float, count: int) -> None:
    whole = generated(tmp_path / "data")
    folder = traces.share(whole, part, tmp_path / "share")
    (place,) = sort_out([str(folder)]).traces
    paths = [Path(each.address) for each in files(place)]
    assert [path.relative_to(folder) for path in paths] == [
        Path("trace", f"node-{node}", f"trace-{number:05d}.jsonl") for node in range(2) for number in range(count)
    ]
    events = sum(range(count + 1)) * 2
    assert traces.volume(folder) == (events, sum(path.stat().st_size for path in paths))
    rows = [row for path in paths for row in read_part(Part(str(path), 0, path.stat().st_size))]
    assert sum(batch.num_rows for batch in rows) == events
    assert {name for batch in rows for name in batch["trace"].to_pylist()} == {"node-0/trace", "node-1/trace"}


def test_a_run_is_compared_with_the_one_before_it_on_its_master() -> None:
    def run(master: str, events: int, wall: float) -> dict[str, object]:
        return {"master": master, "events": events, "wall_seconds": wall, "seconds": wall * 2, "peak_mib": 100}

    before = [run("local[1]", 10, 5.0), run("local[2]", 10, 3.0)]
    assert traces.compared(run("local[1]", 20, 10.5), before) == {
        "times_the_one_before": {"events": 2.0, "wall_seconds": 2.1, "seconds": 2.1, "peak_mib": 1.0}
    }
    assert traces.compared(run("cluster", 20, 10.5), before) == {}


def test_a_full_disk_is_reported_before_the_run(tmp_path: Path) -> None:
    traces.room_for(tmp_path, 1, "a byte")
    with pytest.raises(SystemExit, match=r"bytes free, and 1,000,000,000,000,000 are needed for the tables"):
        traces.room_for(tmp_path, 10**15, "the tables")


def test_processor_time_includes_child_processes() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\nprint('spent', flush=True)\ninput()"
    below = [sys.executable, "-c", busy]
    script = f"import subprocess; subprocess.run({below!r})"
    started = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert started.stdout is not None
        family = Family([started.pid])
        assert started.stdout.readline() == b"spent\n"
        family.look()
        assert len(family.seconds) == 2
        assert family.spent() > 0
        assert 1 << 20 < family.peak < 1 << 30
        assert family.lives()
    finally:
        started.communicate(b"\n")
    assert not family.lives()
    assert Family([started.pid]).spent() == 0


def test_a_log_repeats_the_recordings_under_other_names(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    repeated = write(log, 12_000_000)
    reading = Reading(PROGRAMS)
    signs = [sign for sign in reading.signs([log]) if sign.group]
    assert log.stat().st_size >= 12_000_000
    assert len({sign.group for sign in signs}) == repeated > 1
    assert [sign.time for sign in signs] == sorted(sign.time for sign in signs)
    lines = log.read_bytes().count(b"\n")
    assert lines // (BETWEEN + 1) == reading.understood
