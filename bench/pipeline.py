"""How fast the pipeline is: `python -m bench.pipeline decode|events|kill`, results as JSON on standard output.

    decode   records of __consumer_offsets a second of one core: our decoder alone, all of the pipeline in Spark, and
             Kafka's own dump-log tool with its offsets decoder, on the same files
    events   traces end to end: wall and processor time, peak memory, bytes shuffled by step
    kill     workers and the driver of a cluster, and the driver of a stream, in the middle: what is left is compared

Seconds are of processor time unless they say wall, as the machine may be busy with other things. Data is generated
from a seed into a folder of its own and taken away at the end, unless a folder made before is named. Needs the extra
`spark`; `decode` compares with Kafka where Maven can fetch it.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.decoding import decode
from bench.killing import kill
from bench.store import SERVERS
from bench.traces import CLUSTER, events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("decode")
    one.add_argument("--records", type=int, default=10_000_000)
    one.add_argument("--codec", default="none")
    one.add_argument("--data", type=Path, help="a log to be read again another time; made if it is not there")
    one.add_argument("--memory", default="1g")
    two = what.add_parser("events")
    two.add_argument("--events", type=int, nargs="+", default=[1_000_000, 2_000_000], help="how many to generate")
    two.add_argument("--data", type=Path, nargs="+", default=[], help="folders of `pipeline generate`, in their place")
    two.add_argument("--parts", type=_part, nargs="+", default=[1.0], help="shares of each data set, like 0.25 0.5 1")
    two.add_argument("--master", nargs="+", default=["local[1]", "local[2]"], help=f"Spark's, or {CLUSTER}")
    two.add_argument("--memory", default="2g", help="of the driver in local mode, else of each executor")
    three = what.add_parser("kill")
    three.add_argument("--events", type=int, default=60_000)
    three.add_argument("--memory", default="1g")
    three.add_argument("--data", type=Path, help="a folder of `pipeline generate`, in their place; it is not streamed")
    three.add_argument(
        "--s3",
        nargs="?",
        const=SERVERS[0],
        choices=SERVERS,
        help=f"machines share nothing but a store, an S3 server started here (without a name {SERVERS[0]})",
    )
    chosen = parser.parse_args()
    # What was started and made is taken away then, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if chosen.what == "decode":
        found: Any = decode(chosen.records, chosen.codec, chosen.data, chosen.memory)
    elif chosen.what == "kill":
        found = kill(chosen.events, chosen.memory, chosen.s3, chosen.data)
    else:
        found = events(chosen.events, chosen.data, chosen.parts, chosen.master, chosen.memory)
    print(json.dumps(found, indent=1))


def _part(text: str) -> float:
    part = float(text)
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share of a whole")
    return part


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
