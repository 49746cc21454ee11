"""The line protocol between a test and a worker: JSON lines, commands on stdin, events and replies on stdout.

A command is `{"id": 7, "do": "commit", ...}`; its answer is `{"reply": 7, "value": ...}` or `{"reply": 7, "error":
NAME, "text": ...}`. Reports of the client itself are `{"event": NAME, ...}`. This module runs under every Python that
any of the clients needs.
"""

import json
import logging
import os
import queue
import sys
import threading
import traceback

# These log lines are in the evidence of a failed test.
logging.basicConfig(
    level=os.environ.get("CLIENTS_LOG", "WARNING"),
    format=os.environ.get("CLIENTS_LOG_FORMAT", "%(asctime)s %(name)s %(message)s"),
)


def emit(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def error_name(error):
    """Return the client's name of an error: Kafka's own name if the client has an error object for it."""
    inner = error.args[0] if error.args else None
    return inner.name() if hasattr(inner, "name") and hasattr(inner, "fatal") else type(error).__name__


def partitions(assignment):
    """Return (topic, partition) pairs in a fixed order, from any client's TopicPartition."""
    return sorted([tp.topic, tp.partition] for tp in assignment)


def text(value):
    return value.decode() if value is not None else None


def commands():
    """Return a queue that receives the commands from stdin, and None at the end of the test."""
    waiting = queue.Queue()

    def read():
        for line in sys.stdin:
            waiting.put(json.loads(line))
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    return waiting


class Worker:
    """The base of the adapters for blocking clients. A subclass has a method `do_NAME(**fields)` for each command.

    `poll(seconds)` lets the client work; `owned()` is its assignment. Commands run between two polls. After `hold` the
    client is not polled until `go`, but its own threads run on.
    """

    def __init__(self, config):
        self.config = config
        self.is_held = False
        self.closed = False
        self.last_report = None

    def poll(self, seconds):
        raise NotImplementedError

    def owned(self):
        raise NotImplementedError

    def generation(self):
        raise NotImplementedError

    def member_id(self):
        raise NotImplementedError

    def do_hold(self):
        self.is_held = True

    def do_go(self):
        self.is_held = False

    def do_describe(self):
        return {"generation": self.generation(), "member": self.member_id(), "partitions": partitions(self.owned())}

    def report_owned(self, rebalanced):
        """Report the assignment if it or its generation has changed, or after a rebalance."""
        now = {"partitions": partitions(self.owned()), "generation": self.generation(), "member": self.member_id()}
        if rebalanced or now != self.last_report:
            self.last_report = now
            emit(event="owns", **now)

    def run(self):
        waiting = commands()
        emit(event="started")
        while not self.closed:
            try:
                command = waiting.get(block=self.is_held or not self.config.get("group"))
            except queue.Empty:
                command = False
            if command is None:
                return
            if command:
                run_command(self, command)
            elif not self.is_held:
                try:
                    self.poll(self.config["poll_s"])
                except Exception as error:
                    emit(event="error", name=error_name(error), text=str(error))
                    # A fenced client repeats the error for ever; the test decides the next step.
                    self.is_held = "Fenced" in type(error).__name__
        emit(event="closed")


def run_command(worker, command):
    """Run one command and send the reply. `commit_async` sends its reply itself."""
    number, name = command.pop("id"), command.pop("do")
    if name in ("commit_async",):
        command["number"] = number
    try:
        value = getattr(worker, "do_" + name)(**command)
    except Exception as error:
        traceback.print_exc()
        emit(reply=number, error=error_name(error), text=str(error))
    else:
        if name not in ("commit_async",):
            emit(reply=number, value=value)


def main(worker_class, description=None):
    """Run a worker, or print its description if the only argument is `describe`."""
    if sys.argv[1] == "describe":
        print(json.dumps(description))
        return
    worker_class(json.loads(sys.argv[1])).run()
