"""The targets of the suite, by the names on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_shim.conformance.endpoint import parse_endpoints
from kafka_shim.conformance.secure import Secure
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
    secure: Secure | None = None,
) -> Target:
    """Return the target for a name, addresses or a file; the other options complete a foreign one.

    `start`: the command that starts it; `places`: the instances of profiles; `secure`: TLS and SASL of the suite's
    connections. A name with a number is an address, because hosts are called `kafka` too. Raises TargetError, in a
    sentence, for an unknown target.
    """
    kind, _, rest = spec.partition(":")
    foreign = bool(start or places or capabilities or client_id or secure)
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
    if secure is not None and not (start or places or _is_address(spec) or spec.endswith(".toml")):
        raise TargetError(f"the suite starts {spec} without TLS and SASL: name a target by its address instead")
    declaration = declared(spec, start=start, places=places, capabilities=capabilities)
    return ForeignTarget(replace(declaration, client_id=client_id or declaration.client_id, secure=secure))


def _is_address(spec: str) -> bool:
    try:
        parse_endpoints(spec)
    except ValueError:
        return False
    return True
