"""Ways to ask for a right: on the whole request, on each of its elements, or on what its answer shows.

A way cuts the elements that the client may not use out of the request, asks the rule for the rest, and puts them back
with their error, in the form that the API gives them (`Api.error`). `access.py` says for each API which way it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Final, NamedTuple, TypeAlias

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.security.operations import CLUSTER_NAME, Operation, Resource
from kafka_shim.server.caller import Caller

Access: TypeAlias = Callable[[Any, Any, Caller], Any]
"""From a request, its exchange and its caller to the answer of the rule, or a refusal."""
Name: TypeAlias = Callable[[Any], str | None]
"""The name of an element; None for one that the rule itself refuses."""
Refuse: TypeAlias = Callable[[Any, int], Any]
"""From an element of a request and an error to its answer."""

DENIED: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_OMITTED: Final = -(2**31)
"""The value of authorized operations that the client did not ask for."""
_TOPIC, _GROUP, _CLUSTER, _TRANSACTION = (
    Resource.TOPIC,
    Resource.GROUP,
    Resource.CLUSTER,
    Resource.TRANSACTIONAL_ID,
)


def ask(request: Any, exchange: Any, caller: Caller) -> Any:
    return exchange.endpoint.rule(request, exchange)


def whole(resource: Resource, operation: Operation, name: Name, then: Access = ask) -> Access:
    """Refuse the whole request unless the client may do the operation on one resource."""

    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        of = name(request)
        if of is None or caller.may(operation, resource, of):
            return then(request, exchange, caller)
        return caller.refusal(request, exchange, DENIED[resource])

    return access


def cluster(*operations: Operation, then: Access = ask) -> Access:
    """Refuse the whole request unless the client may do one of the operations on the cluster."""

    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        if any(caller.may(operation, _CLUSTER, CLUSTER_NAME) for operation in operations):
            return then(request, exchange, caller)
        return caller.refusal(request, exchange, DENIED[_CLUSTER])

    return access


def each(
    elements: str,
    answers: str,
    resource: Resource,
    operation: Operation,
    name: Name | None = None,
    *,
    last: bool = False,
    asks_anyway: bool = False,
    unless: tuple[Operation, ...] = (),
    refuse: Refuse | None = None,
    then: Access = ask,
) -> Access:
    """Refuse each element of the request that the client may not use; the rule gets the others. One of `unless` on the
    cluster allows all."""

    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        if any(caller.may(other, _CLUSTER, CLUSTER_NAME) for other in unless):
            return then(request, exchange, caller)
        allowed: list[Any] = []
        denied: list[Any] = []
        for element in getattr(request, elements):
            of = caller.topic(element) if name is None else name(element)
            is_allowed = of is None or caller.may(operation, resource, of)
            (allowed if is_allowed else denied).append(element)
        if not denied:
            return then(request, exchange, caller)
        where = Cut(elements, answers, DENIED[resource], last, asks_anyway, refuse)
        return cut(request, exchange, caller, where, allowed, denied, then)

    return access


class Cut(NamedTuple):
    """The names of the fields of the elements in request and answer, and the error of the denied ones. They come before
    the others unless `last`. With `asks_anyway` the rule gets a request without elements too. `refuse` makes the answer
    to an element, for an API that has a whole error at the top."""

    elements: str
    answers: str
    code: int
    last: bool = False
    asks_anyway: bool = False
    refuse: Refuse | None = None


def cut(
    request: Any, exchange: Any, caller: Caller, where: Cut, allowed: list[Any], denied: list[Any], then: Access
) -> Any:
    """Answer the denied elements with an error, the allowed ones by the rule."""
    elements, answers, code, last, asks_anyway, refuse = where
    caller.denied = True
    if refuse is None:
        refusal = exchange.endpoint.api.error(with_fields(request, **{elements: denied}), code)
    else:
        refusal = exchange.endpoint.api.response(**{answers: [refuse(element, code) for element in denied]})
    refused = getattr(refusal, answers)
    if not allowed and not asks_anyway:
        return refusal

    def put_back(response: Any) -> Any:
        if not getattr(response, "error_code", 0):
            others = getattr(response, answers)
            setattr(response, answers, [*others, *refused] if last else [*refused, *others])
        return response

    caller.amend(exchange, put_back)
    return then(with_fields(request, **{elements: allowed}), exchange, caller)


def filtered(answers: str, resource: Resource, operation: Operation, name: Name, *, unless: bool = False) -> Access:
    """Leave out of the answer what the client may not see. With `unless` the operation on the cluster shows all."""

    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        def leave_out(response: Any) -> Any:
            seen = [each for each in getattr(response, answers) if caller.may(operation, resource, name(each) or "")]
            setattr(response, answers, seen)
            return response

        if not (unless and caller.may(operation, _CLUSTER, CLUSTER_NAME)):
            caller.amend(exchange, leave_out)
        return ask(request, exchange, caller)

    return access


def with_operations(answers: str, resource: Resource, name: Name, then: Access = ask) -> Access:
    """Reduce the authorized operations in the answer to those of the client."""

    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        def reduce(response: Any) -> Any:
            for each in getattr(response, answers):
                attribute = "topic_authorized_operations" if resource is _TOPIC else "authorized_operations"
                bits = getattr(each, attribute)
                if bits != _OMITTED:
                    setattr(each, attribute, caller.bits(bits, resource, name(each) or ""))
            return reduce_cluster(response, caller)

        caller.amend(exchange, reduce)
        return then(request, exchange, caller)

    return access


def reduce_cluster(response: Any, caller: Caller) -> Any:
    bits = getattr(response, "cluster_authorized_operations", _OMITTED)
    if bits != _OMITTED:
        may_see = caller.may(Operation.DESCRIBE, _CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = caller.bits(bits, _CLUSTER, CLUSTER_NAME) if may_see else 0
    return response


def with_fields(request: Any, **fields: Any) -> Any:
    view = copy(request)
    for name, value in fields.items():
        setattr(view, name, value)
    return view
