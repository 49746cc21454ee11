"""The targets a suite can run against, by the name a user gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_shim.conformance.endpoint import parse_endpoints
from kafka_shim.conformance.targets.base import Instance, Limits, Target, TargetError
from kafka_shim.conformance.targets.foreign import ForeignTarget, Place, declared
from kafka_shim.conformance.targets.kafka import KafkaTarget
from kafka_shim.conformance.targets.kfake import KfakeTarget
from kafka_shim.conformance.targets.nisshi import NisshiTarget
from kafka_shim.conformance.targets.rdkafka_mock import RdkafkaMockTarget
from kafka_shim.conformance.targets.shim import ShimTarget
from kafka_shim.conformance.targets.tansu import TansuTarget

__all__ = ["ForeignTarget", "Instance", "Limits", "Target", "TargetError", "open_target"]


def open_target(
    spec: str,
    *,
    start: str = "",
    places: Mapping[str, Place] | None = None,
    capabilities: Iterable[str] = (),
    client_id: str = "",
) -> Target:
    """The target of a name, addresses or a file, with what other options say of one that is not ours.

    `start`: the command that starts it; `places`: where the instances of profiles are. A name with a number is an
    address: hosts are called `kafka` too. Raises TargetError, in a sentence, where there is no such target.
    """
    kind, _, rest = spec.partition(":")
    foreign = bool(start or places or capabilities or client_id)
    if not foreign and not _is_address(spec):
        if kind == "shim":
            return ShimTarget(rest) if rest else ShimTarget()
        if kind == "kafka":
            return KafkaTarget(rest) if rest else KafkaTarget()
        if kind == "kfake":
            return KfakeTarget(rest) if rest else KfakeTarget()
        if spec == "rdkafka-mock":
            return RdkafkaMockTarget()
        if spec == "tansu":
            return TansuTarget()
        if spec == "nisshi":
            return NisshiTarget()
    declaration = declared(spec, start=start, places=places, capabilities=capabilities)
    return ForeignTarget(replace(declaration, client_id=client_id or declaration.client_id))


def _is_address(spec: str) -> bool:
    try:
        parse_endpoints(spec)
    except ValueError:
        return False
    return True
