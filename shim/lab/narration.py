"""The story of a coordinator of tests: that of its groups, with brokers that went down, and with Produce, Fetch and
ListOffsets if their events are on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka_shim.apis.readable import readable
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.server.data_exchanges import DATA_APIS
from kafka_shim.server.history import EventHistory
from kafka_shim.why.narration import Narrator

_BROKER: Final = {"stopped": "is shut down", "killed": "is killed", "started": "is started again"}
_ENDS: Final = {-1: "the end", -2: "the start"}


class LabNarrator(Narrator):
    """Turns events into lines, one after the other."""

    def _broker(self, event: Mapping[str, Any]) -> list[str]:
        return [f"broker {event['node']} {_BROKER[event['change']]}"]

    def _exchange(self, event: Mapping[str, Any]) -> list[str]:
        who, request, answer = event["client_id"], event["request"], event["answer"]
        match event["api"]:
            case "Fetch":
                answers = _answers(answer["responses"], "topic", "partitions", "partition_index", "records")
                return [
                    f"{who} fetches {place} from offset {offset}{_result(answers.get(place))}"
                    for place, offset in _places(request["topics"], "topic", "partitions", "partition", "fetch_offset")
                ] or [f"{who} fetches {place}{_result(each)}" for place, each in answers.items()]
            case "ListOffsets":
                answers = _answers(answer["topics"], "name", "partitions", "partition_index", "offset")
                return [
                    f"{who} looks for {_ENDS.get(stamp, f'the time {stamp}')} of {place}: {_offset(answers.get(place))}"
                    for place, stamp in _places(request["topics"], "name", "partitions", "partition_index", "timestamp")
                ]
            case "Produce":
                answers = _answers(answer["responses"], "name", "partition_responses", "index", "base_offset")
                return [f"{who} produces to {place}: {_offset(each)}" for place, each in answers.items()]
            case _:
                return super()._exchange(event)


def story(history: EventHistory, group: str | None = None) -> list[str]:
    """Return the story of a group, or of all, as readable lines."""
    return [line for piece in pieces(history, group) for line in piece]


def pieces(history: EventHistory, group: str | None = None, since: int = 0) -> Iterator[list[str]]:
    """Yield the story of a group, or of all, after the event of number `since`, as readable lines in pieces.

    That of a group has the records of clients that were its members.
    """
    narrator, clients = LabNarrator(), set[str]()
    for piece in history.pieces(since, group, others=True):
        lines = []
        for _, now, event in piece:
            if event.get("group") and event.get("client_id"):
                clients.add(event["client_id"])
            is_of_data = event["event"] == "exchange" and event["api"] in DATA_APIS
            its_own = event.get("group") or event["event"] == "broker" or (is_of_data and event["client_id"] in clients)
            if group is None or its_own:
                lines += narrator.lines(event, now)
        yield [str(line) for line in lines]


def _places(topics: list[Any], name: str, parts: str, index: str, value: str) -> list[tuple[str, Any]]:
    return [(f"{readable(str(each[name]))}-{part[index]}", part[value]) for each in topics for part in each[parts]]


def _answers(topics: list[Any], name: str, parts: str, index: str, value: str) -> dict[str, tuple[int, Any]]:
    """Return the error and a value of each partition."""
    errors = dict(_places(topics, name, parts, index, "error_code"))
    return {place: (errors[place], each) for place, each in _places(topics, name, parts, index, value)}


def _result(answer: tuple[int, int] | None) -> str:
    if answer is None:
        return ""
    return f": {_error(answer[0])}" if answer[0] else f": {answer[1]} bytes" if answer[1] else ""


def _offset(answer: tuple[int, int] | None) -> str:
    if answer is None:
        return "no answer"
    return _error(answer[0]) if answer[0] else f"offset {answer[1]}"


def _error(code: int) -> str:
    return f"{ErrorCode(code).name} ({code})"
