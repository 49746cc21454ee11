"""The OpenAPI document, made from the operations.

Schemas come from the types that check bodies and answers, so the document is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta

from kafka_shim.control.operation import PATH_TYPES, Answer, Operation

Json = dict[str, Any]

_MEANING: Final = {
    400: "The operation does not accept the request; `message` has the reason.",
    401: "The token is missing or wrong.",
    403: "Only a coordinator for tests does this, or a page of another origin asks.",
    404: "A name in the request does not exist.",
    408: "The body did not come in time.",
    409: "It cannot be done as things are; `message` says why, for an await in vain with the story so far.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    421: "The server is not called by this name.",
    503: "The coordinator cannot do it now.",
}


class ProblemShown(Answer, kw_only=True):
    """The error of a request, and its reason."""

    error: Annotated[str, Meta(description="Kafka's name of the error, or ours.", examples=["GROUP_ID_NOT_FOUND"])]
    message: Annotated[str, Meta(description="One sentence.", examples=["There is no such group."])]


def openapi(operations: Sequence[Operation], with_token: bool = False) -> Json:
    """Return the document of these operations, for a server with or without a token."""
    types: list[Any] = [ProblemShown]
    for each in operations:
        types += [kind for kind in (each.body, *each.answers, each.query) if kind is not None]
        types += [PATH_TYPES[name] for name in each.names]
    listed_schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas = iter(listed_schemas)
    problem = next(schemas)
    for choice in {each.choice.default: each.choice for each in operations if each.choice is not None}.values():
        components[choice.default.__name__]["required"].remove(choice.field)
    paths: dict[str, Json] = {}
    for each in operations:
        body = next(schemas) if each.body is not None else None
        answers = [next(schemas) for _ in each.answers] or [{"type": "string"}]
        query = next(schemas) if each.query is not None else None
        parameters = [{"name": name, "in": "path", "required": True, "schema": next(schemas)} for name in each.names]
        if query is not None:
            parameters += _query(components[query["$ref"].rpartition("/")[2]])
        described: Json = {
            "summary": each.summary,
            "operationId": _id(each),
            "tags": [each.tag],
            "parameters": parameters,
            "responses": _responses(each, answers, problem, with_token),
        }
        if body is not None:
            content: Json = {"schema": body}
            if each.example is not None:
                content["example"] = each.example
            described["requestBody"] = {
                "required": not _is_optional(each),
                "content": {"application/json": content},
            }
        paths.setdefault(each.path, {})[each.method.lower()] = described
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Control API of the group coordinator",
            "version": version("kafka-group-shim"),
            "description": "Groups, topics and metrics of a coordinator; with `--lab` its faults, time and members.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components},
    }
    if with_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        paths["/health"]["get"]["security"] = []
    return cast(Json, _tidy(document))


def _responses(each: Operation, answers: list[Json], problem: Json, with_token: bool) -> Json:
    statuses = {400, 403, 421, *each.problems}
    if each.body is not None:
        statuses |= {408, 413, 415}
    if with_token:
        statuses |= {401}
        statuses -= {421}
    if each.names:
        statuses |= {404}
    answer = answers[0] if len(answers) == 1 else {"anyOf": answers}
    done = {"description": "Done.", "content": {each.media_type: {"schema": answer}}}
    responses: Json = {"200": done}
    for status in sorted(statuses):
        content = {"application/json": {"schema": problem}}
        responses[str(status)] = {"description": _MEANING[status], "content": content}
    if each.degraded:
        responses["503"] = {**done, "description": "Some of it is not served now."}
    return responses


def _is_optional(each: Operation) -> bool:
    """Return True if every field has a default."""
    try:
        msgspec.json.decode(b"{}", type=each.body)
    except msgspec.ValidationError:
        return False
    return True


def _query(schema: Json) -> list[Json]:
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]


def _id(each: Operation) -> str:
    words = [part.strip("{}") for part in each.path.removeprefix("/v1").split("/") if part]
    return "-".join([each.method.lower(), *words])


def _tidy(value: Any) -> Any:
    """Return the value without titles that only repeat the names of types."""
    if isinstance(value, dict):
        return {name: _tidy(each) for name, each in value.items() if not (name == "title" and "type" in value)}
    if isinstance(value, list | tuple):
        return [_tidy(each) for each in value]
    return value
