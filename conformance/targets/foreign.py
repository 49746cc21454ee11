"""A target of somebody's own: one that runs already, at one address or several, or one that a command starts.

Decides how a command is started for a profile and when it is ready. Does not know what the target can do:
`peers.py` reads its limits when it runs.
"""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka_shim.conformance.endpoint import Endpoint, parse_endpoints
from kafka_shim.conformance.targets.base import (
    PROFILES,
    READY_SECONDS,
    Children,
    Instance,
    Limits,
    TargetError,
    free_port,
    wait_until_listening,
)

KINDS: Final = "shim[:STORE], kafka[:VERSION], kfake, rdkafka-mock, tansu, nisshi, HOST:PORT[,HOST:PORT] or FILE.toml"
_FIELDS: Final = frozenset({"name", "address", "start", "client-id", "capabilities", "limits", "profiles", "expect"})
_LINES_SHOWN: Final = 8


@dataclass(frozen=True)
class Place:
    """Where the instance of a profile is: `endpoints` that listen already, or will once `start` runs."""

    endpoints: tuple[Endpoint, ...] = ()
    start: str = ""

    def __str__(self) -> str:
        return self.start or ",".join(map(str, self.endpoints))


@dataclass(frozen=True)
class Declaration:
    """What a user says about a target: `settings` are limits by Kafka's names, for a target that does not tell them."""

    name: str
    places: Mapping[str, Place]
    capabilities: frozenset[str] = frozenset()
    client_id: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    expect: Path | None = None


def place_of(text: str) -> Place:
    """A place as one word of the command line: addresses, or a command."""
    try:
        return Place(parse_endpoints(text))
    except ValueError:
        return Place(start=text)


def read_declaration(path: Path) -> Declaration:
    """The declaration in a TOML file; `docs/conformance.md` describes it. Raises TargetError where it is none."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TargetError(f"{path} cannot be read: {error}") from error
    try:
        _only(table, _FIELDS)
        places = {"default": _place(table)} if {"address", "start"} & table.keys() else {}
        for profile, entry in table.get("profiles", {}).items():
            _only({profile: entry}, frozenset(PROFILES))
            _only(entry, frozenset({"address", "start"}))
            places[profile] = _place(entry)
        # A command with a place for the profile or its settings starts every profile.
        start = places.get("default", Place()).start
        if "{properties}" in start or "{profile}" in start:
            places = dict.fromkeys(PROFILES, places["default"]) | places
        if "default" not in places:
            raise ValueError("it needs an address, or a start command")
        return Declaration(
            str(table.get("name", path.stem)),
            places,
            frozenset(table.get("capabilities", ())),
            str(table.get("client-id", "")),
            {name: str(value) for name, value in table.get("limits", {}).items()},
            path.parent / table["expect"] if "expect" in table else None,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise TargetError(f"{path}: {error}") from error


def _only(table: Mapping[str, Any], names: frozenset[str]) -> None:
    unknown = sorted(table.keys() - names)
    if unknown:
        raise ValueError(f"{unknown[0]} is none of {', '.join(sorted(names))}")


def _place(entry: Mapping[str, Any]) -> Place:
    return Place(parse_endpoints(entry["address"]) if "address" in entry else (), str(entry.get("start", "")))


def declared(
    spec: str, *, start: str = "", places: Mapping[str, Place] | None = None, capabilities: Iterable[str] = ()
) -> Declaration:
    """The declaration of a target's name, a file or addresses, with what other options say beside it.

    Raises TargetError, in one sentence, where this is no target.
    """
    if spec.endswith(".toml"):
        found = read_declaration(Path(spec))
    elif not spec:
        found = Declaration("target", {})
    else:
        try:
            found = Declaration(spec, {"default": Place(parse_endpoints(spec))})
        except ValueError:
            raise TargetError(f"there is no target {spec}; it is {KINDS}") from None
    everywhere = dict(found.places)
    if start:
        default = everywhere.get("default", Place())
        profiles = PROFILES if "{properties}" in start or "{profile}" in start else ("default",)
        everywhere |= {profile: Place(default.endpoints, start) for profile in profiles}
    everywhere |= places or {}
    if "default" not in everywhere:
        raise TargetError("the target has no address and no start command")
    for profile, place in everywhere.items():
        if not place.endpoints and "{port}" not in place.start:
            raise TargetError(f"the command of profile {profile} has no {{port}}, and no address says where it listens")
    return Declaration(
        found.name,
        everywhere,
        found.capabilities | frozenset(capabilities),
        found.client_id,
        found.settings,
        found.expect,
    )


class ForeignTarget:
    """A target of somebody's own."""

    def __init__(self, declaration: Declaration | str) -> None:
        self.declaration = declared(declaration) if isinstance(declaration, str) else declaration
        self.name = self.declaration.name
        self.profiles = frozenset(self.declaration.places)
        self.violations: list[str] = []
        self._children = Children()

    def start(self, profile: str) -> Instance:
        place = self.declaration.places[profile]
        limits = Limits().configured(self.declaration.settings)
        process = None
        endpoints = place.endpoints
        if place.start:
            process, endpoints = self._run(place, profile)
        first, *others = endpoints
        return Instance(
            first.host,
            first.port,
            profile,
            limits,
            self.declaration.capabilities,
            self.name,
            process,
            tuple(others),
        )

    def _run(self, place: Place, profile: str) -> tuple[subprocess.Popen[str], tuple[Endpoint, ...]]:
        folder = self._children.folder("conformance-target-")
        port = free_port()
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in PROFILES[profile].items()))
        command = place.start
        for name, value in (("port", port), ("profile", profile), ("properties", properties), ("folder", folder)):
            command = command.replace("{" + name + "}", str(value))
        endpoints = place.endpoints or (Endpoint("127.0.0.1", port),)
        with open(folder / "log", "wb") as log:
            process = self._children.start(["/bin/sh", "-c", command], stdout=log, stderr=log)
        try:
            wait_until_listening(endpoints[0], process, READY_SECONDS)
        except TargetError as error:
            lines = (folder / "log").read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
            raise TargetError("\n".join([f"{error}; it printed:", *lines]) if lines else str(error)) from error
        return process, endpoints

    def stop(self) -> None:
        """End what was started here; what ran already goes on."""
        self._children.end()
