"""Lines of Redpanda about classic groups: its logger `kafka` at level TRACE, static members at DEBUG.

In front of each line are the group, its state and its generation. The lines have no reasons, neither of rebalances nor
of departures. Source: `group.cc` and `group.h` in `src/v/kafka/server` of Redpanda.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.patterns import Pattern, Program
from kafka_shim.sources.signs import SignName

_GROUP: Final = r"\[N:(?P<group>.+?) S:(?P<state>\w+) G:(?P<generation>-?\d+)\] "
_OLD: Final = r"\[N:(?P<group>.+?) S:\w+ G:(?P<old>-?\d+)\] "
"""In front of the begin of a rebalance."""
_STATIC: Final = "Static member with unknown member id and instance id "


def _state(sign: SignName, to: str, before: str = r"\w+", front: str = _GROUP) -> Pattern:
    return Pattern(sign, rf"{front}Changing state from {before} to {to}", "Changing state from ")


REDPANDA: Final = Program(
    name="Redpanda",
    prefix="",
    patterns=(
        _state(SignName.PREPARING, "PreparingRebalance", front=_OLD),
        # The generation has grown by then.
        _state(SignName.STABILIZED, "CompletingRebalance"),
        _state(SignName.ASSIGNED, "Stable", "CompletingRebalance"),
        _state(SignName.EMPTY, "Empty", "PreparingRebalance"),
        _state(SignName.DEAD, "Dead"),
        Pattern(
            SignName.ID_GIVEN,
            rf"{_GROUP}Requesting rejoin for unknown member with new id (?P<member>.+)",
            "Requesting rejoin for unknown member with new id ",
        ),
        Pattern(
            SignName.JOINED,
            rf"{_GROUP}Added member id=(?P<member>.+?) group=.+? group_inst="
            r"\{?(?:nullopt|(?P<instance>.+?))\}? proto_type=",
            "Added member id=",
        ),
        Pattern(
            SignName.EXPIRED,
            rf"{_GROUP}Heartbeat expired for keep_alive=(?:false|0) member (?P<member>.+)",
            "Heartbeat expired for keep_alive=",
        ),
        Pattern(
            SignName.NOT_REJOINED, rf"{_GROUP}Removing unjoined member (?P<member>.+)", "Removing unjoined member "
        ),
        Pattern(SignName.LEFT, rf"{_GROUP}Removing member (?P<member>.+)", "Removing member "),
        Pattern(SignName.LEADER_ELECTED, rf"{_GROUP}Selected new leader (?P<leader>.+)", "Selected new leader "),
        Pattern(
            SignName.NOBODY_REJOINED,
            rf"{_GROUP}No members re-joined\. Scheduling completion for ",
            "No members re-joined. Scheduling completion for ",
        ),
        Pattern(
            SignName.STATIC_REPLACED,
            rf"{_GROUP}{_STATIC}(?P<instance>.+?) joins the group, replacing previously mapped (?P<member>.+?) member "
            "id with new member_id (?P<new>.+)",
            _STATIC,
        ),
        Pattern(
            SignName.STATIC_JOINED,
            rf"{_GROUP}{_STATIC}(?P<instance>.+?) joins the group new member id: (?P<member>.+)",
            _STATIC,
        ),
        Pattern(
            SignName.WRITE_FAILED,
            rf"{_GROUP}Storing committed offset failed - (?P<error>.*)",
            "Storing committed offset failed - ",
        ),
    ),
)
