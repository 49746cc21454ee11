"""The kinds of groups of a coordinator. `docs/kinds.md` tells how to add one."""

from __future__ import annotations

from typing import Final

from kafka_shim.groups.classic.kind import KIND as CLASSIC
from kafka_shim.groups.consumer.kind import KIND as CONSUMER
from kafka_shim.groups.shard import Kinds
from kafka_shim.groups.share.kind import KIND as SHARE
from kafka_shim.groups.streams.kind import KIND as STREAMS

KINDS: Final = Kinds(CLASSIC, CONSUMER, SHARE, STREAMS)
