"""A user's own target: one that runs already, at one address or several, or one that a command starts.

Starts the command for a profile and waits until it listens; `peers.py` reads the limits of the running target.
"""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kafka_shim.conformance.endpoint import Endpoint, parse_endpoints
from kafka_shim.conformance.secure import Secure
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
_FIELDS: Final = frozenset({"name", "address", "start", "client-id", "capabilities", "limits", "profiles", "baseline"})
_MAX_LINES: Final = 8


@dataclass(frozen=True)
class Place:
    """The place of a profile's instance: `endpoints` that listen already, or will after the command `start`."""

    endpoints: tuple[Endpoint, ...] = ()
    start: str = ""

    def __str__(self) -> str:
        return self.start or ",".join(map(str, self.endpoints))


@dataclass(frozen=True)
class Declaration:
    """A user's description of a target. `settings` are limits by Kafka's names, beside those the target describes."""

    name: str
    places: Mapping[str, Place]
    capabilities: frozenset[str] = frozenset()
    client_id: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    baseline: Path | None = None
    secure: Secure | None = None


def place_of(text: str) -> Place:
    """Parse a place on the command line: addresses, or a command."""
    try:
        return Place(parse_endpoints(text))
    except ValueError:
        return Place(start=text)


def read_declaration(path: Path) -> Declaration:
    """Read the declaration in a TOML file, as in `docs/conformance.md`. Raises TargetError for an invalid one."""
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
        # A command with {profile} or {properties} starts every profile.
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
            path.parent / table["baseline"] if "baseline" in table else None,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise TargetError(f"{path}: {error}") from error


def _only(table: Mapping[str, Any], names: frozenset[str]) -> None:
    unknown = sorted(table.keys() - names)
    if unknown:
        raise ValueError(f"{unknown[0]} is unknown; the names are {', '.join(sorted(names))}")


def _place(entry: Mapping[str, Any]) -> Place:
    return Place(parse_endpoints(entry["address"]) if "address" in entry else (), str(entry.get("start", "")))


def declared(
    spec: str, *, start: str = "", places: Mapping[str, Place] | None = None, capabilities: Iterable[str] = ()
) -> Declaration:
    """Return the declaration for a file or addresses, completed by the other options.

    Raises TargetError, in one sentence, if this is not a target.
    """
    if spec.endswith(".toml"):
        declaration = read_declaration(Path(spec))
    elif not spec:
        declaration = Declaration("target", {})
    else:
        try:
            declaration = Declaration(spec, {"default": Place(parse_endpoints(spec))})
        except ValueError:
            raise TargetError(f"there is no target {spec}; it is {KINDS}") from None
    everywhere = dict(declaration.places)
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
        declaration.name,
        everywhere,
        declaration.capabilities | frozenset(capabilities),
        declaration.client_id,
        declaration.settings,
        declaration.baseline,
    )


class ForeignTarget:
    """A user's own target."""

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
        first, *others = (replace(each, secure=self.declaration.secure) for each in endpoints)
        return Instance(
            first.host,
            first.port,
            profile,
            limits,
            self.declaration.capabilities,
            self.name,
            process,
            tuple(others),
            secure=first.secure,
        )

    def _run(self, place: Place, profile: str) -> tuple[subprocess.Popen[str], tuple[Endpoint, ...]]:
        folder = self._children.folder("conformance-target-")
        port = free_port(is_held=False)
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
            lines = (folder / "log").read_text(errors="replace").splitlines()[-_MAX_LINES:]
            raise TargetError("\n".join([f"{error}; it printed:", *lines]) if lines else str(error)) from error
        return process, endpoints

    def stop(self) -> None:
        """End the processes started here; a target that ran before runs on."""
        self._children.end()
