"""Lines of librdkafka, the library below confluent-kafka for Python, Go and .NET, node-rdkafka and rust-rdkafka.

At its default level it tells a missed poll interval, a lost session, refused commits and a fenced instance id, and
nothing of joins, partitions and refusals; `debug=cgrp` tells those. A line has the client id, and with `debug=cgrp`
often the group. Source: `rdkafka_cgrp.c` and `rdkafka_consumer.c` of librdkafka 2.16.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.client_program import ClientProgram
from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.signs import SignName
from kafka_shim.trace.clients import Library

_PREFIX: Final = (
    r"(?:[A-Z0-9_]+ \[(?P<client_id>.*?)#consumer-\d+\]:? (?:\[thrd:.*?\]: )?|.{0,200}?\[thrd:[^\]]*\]: )?"
    r"(?:\S+/-?\d+: )?(?:Group \"(?P<group>.*?)\":? )?"
)
"""With the logger of confluent-kafka the facility and the name are part of the text, in .NET, Ruby and Rust the thread.
Then there may be a broker and a group.
"""

LIBRDKAFKA: Final = ClientProgram(
    "librdkafka",
    _PREFIX,
    (
        Pattern(
            SignName.POLL_EXPIRED,
            r"Application maximum poll interval \((?P<interval_ms>\d+)ms\) exceeded by (?P<excess_ms>\d+)ms",
            "Application maximum poll interval ",
        ),
        Pattern(
            SignName.SESSION_LOST,
            r"Consumer group session timed out \(in join-state (?P<state>[\w-]+)\) after (?P<silent_ms>\d+) ?ms"
            r" without a successful response from the group coordinator"
            r"(?: \(broker (?P<coordinator>-?\d+), last error was (?P<error>.*?)\))?",
            "Consumer group session timed out ",
        ),
        Pattern(
            SignName.COMMIT_FAILED,
            r"Offset commit \((?P<reason>.*?)\) failed for (?P<failed>\d+)/\d+ partition\(s\)"
            r"(?: in join-state (?P<state>[\w-]+))?: (?P<error>[^:]*(?:: [^:]*)?)",
            "Offset commit (",
        ),
        Pattern(
            SignName.REPLACED,
            r"Fatal error: Broker: Static consumer fenced by other consumer",
            "Static consumer fenced by other consumer",
        ),
        Pattern(SignName.REFUSED, r"Fatal error: (?P<error>.*)", "Fatal error: "),
        Pattern(
            SignName.IN_GENERATION,
            r"JoinGroup response: GenerationId (?P<generation>\d+), Protocol (?P<protocol>.*?), LeaderId"
            r" (?P<leader>.*?)(?: \(me\))?, my MemberId (?P<member>.*?), member metadata count (?P<members>\d+):"
            r" \(no error\)",
            "JoinGroup response: GenerationId ",
        ),
        Pattern(
            SignName.REFUSED,
            r"JoinGroup response: GenerationId -?\d+, .*, my MemberId (?P<member>.*?), member metadata count \d+:"
            r" (?P<error>Broker: (?:Inconsistent group protocol|Invalid session timeout"
            r"|Consumer group has reached maximum size|Group authorization failed))",
            "JoinGroup response: GenerationId ",
        ),
        Pattern(
            SignName.ID_RECEIVED,
            r"updating member id \".*?\" -> \"(?P<member>[^\"(].*?)\"",
            "updating member id ",
        ),
        Pattern(
            SignName.ASKS_TO_JOIN,
            r"Joining group \"(?P<of_group>.*)\" with \d+ subscribed topic\(s\) and member id \"(?P<member>.*)\"",
            "Joining group ",
        ),
        Pattern(
            SignName.METADATA_CHANGED,
            r"initiating rebalance .*? with [1-9]\d* assigned partition\(s\)(?: \(lost\))?:"
            r" Metadata for subscribed topic\(s\) has changed",
            "Metadata for subscribed topic(s) has changed",
        ),
        Pattern(
            SignName.FOLLOWS,
            r"is rebalancing .*? with \d+ assigned partition\(s\)(?: \(lost\))?: rebalance in progress",
            ": rebalance in progress",
        ),
        Pattern(
            SignName.REBALANCES,
            r"(?:initiating rebalance|is rebalancing) .*?with (?P<partitions>\d+) assigned partition\(s\)"
            r"(?: \((?P<lost>lost)\))?: (?P<reason>.*)",
            " assigned partition(s)",
        ),
        Pattern(
            SignName.THROWN_OUT,
            r"(?:.*heartbeat error response in state .*?: )(?P<error>Broker: (?:Unknown member"
            r"|Specified group generation id is not valid))",
            "heartbeat error response in state ",
        ),
        Pattern(
            SignName.FOLLOWS,
            r"(?:.*heartbeat error response in state .*?: )Broker: Group rebalance in progress",
            "heartbeat error response in state ",
        ),
        Pattern(
            SignName.COORDINATOR_LOST,
            r".*marking the coordinator \((?P<coordinator>-?\d+)\) dead: (?P<error>.*)",
            "marking the coordinator (",
        ),
        Pattern(
            SignName.COORDINATOR_LOST,
            r"Heartbeat failed due to coordinator \((?P<coordinator>.*?)\) no longer available:"
            r" (?P<error>[^:]*: [^:]*)",
            "Heartbeat failed due to coordinator (",
        ),
        Pattern(
            SignName.COORDINATOR_LOST,
            r"(?:.*heartbeat error response in state .*?: )(?P<error>Broker: Not coordinator)",
            "heartbeat error response in state ",
        ),
        Pattern(SignName.LEAVES, r"leave \(in state \w+\)", ": leave (in state "),
        Pattern(SignName.VERSION, r".*librdkafka v(?P<version>[\d.]+\S*)", "librdkafka v"),
    ),
    loggers=r"[A-Z][A-Z0-9_]*$|(?:lib)?rdkafka",
    library=Library.LIBRDKAFKA,
)
