"""The list of what differs between two releases, from facts by hand."""

from kafka_shim.conformance.kafka_diff import _read, differences


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
