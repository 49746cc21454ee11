"""An adapter of a client of yours for `kafka-shim conformance --adapter "python adapter.py"`.

Fill in the methods of Client; the rest is the line protocol, which docs/clients.md describes.
"""

import json
import queue
import sys
import threading

DESCRIPTION = {
    "name": "my-client-1.0",
    "protocols": ["classic"],
    "assignors": ["range"],
    "static": False,
    "abilities": [],
}


def emit(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Client:
    """One member of the group."""

    def __init__(self, config):
        """Make a consumer of config["topics"] at config["bootstrap"], with auto commit off, earliest first.

        Its rebalance listener emits `assigned`, `revoked` and `lost` with partitions=[["topic", 0], ...].
        """
        self.config = config

    def poll(self):
        """Poll for at most 100 ms. Emit `records`, and `owns` when the assignment or the generation has changed:

        emit(event="records", topic="t", partition=0, records=[[17, None, "value", []]])
        emit(event="owns", partitions=[["t", 0]], generation=3, member="id")
        """
        threading.Event().wait(0.1)

    def commit(self, offsets):
        """Commit [["topic", 0, 17], ...] and wait for it; raise what the client raises."""
        raise NotImplementedError("commit")

    def close(self):
        """Leave the group in good order."""


def main():
    if sys.argv[1] == "describe":
        print(json.dumps(DESCRIPTION))
        return
    commands = queue.Queue()
    threading.Thread(target=lambda: [*map(commands.put, sys.stdin), commands.put(None)], daemon=True).start()
    client, paused = Client(json.loads(sys.argv[1])), False
    emit(event="started")
    while True:
        try:
            line = commands.get(block=paused)
        except queue.Empty:
            try:
                client.poll()
            except Exception as error:
                emit(event="error", name=type(error).__name__, text=str(error))
            continue
        if line is None:
            return
        command = json.loads(line)
        number, name = command["id"], command["do"]
        try:
            if name in ("hold", "go"):
                paused = name == "hold"
            elif name in ("commit", "commit_async"):
                client.commit(command["offsets"])
            elif name == "close":
                client.close()
            else:
                raise NotImplementedError(name)
            emit(reply=number, value=None)
        except Exception as error:
            emit(reply=number, error=type(error).__name__, text=str(error))
        if name == "close":
            emit(event="closed")
            return


main()
