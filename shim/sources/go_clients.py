"""Lines of clients in Go: franz-go and sarama.

Both are silent unless the application gives them a logger: franz-go `kgo.WithLogger`, sarama `sarama.Logger`. Neither
has a poll interval. Sources: `pkg/kgo/consumer_group.go` of franz-go, `consumer_group.go` of sarama.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.client_program import ClientProgram
from kafka_shim.sources.layouts import Line
from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.trace.clients import Library

_FENCED: Final = "FENCED_INSTANCE_ID"
_AGAIN: Final = r"(?: again while waiting for user revoke to finish)?"

_BALANCE: Final = ", balance_protocol: "
_KEYS: Final = (
    *("group", "member_id", "instance_id", "generation", "balance_protocol", "leader"),
    *("err", "why", "how", "added", "lost", "input"),
)
"""Keys of the values beside a message of franz-go, in their order."""


class FranzGo(ClientProgram):
    """franz-go. Its own logger prints `message; key: value, key: value`; zap, slog and zerolog print fields."""

    @property
    def anchors(self) -> set[str]:
        """Return the messages alone, and the ways to print a key that selects one."""
        keys = {f'"{_BALANCE.strip(", :")}":', f" {_BALANCE.strip(', :')}="}
        return {anchor.partition("; ")[0] for anchor in super().anchors} | keys

    def sign(self, line: Line) -> Sign | None:
        """Return the sign of a line; None if no pattern matches."""
        values = {key: line.fields[key] for key in _KEYS if key in line.fields}
        if "error" in line.fields:
            # Some adapters rename the key.
            values = {key: values.get(key, line.fields["error"]) for key in _KEYS if key in values or key == "err"}
        if values and "; " not in line.text:
            if "member_id" in values and "generation" in values:
                values = {key: values.get(key, "<nil>") for key in _KEYS if key in values or key == "instance_id"}
            text = ", ".join(f"{key}: {value}" for key, value in values.items())
            line = line._replace(text=f"{line.text}; {text}")
        return super().sign(line)


FRANZ_GO: Final = FranzGo(
    "franz-go",
    r"(?:\[[A-Z]+\] )?",
    (
        Pattern(
            SignName.IN_GENERATION,
            r"joined(?:, balancing group)?; group: (?P<group>.+?), member_id: (?P<member>.+?),"
            r" instance_id: (?P<instance>.+?), generation: (?P<generation>\d+), balance_protocol: (?P<protocol>.*?)"
            r", leader: (?P<leader>true|false)",
            _BALANCE,
        ),
        Pattern(
            SignName.PARTITIONS_TAKEN,
            r"new group session begun; group: (?P<group>.+?), added: (?P<partitions>.*?), lost: (?P<lost>.*)",
            "new group session begun; group: ",
        ),
        Pattern(
            SignName.FOLLOWS,
            rf"heartbeat errored{_AGAIN}; group: (?P<group>.+?), err: REBALANCE_IN_PROGRESS",
            "heartbeat errored",
        ),
        Pattern(
            SignName.REPLACED,
            rf"(?:heartbeat errored{_AGAIN}|join group failed|join and sync loop errored)"
            rf"; group: (?P<group>.+?), err: {_FENCED}",
            _FENCED,
        ),
        Pattern(
            SignName.THROWN_OUT,
            rf"heartbeat errored{_AGAIN}; group: (?P<group>.+?), err: (?P<error>[A-Z_]+)",
            "heartbeat errored",
        ),
        Pattern(
            SignName.THROWN_OUT,
            r"join returned (?P<error>UnknownMemberID), rejoining without a member id; group: (?P<group>[^,]+)",
            "join returned UnknownMemberID, ",
        ),
        Pattern(
            SignName.ID_RECEIVED,
            r"join returned MemberIDRequired, rejoining with response's MemberID; group: (?P<group>.+?),"
            r" member_id: (?P<member>.*)",
            "join returned MemberIDRequired, ",
        ),
        Pattern(
            SignName.REFUSED,
            r"join group failed; group: (?P<group>.+?), err: (?P<error>.*)",
            "join group failed; group: ",
        ),
        Pattern(
            SignName.REFUSED,
            r"join and sync loop errored; group: (?P<group>.+?), err: (?P<error>.*)",
            "join and sync loop errored; group: ",
        ),
        Pattern(
            SignName.METADATA_CHANGED,
            r"forced rejoin quitting heartbeat loop; why: (?P<reason>.*)",
            "forced rejoin quitting heartbeat loop; ",
        ),
        Pattern(
            SignName.LEAVES,
            r"leaving group; group: (?P<group>.+?), member_id: (?P<member>[^,]*)",
            "leaving group; group: ",
        ),
        Pattern(
            SignName.ASKS_TO_JOIN,
            r"joining group; group: (?P<group>[^,]+)",
            "joining group; group: ",
        ),
        Pattern(
            SignName.ASKS_TO_JOIN,
            r"beginning to manage the group lifecycle; group: (?P<group>[^,]+)",
            "beginning to manage the group lifecycle; group: ",
        ),
    ),
    library=Library.FRANZ_GO,
)

SARAMA: Final = ClientProgram(
    "sarama",
    "",
    (
        Pattern(
            SignName.IN_GENERATION,
            r"consumergroup/session/(?P<member>.+)/(?P<generation>\d+) (?:heartbeat loop stopped|released)",
            "consumergroup/session/",
        ),
        Pattern(
            SignName.METADATA_CHANGED,
            r"consumergroup/(?P<group>.+) loop check partition number (?:go)?routine find partitions in topics"
            r" (?P<topics>\[.*\]) changed from (?P<before>.*) to (?P<after>.*)",
            " loop check partition number ",
        ),
        Pattern(
            SignName.PARTITIONS_LOST,
            r"consumergroup/(?P<group>.+): lost ownership of (?P<partitions>.*) due to (?P<error>.*)",
            ": lost ownership of ",
        ),
        Pattern(
            SignName.REPLACED,
            r"JoinGroup failed: group instance id (?P<fenced>.+) has been fenced",
            "JoinGroup failed: group instance id ",
        ),
        Pattern(
            SignName.COORDINATOR_FOUND,
            r"client/coordinator coordinator for consumergroup (?P<group>.+) is #(?P<coordinator>\d+)"
            r" \((?P<host>\S+)\)",
            "client/coordinator coordinator for consumergroup ",
        ),
    ),
    library=Library.SARAMA,
)
