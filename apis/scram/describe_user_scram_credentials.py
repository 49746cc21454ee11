"""DescribeUserScramCredentials (50): the mechanisms of SCRAM that users have, without their keys (KIP-554)."""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, string

_KEY = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS


class UserName(Struct):
    name: str = field(string)


class DescribeUserScramCredentialsRequest(Message, key=_KEY, versions="0", flexible="0+"):
    users: list[UserName] | None = field(array(UserName), nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = field(int8)
    iterations: int = field(int32)


class DescribeUserScramCredentialsResult(Struct):
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default="")
    credential_infos: list[CredentialInfo] = field(array(CredentialInfo))


class DescribeUserScramCredentialsResponse(Message, key=_KEY, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default="")
    results: list[DescribeUserScramCredentialsResult] = field(array(DescribeUserScramCredentialsResult))


def error(request: DescribeUserScramCredentialsRequest, code: int) -> DescribeUserScramCredentialsResponse:
    results = [DescribeUserScramCredentialsResult("", code, None) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=results)


API = Api(
    _KEY,
    "DescribeUserScramCredentials",
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    error,
)
