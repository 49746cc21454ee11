"""Cases about DescribeUserScramCredentials and AlterUserScramCredentials on a broker with SCRAM."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Final

from kafka_shim.apis.scram.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_shim.apis.scram.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance import sasl
from kafka_shim.conformance.case import case
from kafka_shim.conformance.targets.secured import LOGIN, SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.user import User

SHA_256: Final = 1
SHA_512: Final = 2
SALT: Final = b"a pinch of salt"
DENIED: Final = E.CLUSTER_AUTHORIZATION_FAILED
TWICE: Final = "A user credential cannot be altered twice in the same request"
NONE: Final = "Attempt to delete a user credential that does not exist"

alter_case = partial(case, source="semantics 6.7", profile=SECURITY, api="AlterUserScramCredentials")
describe_case = partial(case, source="semantics 6.7", profile=SECURITY, api="DescribeUserScramCredentials")


def upsertion(
    name: str, mechanism: int = SHA_512, iterations: int = 4096, password: str = "tempest"
) -> ScramCredentialUpsertion:
    """Return a change of a credential."""
    hash_name = {SHA_256: "sha256"}.get(mechanism, "sha512")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), SALT, iterations)
    return ScramCredentialUpsertion(name, mechanism, iterations, SALT, salted)


def alter(
    t: Trial, *upsertions: ScramCredentialUpsertion, deleted: tuple[tuple[str, int], ...] = ()
) -> dict[str, tuple[int, str | None]]:
    """Change credentials; return error and message by user."""
    deletions = [ScramCredentialDeletion(*each) for each in deleted]
    results = t.call(AlterUserScramCredentialsRequest(deletions, list(upsertions))).results
    return {each.user: (each.error_code, each.error_message) for each in results}


def iterations_of(t: Trial, name: str) -> dict[int, int]:
    """Return the iterations of a user by mechanism."""
    answer = t.expect(t.call(DescribeUserScramCredentialsRequest([UserName(name)])), error_code=0, error_message="")
    (result,) = answer.results
    return {each.mechanism: each.iterations for each in result.credential_infos}


def until_iterations(t: Trial, name: str, expected: dict[int, int]) -> None:
    """Wait until the broker has these credentials of a user."""
    t.until(lambda: iterations_of(t, name), lambda now: now == expected, f"the credentials of {name} never showed")


def log_in(t: Trial, name: str, password: str) -> int:
    """Authenticate on a connection of its own; return the error."""
    code: int = sasl.log_in(t.connect_securely(LOGIN), "SCRAM-SHA-512", name, password).error_code
    return code


@alter_case("scram/alter/1", "A credential logs in until it is changed or deleted; connections that exist go on")
def change(t: Trial) -> None:
    name = f"eve-{t.group}"
    t.equal(alter(t, upsertion(name)), {name: (0, None)}, "the results")
    until_iterations(t, name, {SHA_512: 4096})
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.log_in(wire, "SCRAM-SHA-512", name, "tempest"), error_code=0)
    alter(t, upsertion(name, SHA_512, 5000, "othello"))
    until_iterations(t, name, {SHA_512: 5000})
    t.equal(log_in(t, name, "tempest"), E.SASL_AUTHENTICATION_FAILED, "the error of the old password")
    t.equal(log_in(t, name, "othello"), 0, "the error of the new password")
    t.equal(alter(t, deleted=((name, SHA_512),)), {name: (0, None)}, "the results of the deletion")
    until_iterations(t, name, {})
    t.equal(log_in(t, name, "othello"), E.SASL_AUTHENTICATION_FAILED, "the error after the deletion")
    t.expect(sasl.handshake(wire, "SCRAM-SHA-512"), error_code=E.ILLEGAL_SASL_STATE)


@alter_case("scram/alter/2", "An entry that cannot be is 93, 33, 91 or -1, and the others count")
def refuse(t: Trial) -> None:
    few, many, unknown, keyless, none, good = (f"{each}-{t.group}" for each in "abcdef")
    entries = (
        upsertion(few, iterations=4095),
        upsertion(many, iterations=16_385),
        upsertion(unknown, 3),
        upsertion("", 3, 1),
        ScramCredentialUpsertion(keyless, SHA_512, 4096, SALT, b""),
        upsertion(good, iterations=16_384),
    )
    expected = {
        few: (E.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        many: (E.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        unknown: (E.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "": (E.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        keyless: (E.UNKNOWN_SERVER_ERROR, None),
        none: (E.RESOURCE_NOT_FOUND, NONE),
        good: (0, None),
    }
    t.equal(alter(t, *entries, deleted=((none, SHA_256),)), expected, "the results")
    until_iterations(t, good, {SHA_512: 16_384})
    t.equal(iterations_of(t, few), {}, "the credentials of a refused entry")


@alter_case("scram/alter/3", "Two entries of one user are 92, also for different mechanisms, and change nothing")
def twice(t: Trial) -> None:
    name, other = f"eve-{t.group}", f"dan-{t.group}"
    alter(t, upsertion(name))
    until_iterations(t, name, {SHA_512: 4096})
    refused = (E.DUPLICATE_RESOURCE, TWICE)
    t.equal(alter(t, upsertion(other), upsertion(other, SHA_256)), {other: refused}, "the results of two changes")
    results = alter(t, upsertion(name, iterations=5000), deleted=((name, SHA_512),))
    t.equal(results, {name: refused}, "the results of a deletion and a change")
    results = alter(t, upsertion(other, iterations=1), upsertion(other))
    t.equal(results, {other: (E.UNACCEPTABLE_CREDENTIAL, "Too few iterations")}, "the results after a refusal")
    t.equal((iterations_of(t, name), iterations_of(t, other)), ({SHA_512: 4096}, {}), "the credentials")


@alter_case("scram/alter/4", "AlterUserScramCredentials needs ALTER on the cluster, else each user is 31, in order")
def alter_denied(t: Trial) -> None:
    alice = User(t)
    alice.allow("DESCRIBE")
    names = [f"{each}-{t.group}" for each in "zam"]
    deletions = [ScramCredentialDeletion(names[0], SHA_256)]
    upsertions = [upsertion(name) for name in names[:2]] + [upsertion(names[2])]
    results = alice.call(AlterUserScramCredentialsRequest(deletions, upsertions)).results
    t.equal([(each.user, each.error_code) for each in results], [(name, DENIED) for name in sorted(names)], "results")
    t.equal(iterations_of(t, names[1]), {}, "the credentials")


@describe_case(
    "scram/describe/1", "A user has iterations for each mechanism; one without any is 91, one named twice 92"
)
def describe(t: Trial) -> None:
    name, nobody, doubled = (f"{each}-{t.group}" for each in ("eve", "nobody", "doubled"))
    alter(t, upsertion(name, SHA_512, 5000))
    alter(t, upsertion(name, SHA_256))
    until_iterations(t, name, {SHA_256: 4096, SHA_512: 5000})
    users = [UserName(each) for each in (name, nobody, doubled, doubled)]
    answer = t.expect(t.call(DescribeUserScramCredentialsRequest(users)), error_code=0, error_message="")
    results = {each.user: (each.error_code, each.error_message, len(each.credential_infos)) for each in answer.results}
    unknown = "Attempt to describe a user credential that does not exist: "
    again = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    expected = {
        name: (0, "", 2),
        nobody: (E.RESOURCE_NOT_FOUND, unknown + nobody, 0),
        doubled: (E.DUPLICATE_RESOURCE, again + doubled, 0),
    }
    t.equal(results, expected, "the results")
    t.equal(len(answer.results), 3, "the number of results")


@describe_case("scram/describe/2", "Without a list of users, or with an empty one, all of them are described")
def describe_all(t: Trial) -> None:
    name = f"eve-{t.group}"
    alter(t, upsertion(name))
    until_iterations(t, name, {SHA_512: 4096})
    nobody: list[UserName] = []
    for users in (None, nobody):
        answer = t.expect(t.call(DescribeUserScramCredentialsRequest(users)), error_code=0)
        t.check(name in {each.user for each in answer.results}, f"{name} is not described")
        t.equal({each.error_code for each in answer.results}, {0}, "the errors")


@describe_case(
    "scram/describe/3", "DescribeUserScramCredentials needs DESCRIBE on the cluster, else 31 for all, unnamed"
)
def describe_denied(t: Trial) -> None:
    alice = User(t)
    users = [UserName("zed"), UserName("abe")]
    answer = t.expect(alice.call(DescribeUserScramCredentialsRequest(users)), error_code=DENIED, error_message=None)
    results = [(each.user, each.error_code, each.error_message) for each in answer.results]
    t.equal(results, [("", DENIED, None)] * 2, "the results")
    alice.allow("DESCRIBE")
    t.expect(alice.call(DescribeUserScramCredentialsRequest(users)), error_code=0)
