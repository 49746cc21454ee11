"""Lines of KafkaJS: a JSON object each, of which the layout gives the message and the other values.

It has no poll interval: heartbeats come from the loop that works, so a message that takes long costs the session.
Source: `src/consumer` of KafkaJS 2.2.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.client_program import ClientProgram
from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.signs import SignName
from kafka_shim.trace.clients import Library

KAFKAJS: Final = ClientProgram(
    "KafkaJS",
    r"(?:\[\w+\] )?",
    (
        Pattern(SignName.IN_GENERATION, r"Consumer has joined the group", "Consumer has joined the group"),
        Pattern(
            SignName.FOLLOWS,
            r"The group is rebalancing, (?:re-joining|so a rejoin is needed)",
            "The group is rebalancing, ",
        ),
        Pattern(
            SignName.THROWN_OUT,
            r"The coordinator is not aware of this member, re-joining the group",
            "The coordinator is not aware of this member",
        ),
        Pattern(SignName.LEAVES, r"Stopped", "[Consumer] Stopped"),
        Pattern(SignName.REFUSED, r"Crash: (?P<error>.*)", "[Consumer] Crash: "),
        Pattern(SignName.NOTHING, r"Response Heartbeat\(key: 12, version: \d+\)", "Response Heartbeat(key: 12"),
    ),
    library=Library.KAFKAJS,
)
