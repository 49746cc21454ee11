"""The targets a suite can run against, by the name a user gives them."""

from __future__ import annotations

from kafka_shim.conformance.targets.base import Instance, Limits, Target, TargetError
from kafka_shim.conformance.targets.foreign import ForeignTarget
from kafka_shim.conformance.targets.kafka import KafkaTarget
from kafka_shim.conformance.targets.kfake import KfakeTarget
from kafka_shim.conformance.targets.rdkafka_mock import RdkafkaMockTarget
from kafka_shim.conformance.targets.shim import ShimTarget

__all__ = ["ForeignTarget", "Instance", "Limits", "Target", "TargetError", "open_target"]


def open_target(spec: str) -> Target:
    """The target of `shim[:STORE]`, `kafka[:VERSION]`, `kfake[:VERSION]`, `rdkafka-mock` or `HOST:PORT`.

    A number alone is a port and no version: hosts are called `kafka` too.
    """
    kind, _, rest = spec.partition(":")
    if rest.isdigit():
        return ForeignTarget(spec)
    if kind == "shim":
        return ShimTarget(rest) if rest else ShimTarget()
    if kind == "kafka":
        return KafkaTarget(rest) if rest else KafkaTarget()
    if kind == "kfake":
        return KfakeTarget(rest) if rest else KfakeTarget()
    if kind == "rdkafka-mock":
        return RdkafkaMockTarget()
    return ForeignTarget(spec)
