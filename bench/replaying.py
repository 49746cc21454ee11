"""Whether a run of real clients replays: `python -m bench.replaying [--seconds 600] [--groups 10] [--members 4]`.

A server with a journal and three brokers serves groups of confluent-kafka consumers: classic ones, KIP-848 ones and
share groups. Each reads two topics that transactional and plain producers fill. Members close and come again, some
processes die, faults disturb requests, and brokers are killed and restarted. Then another process, with another hash
seed, replays the journal and compares each answer. Prints its result as JSON; exit code 1 if an answer differs or the
journal has ended early: then the journal stays, and the result has its path.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer

TOPICS: Final = {"orders": 6, "payments": 4}
KINDS: Final = ("classic", "classic", "cooperative", "consumer", "share")
BROKERS: Final = 3
APIS: Final = (
    "Fetch",
    "Heartbeat",
    "JoinGroup",
    "OffsetCommit",
    "ConsumerGroupHeartbeat",
    "Produce",
    "ShareFetch",
    "EndTxn",
)
FAULTS: Final[tuple[dict[str, Any], ...]] = (
    {"action": "error", "error": "NOT_COORDINATOR"},
    {"action": "delay", "seconds": 0.5},
    {"action": "delay", "seconds": 0.2, "applied": True},
    {"action": "close"},
    {"action": "close", "when": "applied"},
    {"action": "duplicate"},
    {"action": "slow", "bytes_per_second": 2000},
)
TURN_S: Final = 0.4
"""Seconds between two changes of a member."""


def consumer(kind: str, group: str, bootstrap: str) -> Any:
    """Return a consumer or a share consumer that has subscribed to all topics."""
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group}
    if kind == "share":
        made: Any = ShareConsumer(config)
    else:
        config |= {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        if kind == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
            config["partition.assignment.strategy"] = "range" if kind == "classic" else "cooperative-sticky"
        made = Consumer(config)
    made.subscribe([*TOPICS])
    return made


def play_groups(bootstrap: str, groups: dict[str, str], members: int, seconds: float, seed: int) -> None:
    """Poll with the members of groups, each with its kind, for `seconds`; at times one closes, and another comes."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    alive = {group: [consumer(kind, group, bootstrap) for _ in range(members)] for group, kind in groups.items()}
    change = time.monotonic() + 5 * TURN_S
    while time.monotonic() < end:
        for each in alive.values():
            for member in each:
                member.poll(0.005)
        if time.monotonic() > change:
            change = time.monotonic() + TURN_S * chance.random() * 4 / len(groups)
            group = chance.choice([*groups])
            here = alive[group]
            if groups[group] != "share" and chance.random() < 0.5:
                _try(here[0].commit, asynchronous=False)
            if len(here) == members:
                _try(here.pop(chance.randrange(len(here))).close)
            else:
                here.append(consumer(groups[group], group, bootstrap))
    for each in alive.values():
        for member in each:
            _try(member.close)


def produce(bootstrap: str, seconds: float, seed: int) -> None:
    """Fill the topics for `seconds`, in transactions that commit or abort, and without them."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    careful = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t{seed}", "linger.ms": 1})
    begun = _try(careful.init_transactions, 30)
    while time.monotonic() < end:
        topic = chance.choice([*TOPICS])
        if begun and chance.random() < 0.4:
            _try(careful.begin_transaction)
            for number in range(chance.randrange(1, 20)):
                _try(careful.produce, topic, f"{number}".encode())
            _try(careful.commit_transaction if chance.random() < 0.7 else careful.abort_transaction)
        else:
            for number in range(chance.randrange(1, 20)):
                _try(plain.produce, topic, f"{number}".encode())
        plain.poll(0)
        time.sleep(chance.random() * TURN_S)
    plain.flush(5)


def _try(call: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Call; a broker may be down at the moment."""
    try:
        call(*arguments, **named)
    except (KafkaException, BufferError):
        return False
    return True


def disturb(control: str, chance: random.Random) -> None:
    """Put a few faults of the laboratory in force, each for its first three requests."""
    for api in chance.sample(APIS, 3):
        fault = chance.choice(FAULTS) | {"api": api, "times": 3, "optional": True}
        post(f"{control}/v1/faults", fault)


def post(url: str, body: dict[str, Any]) -> None:
    """Send a request to the control server."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")
    urllib.request.urlopen(request).close()


def shake_brokers(control: str, seconds: float, seed: int) -> None:
    """Kill or stop one broker after the other, and restart it."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end - 3:
        time.sleep(min(seconds / 4, 20))
        disturb(control, chance)
        broker = chance.randrange(1, BROKERS)
        for deed in (chance.choice(["stop", "kill"]), "restart"):
            post(f"{control}/v1/brokers/{broker}", {"do": deed})
            time.sleep(1)


def record(folder: Path, seconds: float, groups: int, members: int, seed: int) -> Path:
    """Serve clients for `seconds` with a journal in `folder`; return its path."""
    journal = folder / "journal.jsonl"
    topics = [word for name, count in TOPICS.items() for word in ("--topic", f"{name}:{count}")]
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
    command += ["--store", "memory:", "--lab", "--brokers", str(BROKERS), *topics, "--journal", str(journal)]
    command += ["--log-level", "error", "--config", "group.initial.rebalance.delay.ms=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        players: list[subprocess.Popen[bytes]] = []
        try:
            assert server.stdout is not None
            words = dict(word.split("=", 1) for word in server.stdout.readline().split() if "=" in word)
            bootstrap, control = words["kafka"], words["control"]

            def play(*arguments: Any) -> subprocess.Popen[bytes]:
                line = [sys.executable, "-m", "bench.replaying", "--play", json.dumps(arguments)]
                return subprocess.Popen(line, stderr=subprocess.DEVNULL)

            players += [play("produce", bootstrap, seconds, seed + number) for number in range(2)]
            kinds = {f"g{number}": KINDS[number % len(KINDS)] for number in range(groups)}
            halves = [dict([*kinds.items()][half::2]) for half in range(2)]
            players += [play("groups", bootstrap, half, members, seconds, seed) for half in halves]
            # This one dies without a word, and its members with it.
            doomed = play("groups", bootstrap, {"g0": KINDS[0]}, members, seconds, seed)
            players.append(doomed)
            disturb(control, random.Random(seed))
            if seconds > 20:
                shake_brokers(control, seconds / 2, seed)
            else:
                time.sleep(seconds / 2)
            doomed.kill()
            end = time.monotonic() + seconds + 60
            for each in players:
                # A consumer may wait for a broker that was killed while it closes; it is ended then.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    each.wait(max(1.0, end - time.monotonic()))
        finally:
            for each in players:
                each.kill()
            server.send_signal(signal.SIGTERM)
    return journal


def replay(journal: Path) -> dict[str, Any]:
    """Replay in another process. Return the number of inputs and answers, and `error`, empty if it is exact."""
    command = [sys.executable, "-m", "kafka_shim", "replay", str(journal), "--json"]
    hashed = os.environ | {"PYTHONHASHSEED": str(random.randrange(1000))}
    played = subprocess.run(command, capture_output=True, text=True, env=hashed)
    result = json.loads(played.stdout) if played.returncode == 0 else {}
    numbers = {name: result.get(name) for name in ("seq", "answers", "end_reason")}
    return {**numbers, "error": played.stderr.strip()[-500:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--keep", type=Path, help="a folder for the journal")
    parser.add_argument("--play", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        deed, *arguments = given.play
        play: Callable[..., None] = produce if deed == "produce" else play_groups
        play(*arguments)
        return 0
    folder = given.keep or Path(tempfile.mkdtemp(prefix="replaying-"))
    folder.mkdir(parents=True, exist_ok=True)
    journal = record(folder, given.seconds, given.groups, given.members, given.seed)
    result = replay(journal)
    differs = bool(result["error"] or result["answers"] is None or result["end_reason"])
    # The seed alone does not bring the same run about again, so the journal of a finding stays.
    if not differs and given.keep is None:
        shutil.rmtree(folder)
    print(json.dumps({"seed": given.seed, **result} | ({"journal": str(journal)} if differs else {})))
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
