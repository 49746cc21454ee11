"""Measure the Spark pipeline, its speed and its survival of kills:
`python -m bench.pipeline decode|events|question|logs|kill` prints JSON.

    decode   records of __consumer_offsets per second on one core: our decoder alone, the whole pipeline in Spark, and
             Kafka's dump-log tool with its offsets decoder, on the same files
    events   traces from files to answers: wall and processor time, peak memory, bytes shuffled by step
    question the main question alone, beside DuckDB on the same files
    logs     a gigabyte of a broker's log, beside `why --log`
    kill     kills workers and drivers of a cluster and of a stream in the middle, and compares the results

Seconds are processor time unless the name has `wall`, because the machine may be busy with other work. Data is
generated from a seed into a temporary folder, unless an existing folder is given. Needs the extra `spark`; `decode`
compares with Kafka if Maven can fetch it.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.decoding import decode
from bench.killing import kill
from bench.logs import logs
from bench.questions import question
from bench.store import SERVERS
from bench.traces import CLUSTER, events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("decode")
    one.add_argument("--records", type=int, default=10_000_000)
    one.add_argument("--codec", default="none")
    one.add_argument("--data", type=Path, help="a log to keep for later runs; written if missing")
    one.add_argument("--memory", default="1g")
    two = what.add_parser("events")
    two.add_argument("--events", type=int, nargs="+", default=[1_000_000, 2_000_000], help="how many to generate")
    two.add_argument("--data", type=Path, nargs="+", default=[], help="folders of `pipeline generate` to use instead")
    two.add_argument("--parts", type=_part, nargs="+", default=[1.0], help="shares of each data set, like 0.25 0.5 1")
    two.add_argument("--master", nargs="+", default=["local[1]", "local[2]"], help=f"masters of Spark, or {CLUSTER}")
    two.add_argument("--memory", default="2g", help="memory of the driver in local mode, else of each executor")
    three = what.add_parser("kill")
    three.add_argument("--events", type=int, default=60_000)
    three.add_argument("--memory", default="1g")
    three.add_argument("--data", type=Path, help="a folder of `pipeline generate` to use instead; it is not streamed")
    three.add_argument(
        "--s3",
        nargs="?",
        const=SERVERS[0],
        choices=SERVERS,
        help=f"machines share only a store, an S3 server started here (default {SERVERS[0]})",
    )
    four = what.add_parser("question")
    four.add_argument("--data", type=Path, required=True, help="a folder of `pipeline generate`, with plain files")
    four.add_argument("--memory", default="2g")
    five = what.add_parser("logs")
    five.add_argument("--bytes", type=int, default=1_000_000_000)
    five.add_argument("--master", default="local[2]")
    five.add_argument("--memory", default="1g")
    chosen = parser.parse_args()
    # Exit normally, so that processes are stopped and files deleted.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if chosen.what == "decode":
        result: Any = decode(chosen.records, chosen.codec, chosen.data, chosen.memory)
    elif chosen.what == "question":
        with TemporaryDirectory(prefix="bench-question-") as out:
            result = question(chosen.data, Path(out), chosen.memory)
    elif chosen.what == "logs":
        with TemporaryDirectory(prefix="bench-logs-") as folder:
            result = logs(chosen.bytes, Path(folder), chosen.memory, chosen.master)
    elif chosen.what == "kill":
        result = kill(chosen.events, chosen.memory, chosen.s3, chosen.data)
    else:
        result = events(chosen.events, chosen.data, chosen.parts, chosen.master, chosen.memory)
    print(json.dumps(result, indent=1))


def _part(text: str) -> float:
    part = float(text)
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share of a whole")
    return part


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
