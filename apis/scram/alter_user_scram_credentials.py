"""AlterUserScramCredentials (51): changes and deletes the keys of users for SCRAM (KIP-554). Its bytes are secret."""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, bytes_, field, int8, int16, int32, string

_KEY = ApiKey.ALTER_USER_SCRAM_CREDENTIALS


class ScramCredentialDeletion(Struct):
    name: str = field(string)
    mechanism: int = field(int8)


class ScramCredentialUpsertion(Struct):
    name: str = field(string)
    mechanism: int = field(int8)
    iterations: int = field(int32)
    salt: bytes = field(bytes_)
    salted_password: bytes = field(bytes_)

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(name={self.name!r}, mechanism={self.mechanism}, iterations={self.iterations})"


class AlterUserScramCredentialsRequest(Message, key=_KEY, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


class AlterUserScramCredentialsResult(Struct):
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class AlterUserScramCredentialsResponse(Message, key=_KEY, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    results: list[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))


def error(request: AlterUserScramCredentialsRequest, code: int) -> AlterUserScramCredentialsResponse:
    users = sorted({each.name for each in request.deletions} | {each.name for each in request.upsertions})
    return AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user, code) for user in users])


API = Api(_KEY, "AlterUserScramCredentials", AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, error)
