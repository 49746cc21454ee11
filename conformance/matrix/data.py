"""The data of the matrix: the reports of all runs, reduced to the fields on its page, and the counts of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from kafka_shim.conformance.expect import Expectations, Kind
from kafka_shim.conformance.plain import ranges
from kafka_shim.conformance.verdict import Verdict

SCHEMA: Final = 1

TARGETS: Final = (
    "shim",
    "shim:sqlite:",
    "shim:postgresql:",
    "kafka:4.4",
    "kafka:4.3",
    "kafka:4.2",
    "kafka:4.1",
    "kafka:4.0",
    "kafka:3.9",
    "kafka:3.6",
    "kafka:3.3",
    "kafka:2.8",
    "kfake",
    "rdkafka-mock",
    "nisshi",
    "tansu",
)
"""The default targets. A run on Tansu takes more than ten minutes, so it comes last."""

EXCUSED: Final = frozenset({Kind.OFF, Kind.LATER})
"""The kinds of results that do not count against a target."""

NOT_RUN: Final = frozenset({"skip", "unimplemented", *EXCUSED})

THEMES: Final[Mapping[str, tuple[str, ...]]] = {
    "JoinGroup": ("join", "delay", "size", "found"),
    "SyncGroup": ("sync",),
    "Heartbeat": ("heartbeat",),
    "LeaveGroup": ("leave",),
    "static members": ("static",),
    "offsets": ("commit", "fetch", "expiry", "offset-delete"),
    "transactions": ("txn-*",),
    "groups: describe, list, delete": ("describe", "list", "delete"),
    "consumer groups (KIP-848)": ("consumer", "consumer-*", "migrate"),
    "share groups (KIP-932)": ("share", "share-state"),
    "streams groups (KIP-1071)": ("streams", "topology-description"),
    "administrators": (
        "alter-configs",
        "config-resources",
        "delete-records",
        "describe-configs",
        "elect-leaders",
        "log-dirs",
        "producers",
        "quorum",
        "reassign",
        "topic-partitions",
        "incremental-alter-configs",
        "unregister-controller",
    ),
    "users, permissions, quotas": ("access", "acls", "sasl", "scram", "tokens", "quotas", "throttle"),
    "finding one's way, robustness": ("apiversions", "find", "metadata", "fetch-session", "oversized", "wire"),
}
"""The rows of the compact table; each combines several areas."""


@dataclass(frozen=True)
class Count:
    """The number of cells that passed, that ran, and in total."""

    passed: int
    ran: int
    all: int

    @property
    def text(self) -> str:
        return f"{self.passed}/{self.ran}" if self.ran else "–"

    @property
    def kind(self) -> str:
        """The colour class: `pass`, `part`, `fail` or `none`."""
        if not self.ran:
            return "none"
        return "pass" if self.passed == self.ran else "part" if self.passed else "fail"


def server_run(report: Mapping[str, Any], date: str, expected: Expectations | None = None) -> dict[str, Any]:
    """Reduce the report of a server run: by case, the counts and versions of each verdict, and why one did not pass.

    The present expectations for the target decide which results are known and which are unexpected.
    """
    expected = expected or Expectations.of_target(report["target"])
    unexpected = len(report.get("violations", []))
    cases: dict[str, dict[str, Any]] = {}
    versions: dict[tuple[str, str], list[int]] = {}
    for cell in report["cells"]:
        case = cases.setdefault(cell["case"], {"counts": {}})
        verdict, version = cell["verdict"], 0 if cell["version"] is None else cell["version"]
        unexpected += expected.surprise(cell["case"], version, Verdict(verdict)) is not None
        line = None if verdict == "pass" else expected.of_cell(cell["case"], version)
        if line is not None and line.kind in EXCUSED and Verdict(verdict) in line.verdicts:
            verdict = str(line.kind)
        case["counts"][verdict] = case["counts"].get(verdict, 0) + 1
        if cell["version"] is not None and cell["version"] >= 0:
            versions.setdefault((cell["case"], verdict), []).append(cell["version"])
        if verdict != "pass":
            case.setdefault("why", cell["reason"].partition("\n")[0][:200])
            if line is not None:
                case.setdefault("known", line.reason)
    for (case_id, verdict), numbers in versions.items():
        cases[case_id].setdefault("versions", {})[verdict] = ranges(numbers)
    return {
        "target": report["target"],
        "description": report["description"],
        "date": date,
        "seconds": round(report["seconds"]),
        "news": unexpected,
        "cases": cases,
    }


def client_runs(report: Mapping[str, Any], date: str) -> list[dict[str, Any]]:
    """Reduce the report of a client run, by protocol and target: by client and case, the verdict and its reason."""
    runs: dict[tuple[str, str], dict[str, Any]] = {}
    for each in report["results"]:
        target, protocol = each.get("target") or report["target"], each.get("protocol") or "classic"
        empty = {
            "target": target,
            "protocol": protocol,
            "date": date,
            "seconds": 0.0,
            "news": 0,
            "scenarios": {},
            "clients": {},
        }
        run = runs.setdefault((protocol, target), empty)
        run["scenarios"].setdefault(each["case"], {name: each.get(name, "") for name in ("title", "source", "level")})
        run["seconds"] += each.get("seconds", 0)
        run["news"] += bool(each.get("surprise")) + len(each.get("violations", ()))
        outcome = {"verdict": each["verdict"]}
        if each["verdict"] != "pass":
            outcome["why"] = each["reason"][:200]
            if each.get("expected"):
                outcome["known"] = each["expected"]
        run["clients"].setdefault(each["client"], {})[each["case"]] = outcome
    for run in runs.values():
        run["seconds"] = round(run["seconds"])
    return [runs[key] for key in sorted(runs)]


def titles(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return title, source and level of the cases in server reports."""
    cases: dict[str, Any] = {}
    for report in reports:
        for cell in report.get("cells", ()):
            cases.setdefault(cell["case"], {name: cell[name] for name in ("title", "source", "level")})
    return dict(sorted(cases.items()))


def matrix_of(
    reports: list[tuple[Mapping[str, Any], str]], date: str, commit: str, expected: Expectations | None = None
) -> dict[str, Any]:
    """Combine reports, each with its date. `expected` replaces the expectations in this package."""
    return {
        "schema": SCHEMA,
        "date": date,
        "commit": commit,
        "cases": titles(report for report, _ in reports),
        "servers": [server_run(report, day, expected) for report, day in reports if "cells" in report],
        "clients": merged(run for report, day in reports if "results" in report for run in client_runs(report, day)),
    }


def with_earlier(matrix: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Add the runs of an earlier matrix on targets and of clients that this one lacks; each run has its own date."""
    servers = {run["target"]: run for run in (*earlier["servers"], *matrix["servers"])}
    clients = {(run["protocol"], run["target"]): dict(run) for run in matrix["clients"]}
    for run in earlier["clients"]:
        whole = clients.setdefault((run["protocol"], run["target"]), dict(run))
        if run["clients"].keys() - whole["clients"] and run["date"] != whole["date"]:
            whole["date"] = f"{run['date'].partition(' ')[0]} to {whole['date']}"
        for name in ("scenarios", "clients"):
            whole[name] = run[name] | whole[name]
    return {
        **matrix,
        "cases": dict(sorted((earlier["cases"] | matrix["cases"]).items())),
        "servers": sorted(servers.values(), key=lambda run: _place(run["target"])),
        "clients": [clients[key] for key in sorted(clients)],
    }


def _place(target: str) -> int:
    """Return the place of a target among the default ones; `kafka:4.2.2` is the newest release of `kafka:4.2`."""
    places = [place for place, name in enumerate(TARGETS) if f"{target}.".startswith(f"{name}.")]
    return places[0] if places else len(TARGETS)


def merged(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge the client runs of one protocol on one target; the date is the latest."""
    by_key: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        whole = by_key.setdefault((run["protocol"], run["target"]), run)
        if whole is not run:
            whole["scenarios"] |= run["scenarios"]
            whole["clients"] |= run["clients"]
            whole["seconds"] += run["seconds"]
            whole["news"] += run["news"]
            whole["date"] = max(whole["date"], run["date"])
    return [by_key[key] for key in sorted(by_key)]


def counted(run: Mapping[str, Any], areas: Iterable[str]) -> Count:
    """Count the cells of a server run in some areas."""
    patterns = tuple(areas)
    passed = ran = every = 0
    for case_id, outcome in run["cases"].items():
        if any(fnmatchcase(case_id.split("/")[0], pattern) for pattern in patterns):
            counts = outcome["counts"]
            every += sum(counts.values())
            ran += sum(count for verdict, count in counts.items() if verdict not in NOT_RUN)
            passed += counts.get("pass", 0)
    return Count(passed, ran, every)


def excused(run: Mapping[str, Any]) -> int:
    """Count the cells of a server run that its release has switched off, or that Kafka changed later."""
    return sum(case["counts"].get(kind, 0) for case in run["cases"].values() for kind in EXCUSED)


def counted_clients(clients: Mapping[str, Any]) -> Count:
    """Count the scenarios of one client."""
    verdicts = [outcome["verdict"] for outcome in clients.values()]
    ran = [verdict for verdict in verdicts if verdict not in NOT_RUN]
    return Count(ran.count("pass"), len(ran), len(verdicts))
