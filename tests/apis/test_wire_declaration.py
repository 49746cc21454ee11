"""A declared message as a Python class: constructor, equality, copies, types."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.wire import Message, Struct, array, field, int32, string, uuid
from tests.apis.wire_samples import Everything, Frozen, Point


class Key(Message, versions="0-1", frozen=True):
    group: str = field(string)
    partition: int = field(int32)


class Single(Message, versions="0"):
    name: str = field(string)


class Empty(Message, versions="0-1", flexible="1"):
    pass


def test_constructor_by_position_and_keyword() -> None:
    assert HeartbeatRequest("g", 3, "m", None) == HeartbeatRequest(
        member_id="m", group_id="g", generation_id=3, group_instance_id=None
    )


def test_fields_have_defaults() -> None:
    message = Everything()
    assert (message.flag, message.count, message.ratio, message.name, message.blob) == (False, 0, 0.0, "", b"")
    assert (message.id, message.numbers, message.point, message.maybe) == (bytes(16), [], Point(0, 0), None)
    assert message.needed == -1


def test_mutable_defaults_are_new_for_every_message() -> None:
    one, other = Everything(), Everything()
    one.numbers.append(1)
    one.point.x = 5
    assert (other.numbers, other.point.x) == ([], 0)


def test_null_is_not_the_default_of_a_nullable_array() -> None:
    assert Everything(wide=None).wide is None
    assert Everything().wide == []


@pytest.mark.parametrize("arguments", [{"nothing": 1}, {"group_id": "g", "versions": 1}])
def test_unknown_fields_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        HeartbeatRequest(**arguments)


def test_messages_have_slots() -> None:
    with pytest.raises(AttributeError):
        HeartbeatRequest().nothing = 1
    assert not hasattr(HeartbeatRequest(), "__dict__")


def test_messages_compare_by_values() -> None:
    assert HeartbeatRequest("g") == HeartbeatRequest("g")
    assert HeartbeatRequest("g") != HeartbeatRequest("h")
    assert Single("a") == Single("a")
    assert Single("a") != Single("b")
    assert Single("a") != "a"
    assert Empty() == Empty()
    assert Empty() != Single()
    assert Point(1, 2) != Frozen("1", 2)


def test_repr_is_an_expression() -> None:
    assert repr(HeartbeatRequest("g", 3, "m")) == (
        "HeartbeatRequest(group_id='g', generation_id=3, member_id='m', group_instance_id=None)"
    )
    assert repr(Empty()) == "Empty()"


def test_a_message_that_can_change_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(HeartbeatRequest())


def test_frozen_messages_are_keys() -> None:
    offsets = {Key("g", 1): "one", Key("g", 2): "two"}
    assert offsets[Key("g", 2)] == "two"
    assert Key.decode(Key("g", 1).encode(0), 0) in offsets
    assert Key("h", 1) not in offsets


@pytest.mark.parametrize("change", [lambda key: setattr(key, "group", "h"), lambda key: delattr(key, "group")])
def test_frozen_messages_do_not_change(change: object) -> None:
    key = Key("g", 1)
    with pytest.raises(AttributeError, match="Key is frozen: group cannot be changed"):
        change(key)
    assert key == Key("g", 1)


@pytest.mark.parametrize("message", [Everything(numbers=[1], name="x"), Key("g", 1), Frozen("t", 2), Empty()])
def test_copy_and_pickle(message: object) -> None:
    assert copy.deepcopy(message) == message
    assert copy.copy(message) == message
    if type(message) is Key:
        assert pickle.loads(pickle.dumps(message)) == message


def test_class_attributes_have_key_versions_and_fields() -> None:
    assert (HeartbeatRequest.api_key, HeartbeatRequest.versions, HeartbeatRequest.flexible[0]) == (12, range(5), 4)
    assert (Key.api_key, len(Key.flexible)) == (None, 0)
    assert [each.name for each in Key.fields] == ["group", "partition"]


def test_messages_match_positional_patterns() -> None:
    match Key("g", 1):
        case Key(group, partition):
            assert (group, partition) == ("g", 1)


def test_a_class_without_fields_has_no_instances() -> None:
    with pytest.raises(TypeError, match="Struct declares no fields"):
        Struct()


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(TypeError, match="a base class has this name"):
        type(Message)("Bad", (Message,), {"versions": field(string)}, versions="0")
    with pytest.raises(TypeError, match="no subclasses"):
        type(Struct)("Bad", (Point,), {})
    with pytest.raises(TypeError, match="both its tag and the versions"):
        field(string, tag=1)
    with pytest.raises(TypeError, match="default of an array"):
        field(array(string), default=["x"])
    bad = type(Message)("Bad", (Message,), {"name": field(uuid, tag=0, tagged="0+")}, versions="0")
    with pytest.raises(TypeError, match="not flexible"):
        bad.decoder(0)


def test_compiled_once_for_a_version() -> None:
    assert HeartbeatRequest.decoder(3) is HeartbeatRequest.decoder(3)
    assert HeartbeatRequest.decoder(3) is not HeartbeatRequest.decoder(4)
    assert HeartbeatRequest.encoder(3) is HeartbeatRequest.encoder(3)


def test_the_compiled_source_can_be_read() -> None:
    assert "o.generation_id" in inspect.getsource(HeartbeatRequest.decoder(4))
    assert "message.leader.encode()" in inspect.getsource(JoinGroupResponse.encoder(9))


SNIPPET = """
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.wire import Message, field, int32, string

reveal_type(HeartbeatRequest("g").group_instance_id)
reveal_type(HeartbeatRequest.decode(b"", 4))
HeartbeatRequest(1)
HeartbeatRequest().nothing
class Key(Message, versions="0", frozen=True):
    number: int = field(string)
    text: str = field(string, nullable="0+")
Key().number = 1
"""


def test_mypy_knows_constructors_and_attributes(tmp_path: Path) -> None:
    source = tmp_path / "snippet.py"
    source.write_text(SNIPPET)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", "", str(source)]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    errors = [line.split("snippet.py:")[1].split(":")[0] for line in output.splitlines() if "snippet.py:" in line]
    assert errors == ["5", "6", "7", "8", "10", "11", "12"], output
    assert '"str | None"' in output
    assert '"kafka_shim.apis.heartbeat.HeartbeatRequest"' in output
