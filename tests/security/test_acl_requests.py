"""CreateAcls and DeleteAcls: one change for a request, and their bounds."""

from __future__ import annotations

import pytest

from kafka_shim.apis.create_acls import AclCreation, CreateAclsRequest
from kafka_shim.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.security import acl_requests
from kafka_shim.security import authorizer as authorizer_module
from kafka_shim.security.acl_requests import create_acls, delete_acls
from kafka_shim.security.authorizer import LITERAL
from kafka_shim.server.requests import REQUESTS
from tests.security.test_authorizer import ALICE, READ, acl, authorizer

TOPIC, ALLOW = 2, 3


def creation(name: str, principal: str = ALICE) -> AclCreation:
    return AclCreation(TOPIC, name, LITERAL, principal, "*", READ, ALLOW)


def exact(name: str) -> DeleteAclsFilter:
    return DeleteAclsFilter(TOPIC, name, LITERAL, ALICE, "*", READ, ALLOW)


def of_anybody(name: str) -> DeleteAclsFilter:
    return DeleteAclsFilter(TOPIC, name, LITERAL, None, "*", READ, ALLOW)


def errors(answer: DeleteAclsResponse) -> list[int]:
    return [each.error_code for each in answer.filter_results]


@pytest.mark.parametrize("key", [ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS])
def test_a_request_is_one_change(key: ApiKey) -> None:
    """A request in parts would copy all ACLs for each part, and refuse a part where Kafka refuses a request."""
    assert REQUESTS[key].divided is None
    made = authorizer()
    create_acls(CreateAclsRequest([creation(f"t{number}") for number in range(100)]), made)
    assert made.place.told == 1  # type: ignore[attr-defined]
    delete_acls(DeleteAclsRequest([exact(f"t{number}") for number in range(100)]), made)
    assert made.place.told == 2  # type: ignore[attr-defined]
    assert made.all() == []


def test_acls_without_room_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "MAX_BYTES", 2 * acl("t1", READ).size)
    made = authorizer(acl("t1", READ))
    request = CreateAclsRequest([creation("t1"), creation("t2"), creation(""), creation("t3"), creation("t2")])
    results = create_acls(request, made).results
    assert [each.error_code for each in results] == [
        0,
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        0,
    ]
    assert made.all() == [acl("t1", READ), acl("t2", READ)]


def test_a_refusal_of_a_long_name_fits_an_answer() -> None:
    answer = create_acls(CreateAclsRequest([creation("t", "x" * 32_767)]), authorizer())
    assert answer.results[0].error_code == ErrorCode.INVALID_REQUEST
    assert answer.encode(3)


def test_filters_look_at_no_more_acls_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_requests, "MAX_LOOKS", 25)
    made = authorizer(*(acl(f"t{number}", READ) for number in range(10)))
    answer = delete_acls(DeleteAclsRequest([of_anybody("none"), *[of_anybody("t1")] * 4]), made)
    assert errors(answer) == [0, 0, 0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
    assert [len(each.matching_acls) for each in answer.filter_results] == [0, 1, 1, 0, 0]
    assert len(made.all()) == 9


def test_a_filter_of_one_acl_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_requests, "MAX_LOOKS", 40)
    made = authorizer(*(acl(f"t{number}", READ) for number in range(100)))
    answer = delete_acls(DeleteAclsRequest([*(exact(f"none{number}") for number in range(50)), exact("t1")]), made)
    assert errors(answer) == [0] * 51
    assert answer.filter_results[50].matching_acls[0].resource_name == "t1"
    assert len(made.all()) == 99


def test_long_names_in_answers_count_as_more_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_requests, "MAX_LOOKS", 1000)
    made = authorizer(acl("x" * 20_000, READ))
    answer = delete_acls(DeleteAclsRequest([of_anybody("x" * 20_000)] * 5), made)
    assert errors(answer) == [0, 0, *[ErrorCode.POLICY_VIOLATION] * 3]
