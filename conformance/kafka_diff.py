"""List the differences of two releases of Apache Kafka: versions, messages, records, error codes, features, settings.

Reads the jars that Maven fetches: the schemas of messages and records are in them as JSON; a small Java program prints
error codes, features and settings. With `--runs FOLDER` it also compares the running releases, by the conformance suite
and by random scripts. `docs/versions.md` tells the next steps.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kafka_shim.apis.releases import RELEASES, is_at_least
from kafka_shim.conformance import processes
from kafka_shim.conformance.differential.run import HEARTBEATS
from kafka_shim.conformance.differential.script import PROTOCOLS, Step
from kafka_shim.conformance.matrix.command import report_of
from kafka_shim.conformance.peer import OLDEST
from kafka_shim.conformance.plain import ranges
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import NEWEST, class_path

_SCHEMAS: Final = "common/message/"
_WIDTH: Final = 240
"""Characters of a reason in the list."""
_SCRIPTS: Final = 100
"""Random scripts of each kind of groups."""
_FIELDS: Final = re.compile(r", (?=\w+=|\{|'\w+': )")
"""The text between two fields of an answer, or of a group as described."""
_PROGRAM: Final = """\
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

public class Dump {
    public static void main(String[] arguments) throws Exception {
        for (Errors each : Errors.values())
            System.out.println("error\\t" + each.code() + "\\t" + each.name() + ": " + each.message());
        for (Feature each : Feature.PRODUCTION_FEATURES)
            System.out.println("feature\\t" + each.featureName() + "\\tto level " + each.latestProduction());
        System.out.println("feature\\tmetadata.version\\tto level " + MetadataVersion.latestProduction().featureLevel()
            + ", " + MetadataVersion.latestProduction());
        dump("broker", "kafka.server.KafkaConfig");
        dump("group", "org.apache.kafka.coordinator.group.GroupConfig");
        dump("topic", "org.apache.kafka.storage.internals.log.LogConfig");
        synonyms();
    }

    // Releases differ in where a class keeps its definitions: in a method or in a field.
    static ConfigDef definition(Class<?> of) throws Exception {
        for (Method each : of.getDeclaredMethods())
            if (each.getName().startsWith("configDef") && each.getReturnType() == ConfigDef.class
                    && each.getParameterCount() == 0 && Modifier.isStatic(each.getModifiers())) {
                each.setAccessible(true);
                return (ConfigDef) each.invoke(null);
            }
        for (String name : new String[] {"CONFIG", "CONFIG_DEF"})
            for (Field each : of.getDeclaredFields())
                if (each.getName().equals(name)) {
                    each.setAccessible(true);
                    return (ConfigDef) each.get(null);
                }
        throw new NoSuchFieldException(of + " has no definitions");
    }

    // 4.2 has the settings that a running broker can change in an object of Scala.
    static Set<?> dynamic() throws Exception {
        try {
            return (Set<?>) Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig")
                .getField("ALL_DYNAMIC_CONFIGS").get(null);
        } catch (ClassNotFoundException before43) {
            return scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Set<?>)
                Class.forName("kafka.server.DynamicBrokerConfig").getMethod("AllDynamicConfigs").invoke(null));
        }
    }

    // 4.2 has no table of them.
    static void synonyms() throws Exception {
        Class<?> of = Class.forName("org.apache.kafka.coordinator.group.GroupConfig");
        for (Field field : of.getFields())
            if (field.getName().equals("ALL_GROUP_CONFIG_SYNONYMS"))
                for (Map.Entry<?, ?> each : ((Map<?, ?>) field.get(null)).entrySet())
                    System.out.println("synonym\\t" + each.getKey() + "\\t"
                        + ((Optional<?>) each.getValue()).map(String::valueOf).orElse("(none)"));
    }

    static void dump(String kind, String of) throws Exception {
        Set<?> dynamic = kind.equals("broker") ? dynamic() : Set.of();
        for (Map.Entry<String, ConfigDef.ConfigKey> each : definition(Class.forName(of)).configKeys().entrySet()) {
            ConfigDef.ConfigKey key = each.getValue();
            String value = key.hasDefault() ? String.valueOf(key.defaultValue) : "(none)";
            String bounds = key.validator == null ? "" : key.validator.toString().replaceAll("@[0-9a-f]+", "");
            System.out.println(kind + "\\t" + each.getKey() + "\\t" + key.type() + ", default " + value
                + (bounds.isBlank() ? "" : ", " + bounds)
                + (key.internalConfig ? ", internal" : "") + (dynamic.contains(each.getKey()) ? ", dynamic" : ""));
        }
    }
}
"""

Facts = dict[str, dict[str, str]]
"""Values by name, by heading."""


def facts_of(version: str) -> Facts:
    """Return all that is compared in one release. Raises `TargetError` if it cannot be fetched or read."""
    path = class_path(version)
    facts: Facts = {"API versions": {}, "messages": {}, "records": {}}
    for jar in map(Path, path.split(os.pathsep)):
        if jar.name.endswith(f"-{version}.jar"):
            for schema in _schemas(jar):
                _read(schema, facts)
    return facts | _of_java(version, path)


def _schemas(jar: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(jar) as files:
        for name in files.namelist():
            if name.startswith(_SCHEMAS) and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", files.read(name).decode(), flags=re.M)
                yield json.loads(re.sub(r"\s+//[^\"]*$", "", text, flags=re.M))


def _read(schema: dict[str, Any], facts: Facts) -> None:
    name, versions = schema["name"], schema["validVersions"]
    if schema["type"] in ("request", "response"):
        if schema["type"] == "request":
            unstable = ", the last one unstable" if schema.get("latestVersionUnstable") else ""
            key, api = schema["apiKey"], name.removesuffix("Request")
            facts["API versions"][api] = f"key {key}, {versions}{unstable}, {'/'.join(schema.get('listeners', []))}"
        heading = "messages"
    else:
        heading = "records"
    facts[heading][name] = f"{versions}, flexible {schema.get('flexibleVersions', 'none')}"
    structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}
    _read_fields(name, schema.get("fields", []), structs, facts[heading])


def _read_fields(
    path: str, fields: list[dict[str, Any]], structs: Mapping[str, list[dict[str, Any]]], into: dict[str, str]
) -> None:
    """Note each field with all that decides its bytes; structs are followed, a struct within itself is not."""
    for field in fields:
        place = f"{path}.{field['name']}"
        kind = field["type"]
        about = [kind, field.get("versions", "all")]
        about += [
            f"{label} {field[key]}"
            for key, label in (("nullableVersions", "nullable"), ("tag", "tag"), ("default", "default"))
            if key in field
        ]
        into[place] = ", ".join(map(str, about))
        struct = kind.removeprefix("[]")
        inner = field.get("fields") or structs.get(struct, [])
        _read_fields(place, inner, {name: each for name, each in structs.items() if name != struct}, into)


def _of_java(version: str, path: str) -> Facts:
    folder = processes.temporary_folder("kafka-diff-")
    program = folder / "Dump.java"
    program.write_text(_PROGRAM)
    done = processes.run(["java", "-cp", path, program])
    shutil.rmtree(folder)
    if done.returncode != 0:
        raise TargetError(f"the settings of Kafka {version} cannot be read: {done.stderr[-500:]}")
    headings = {
        "error": "error codes",
        "feature": "features",
        "broker": "broker settings",
        "group": "group settings",
        "topic": "topic settings",
        "synonym": "broker settings behind group settings",
    }
    facts: Facts = {heading: {} for heading in headings.values()}
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition("\t")
        if kind in headings:
            name, _, value = rest.partition("\t")
            facts[headings[kind]][name] = value
    return facts


def differences(before: Facts, after: Facts) -> Iterator[str]:
    """Yield the lines of the list: new, gone and changed values under each heading."""
    for heading, values in after.items():
        old = before.get(heading, {})
        lines = [f"- new: {name}: {value}" for name, value in values.items() if name not in old]
        lines += [f"- gone: {name}: {value}" for name, value in old.items() if name not in values]
        lines += [
            f"- changed: {name}: {old[name]} -> {value}"
            for name, value in values.items()
            if name in old and old[name] != value
        ]
        yield f"## {heading}: {len(lines)}"
        yield from sorted(lines)


def differences_of_runs(before: str, after: str, folder: Path) -> Iterator[str]:
    """Run the conformance suite on two releases, and random scripts on both side by side; yield the lines of the list.

    The rules of the older release judge both, so that a rule that changed is a cell with another verdict. `folder`
    keeps the reports, and a run with a report is not repeated. Raises `TargetError` if a run ends without one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rules = rules_before(before)
    reports = [
        _report(folder / f"kafka-{each}.json", "--target", f"kafka:{each}", "--rules", rules)
        for each in (before, after)
    ]
    of_old, of_new = map(_cells, reports)
    changed: dict[tuple[str, str, str], list[_Place]] = {}
    for place in of_old.keys() & of_new.keys():
        was, now = of_old[place]["verdict"], of_new[place]["verdict"]
        if was != now:
            changed.setdefault((place[0], was, now), []).append(place)
    count = sum(map(len, changed.values()))
    cases = len({case for case, *_ in changed})
    yield f"## cells with another verdict by the rules of {rules}: {count}, of {cases} cases"
    for (case, was, now), places in sorted(changed.items()):
        yield f"- {_label(case, places)}: {was} -> {now}"
        yield f"  {of_new[places[0]]['title']}"
        for release, cells in ((before, of_old), (after, of_new)):
            yield from _why(release, cells[min(places)])
    alone = [(before, of_old, place) for place in of_old.keys() - of_new.keys()]
    alone += [(after, of_new, place) for place in of_new.keys() - of_old.keys()]
    yield f"## cells of one release: {len(alone)}"
    yield from _of_one_release(alone, {case for case, *_ in changed})
    for kind in PROTOCOLS:
        if kind == "classic" or all(_has(cells, HEARTBEATS[kind]) for cells in (of_old, of_new)):
            name = f"kafka-{after}-against-{before}-{kind}.json"
            chosen = ("--target", f"kafka:{after}", "--against", f"kafka:{before}", "--kind", kind)
            yield from _of_scripts(kind, _report(folder / name, *chosen, "--scripts", str(_SCRIPTS)))


def rules_before(release: str) -> str:
    """Return the newest release with rules in the suite that is not newer than a release, or the oldest with rules."""
    releases = RELEASES[RELEASES.index(OLDEST) :]
    return [each for each in releases if each == OLDEST or is_at_least(release, each)][-1]


def _report(path: Path, *arguments: str) -> dict[str, Any]:
    # The standard output has the list alone.
    if not report_of(path, list(arguments), sys.stderr):
        raise TargetError(f"no report of conformance {' '.join(arguments)}")
    report: dict[str, Any] = json.loads(path.read_text())
    return report


_Place = tuple[str, int | None]
"""The id and the version of a cell."""
_Cells = dict[_Place, dict[str, Any]]


def _cells(report: Mapping[str, Any]) -> _Cells:
    return {(each["case"], each["version"]): each for each in report["cells"]}


def _has(cells: _Cells, api: str) -> bool:
    """Return True if the release advertises an API."""
    return any(each["api"] == api and each["verdict"] != "unimplemented" for each in cells.values())


def _label(case: str, places: Iterable[_Place]) -> str:
    """Return the id of a case with the versions of its cells."""
    versions = [version for _, version in places if version is not None]
    return f"{case}@{ranges(versions)}" if versions else case


def _why(release: str, cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line that tells why a cell did not pass."""
    if cell["verdict"] != "pass":
        reason = cell["reason"].partition("\n")[0]
        yield f"  {release}: {reason if len(reason) <= _WIDTH else f'{reason[:_WIDTH]} ...'}"


def _of_one_release(alone: list[tuple[str, _Cells, _Place]], above: set[str]) -> Iterator[str]:
    """Yield the cells of one release: passes as counts by version of the API, then each other case.

    Cases that are `above` are in the list already.
    """
    passed = Counter(
        (cells[place]["api"] or "no API", place[1], release)
        for release, cells, place in alone
        if cells[place]["verdict"] == "pass"
    )
    for (api, version, release), count in sorted(passed.items(), key=str):
        yield f"- {api}{'' if version is None else f' {version}'}, {release} alone: {count} pass"
    others: dict[tuple[str, str, str], list[_Place]] = {}
    by_release = {release: cells for release, cells, _ in alone}
    for release, cells, place in alone:
        if cells[place]["verdict"] != "pass" and place[0] not in above:
            others.setdefault((place[0], release, cells[place]["verdict"]), []).append(place)
    for (case, release, verdict), places in sorted(others.items()):
        yield f"- {_label(case, places)}, {release} alone: {verdict}"
        yield from _why(release, by_release[release][min(places)])


def _of_scripts(kind: str, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of random scripts, each with its script."""
    findings, scripts, seed = report["findings"], report["scripts"], report["seed"]
    yield f"## random scripts, {kind} groups: {len(findings)} differences in {scripts} scripts, seed {seed}"
    for finding in findings:
        of_new, of_old = finding["results"]
        was, now = _unlike(of_old, of_new)
        yield f"- {finding['about']}: {was} -> {now}"
        for number, step in enumerate(finding["script"]):
            yield f"  {number} {Step(**step)}"


def _unlike(old: str, new: str) -> tuple[str, str]:
    """Return the fields of two answers that differ; both whole if they have other fields."""
    fields = [_FIELDS.split(each) for each in (old, new)]
    if len(fields[0]) != len(fields[1]):
        return old, new
    pairs = [(was, now) for was, now in zip(*fields, strict=True) if was != now]
    return ", ".join(was for was, _ in pairs), ", ".join(now for _, now in pairs)


def main(arguments: list[str]) -> int:
    """Print the list for two releases, for example 4.2.2 and 4.3.1; a line such as 4.4 means its newest release."""
    parser = argparse.ArgumentParser(usage="make kafka-diff FROM=4.3.1 TO=4.4.0 [RUNS=FOLDER]")
    parser.add_argument("before", metavar="FROM")
    parser.add_argument("after", metavar="TO")
    parser.add_argument("--runs", type=Path, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    before, after = (NEWEST.get(each, each) for each in (chosen.before, chosen.after))
    print(f"# Apache Kafka {before} -> {after}")
    try:
        with processes.broken_off_on_signals():
            for line in differences(facts_of(before), facts_of(after)):
                print(line, flush=True)
            if chosen.runs is not None:
                for line in differences_of_runs(before, after, chosen.runs):
                    print(line, flush=True)
    except TargetError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
