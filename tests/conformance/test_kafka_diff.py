"""The list of what differs between two releases, from facts by hand."""

import json
from pathlib import Path

from kafka_shim.conformance.kafka_diff import _read, differences, differences_of_runs


def facts_of(schema: dict) -> dict:
    facts = {"API versions": {}, "messages": {}, "records": {}}
    _read(schema, facts)
    return facts


def schema(versions: str, fields: list[dict]) -> dict:
    return {
        "apiKey": 3,
        "type": "request",
        "listeners": ["broker"],
        "name": "ARequest",
        "validVersions": versions,
        "flexibleVersions": "none",
        "fields": fields,
    }


def test_new_and_changed_fields_are_listed_with_their_versions() -> None:
    name = {"name": "Name", "type": "string", "versions": "0+"}
    topics = {"name": "Topics", "type": "[]Topic", "versions": "0+", "fields": [name]}
    topic_id = {"name": "TopicId", "type": "uuid", "versions": "1+"}
    newer = {**topics, "fields": [{**name, "versions": "0"}, topic_id]}
    lines = list(differences(facts_of(schema("0", [topics])), facts_of(schema("0-1", [newer]))))
    assert lines == [
        "## API versions: 1",
        "- changed: A: key 3, 0, broker -> key 3, 0-1, broker",
        "## messages: 3",
        "- changed: ARequest.Topics.Name: string, 0+ -> string, 0",
        "- changed: ARequest: 0, flexible none -> 0-1, flexible none",
        "- new: ARequest.Topics.TopicId: uuid, 1+",
        "## records: 0",
    ]


def test_a_struct_within_itself_ends() -> None:
    node = [{"name": "Next", "type": "Node", "versions": "0+", "nullableVersions": "0+"}]
    chain = schema("0", [{"name": "First", "type": "Node", "versions": "0+"}])
    chain["commonStructs"] = [{"name": "Node", "fields": node}]
    assert facts_of(chain)["messages"].keys() == {"ARequest", "ARequest.First", "ARequest.First.Next"}


def cell(case: str, version: int | None, verdict: str) -> dict:
    return {"case": case, "version": version, "verdict": verdict}


def test_the_runs_of_two_releases_are_compared_cell_by_cell(tmp_path: Path) -> None:
    """The reports are there already, so nothing is run."""
    reports = {
        "kafka-4.3.1": {
            "cells": [cell("join/a/1", 5, "pass"), cell("join/a/1", 6, "pass"), cell("wire/b/1", None, "skip")]
        },
        "kafka-4.4.0": {
            "cells": [cell("join/a/1", 5, "pass"), cell("join/a/1", 6, "fail"), cell("join/a/1", 7, "pass")]
        },
        "kafka-4.4.0-against-4.3.1": {
            "scripts": 200,
            "findings": [{"step": 2, "about": "member 1", "results": ["error 0", "error 81"]}],
        },
    }
    for name, report in reports.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    assert list(differences_of_runs("4.3.1", "4.4.0", tmp_path)) == [
        "## cells with another verdict: 1",
        "- join/a/1@6: pass -> fail",
        "## cells of one release: 2",
        "- wire/b/1: skip, 4.3.1 alone",
        "- join/a/1@7: pass, 4.4.0 alone",
        "## random scripts: 1 differences in 200 scripts",
        "- step 2, member 1: error 81 -> error 0",
    ]
