"""The rules about users of SCRAM, against the answers of Apache Kafka 4.4.0 to the same requests."""

from typing import Any

import pytest

from kafka_shim.apis.scram.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_shim.apis.scram.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.settings import Settings
from kafka_shim.security import scram_requests
from kafka_shim.security.scram_requests import alter_users, describe_users
from kafka_shim.security.users import Users, size_of

Deletion = ScramCredentialDeletion
KEY = b"p" * 32


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, key: bytes = KEY) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", key)


def users_at(settings: Settings, **passwords: str) -> Users:
    users = Users(passwords)
    users.place = settings
    return users


def alter(users: Users, *entries: Any) -> list[tuple[str, int, str | None]]:
    deletions = [each for each in entries if isinstance(each, Deletion)]
    upsertions = [each for each in entries if not isinstance(each, Deletion)]
    results = alter_users(AlterUserScramCredentialsRequest(deletions, upsertions), users).results
    return [(each.user, each.error_code, each.error_message) for each in results]


def describe(users: Users, *names: str) -> list[tuple[str, int, str | None, list[tuple[int, int]]]]:
    asked = [UserName(name) for name in names] if names else None
    response = describe_users(DescribeUserScramCredentialsRequest(asked), users)
    assert (response.error_code, response.error_message) == (0, "")
    return [
        (each.user, each.error_code, each.error_message, [(i.mechanism, i.iterations) for i in each.credential_infos])
        for each in response.results
    ]


@pytest.fixture
def users() -> Users:
    made = users_at(Settings())
    assert alter(made, upsertion("alice")) == [("alice", 0, None)]
    return made


TWICE = "A user credential cannot be altered twice in the same request"
NONE = "Attempt to delete a user credential that does not exist"


@pytest.mark.parametrize(
    ("entries", "results"),
    [
        ([upsertion("bob", iterations=4095)], [("bob", 93, "Too few iterations")]),
        ([upsertion("bob", 2, 16385)], [("bob", 93, "Too many iterations")]),
        ([upsertion("bob", 2, 16384)], [("bob", 0, None)]),
        ([upsertion("bob", 0)], [("bob", 33, "Unknown SCRAM mechanism")]),
        ([upsertion("bob", 3, 1)], [("bob", 33, "Unknown SCRAM mechanism")]),
        ([upsertion("", 3, 1)], [("", 93, "Username must not be empty")]),
        ([upsertion("bob", key=b"")], [("bob", -1, None)]),
        ([Deletion("nobody", 1)], [("nobody", 91, NONE)]),
        ([Deletion("alice", 2)], [("alice", 91, NONE)]),
        ([Deletion("alice", 0)], [("alice", 33, "Unknown SCRAM mechanism")]),
        ([Deletion("", 0)], [("", 93, "Username must not be empty")]),
        ([upsertion("a"), upsertion("a", 2)], [("a", 92, TWICE)]),
        ([upsertion("a")] * 3, [("a", 92, TWICE)]),
        ([Deletion("alice", 1), upsertion("alice")], [("alice", 92, TWICE)]),
        ([Deletion("nobody", 1), upsertion("nobody")], [("nobody", 91, NONE)]),
        ([upsertion("a", iterations=1), upsertion("a")], [("a", 93, "Too few iterations")]),
        ([], []),
    ],
)
def test_entries_are_judged_as_in_kafka(users: Users, entries: list[Any], results: list[Any]) -> None:
    assert alter(users, *entries) == results


def test_valid_entries_of_a_request_count_beside_refused_ones(users: Users) -> None:
    entries = [Deletion("nobody", 1), Deletion("alice", 1), upsertion("cat", 2, 5000), upsertion("bob", iterations=1)]
    assert [(name, code) for name, code, _ in alter(users, *entries)] == [
        ("alice", 0),
        ("cat", 0),
        ("nobody", 91),
        ("bob", 93),
    ]
    assert describe(users) == [("cat", 0, "", [(2, 5000)])]


def test_descriptions_are_those_of_kafka(users: Users) -> None:
    alter(users, upsertion("alice", 2, 5000))
    unknown = "Attempt to describe a user credential that does not exist: "
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    assert describe(users, "alice", "bob") == [
        ("alice", 0, "", [(1, 4096), (2, 5000)]),
        ("bob", 91, f"{unknown}bob", []),
    ]
    assert describe(users, "x", "nobody", "nobody", "y") == [
        ("x", 91, f"{unknown}x", []),
        ("y", 91, f"{unknown}y", []),
        ("nobody", 92, f"{twice}nobody", []),
    ]


def test_users_with_a_password_have_credentials_until_one_is_deleted() -> None:
    settings = Settings()
    users = users_at(settings, alice="secret")
    assert describe(users) == [("alice", 0, "", [(1, 4096), (2, 4096)])]
    before = users.scram_credential("alice", "SCRAM-SHA-256")
    alter(users, upsertion("alice", 1, 8192))
    assert users.scram_credential("alice", "SCRAM-SHA-256") != before
    alter(users, Deletion("alice", 2))
    again = users_at(settings, alice="secret")
    assert describe(again) == [("alice", 0, "", [(1, 8192)])]
    assert again.scram_credential("alice", "SCRAM-SHA-512") is None
    assert alter(again, Deletion("alice", 2)) == [("alice", 91, NONE)]


def test_no_text_of_a_request_has_its_key() -> None:
    request = AlterUserScramCredentialsRequest([], [upsertion("alice")])
    assert "alice" in repr(request)
    assert repr(KEY)[2:-1] not in repr(request)


def test_all_credentials_together_have_a_bound(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    size = size_of("alice", b"salt")
    assert size == 200 + len("alice") + len("salt")
    monkeypatch.setattr(scram_requests, "MAX_BYTES", 3 * size)
    assert [code for _, code, _ in alter(users, upsertion("bobby"), upsertion("alice", 2), upsertion("cyril"))] == [
        0,
        0,
        ErrorCode.POLICY_VIOLATION,
    ]
    assert [user for user, *_ in describe(users)] == ["alice", "bobby"]
    assert alter(users, upsertion("alice")) == [("alice", 0, None)]
    assert alter(users, Deletion("alice", 2), upsertion("cyril")) == [("alice", 0, None), ("cyril", 0, None)]
