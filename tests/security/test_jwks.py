"""Signed tokens of OAUTHBEARER, and the keys that verify them."""

from __future__ import annotations

import hmac
import json
import socket
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from kafka_shim.security import jwks
from kafka_shim.security.config import VALIDATOR, security_of
from kafka_shim.security.jwks import Jwks
from kafka_shim.security.oauthbearer import InvalidToken
from kafka_shim.server import server
from kafka_shim.server.failures import Failures
from kafka_shim.testing import CoordinatorServer
from tests.waiting import PATIENCE_S

NOW = 1_700_000_000.0
KEY = RSAKey.generate_key(2048, parameters={"kid": "first"})
CURVE = ECKey.generate_key("P-256", parameters={"kid": "curve"})
OTHER = RSAKey.generate_key(2048, parameters={"kid": "other"})
CLAIMS = {"sub": "alice", "iat": NOW - 1, "exp": NOW + 60}
URL = "sasl.oauthbearer.jwks.endpoint.url"


def signed(claims: dict[str, Any], key: Any = KEY, **header: Any) -> str:
    algorithm = {"RSA": "RS256", "EC": "ES256"}[key.key_type]
    return str(
        jwt.encode({"alg": algorithm, "kid": key.kid} | header, claims, key, algorithms=["RS256", "ES256", "HS256"])
    )


def document(*keys: Any) -> str:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]})


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(document(KEY, CURVE))
    return path


def loaded(path: Path, **settings: str) -> Jwks:
    others = {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in settings.items()}
    made = Jwks({URL: path.as_uri(), **others})
    made.load()
    return made


@pytest.mark.parametrize("key", [KEY, CURVE], ids=["RSA", "EC"])
def test_a_token_of_a_key_has_a_user_and_an_end(keys: Path, key: Any) -> None:
    assert loaded(keys).validated(signed(CLAIMS, key), NOW) == ("alice", NOW + 60)


def test_a_token_without_a_key_id_is_tried_with_each_key(keys: Path) -> None:
    token = str(jwt.encode({"alg": "ES256"}, CLAIMS, CURVE))
    assert loaded(keys).validated(token, NOW)[0] == "alice"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 31},
        {"exp": None},
        {"iat": None},
        {"iat": NOW + 31},
        {"nbf": NOW + 31},
        {"sub": None},
        {"sub": " "},
        {"exp": "soon"},
        {"iss": "https://other.test"},
        {"aud": ["other"]},
        {"aud": None},
        {"scope": 1},
    ],
    ids=str,
)
def test_claims_decide(keys: Path, claims: dict[str, Any]) -> None:
    strict = loaded(keys, expected_issuer="https://issuer.test", expected_audience="kafka, more")
    good = CLAIMS | {"iss": "https://issuer.test", "aud": ["kafka"], "scope": "a b"}
    assert strict.validated(signed(good), NOW) == ("alice", NOW + 60)
    with pytest.raises(InvalidToken):
        strict.validated(signed(good | claims), NOW)


def test_names_of_claims_and_the_skew_are_settings(keys: Path) -> None:
    lenient = loaded(keys, sub_claim_name="email", clock_skew_seconds="100")
    assert lenient.validated(signed({"email": "a@b", "iat": NOW + 90, "exp": NOW + 91}), NOW)[0] == "a@b"


def test_only_signatures_of_a_private_key_count(keys: Path) -> None:
    made = loaded(keys)
    unsigned = signed(CLAIMS).rpartition(".")[0] + "."
    # All know the public key, and it must not serve as a secret.
    head = b".".join(
        (urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').rstrip(b"="), signed(CLAIMS).split(".")[1].encode())
    )
    proof = urlsafe_b64encode(hmac.digest(KEY.as_pem(private=False), head, "sha256")).rstrip(b"=")
    for token in (
        unsigned,
        (head + b"." + proof).decode(),
        signed(CLAIMS, OTHER, kid="first"),
        "",
        "a.b",
        "a.b.c",
        ".",
    ):
        with pytest.raises(InvalidToken):
            made.validated(token, NOW)


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200).map(lambda data: data.decode("latin-1"))))
def test_any_token_is_refused_and_nothing_else(text: str) -> None:
    made = Jwks({URL: "file:///nowhere"})
    made._keys = [KEY, CURVE]
    for token in (text, f"{text}.{text}.{text}", signed(CLAIMS)[:-4] + text):
        with pytest.raises(InvalidToken):
            made.validated(token, NOW)


def test_an_unknown_key_id_asks_for_the_keys_again(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loaded(keys)
    asked: list[bool] = []
    made.wanted = lambda: asked.append(True)
    for _ in range(3):
        with pytest.raises(InvalidToken):
            made.validated(signed(CLAIMS, OTHER), NOW)
    assert len(asked) == 1
    for number in range(40):
        with pytest.raises(InvalidToken):
            made.validated(signed(CLAIMS, OTHER, kid=f"k{number}"), NOW)
    assert len(asked) == 1
    monkeypatch.setattr(jwks, "LEAST_PAUSE", 0)
    for number in range(40):
        with pytest.raises(InvalidToken):
            made.validated(signed(CLAIMS, OTHER, kid=f"k{number}"), NOW)
    assert (len(asked), len(made._unknown)) == (41, 16)


def test_an_issuer_that_answers_no_http_changes_nothing(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loaded(keys)
    with socket.create_server(("127.0.0.1", 0)) as garbling:
        thread = threading.Thread(target=answer_garbage, args=(garbling,))
        thread.start()
        made.url = f"http://127.0.0.1:{garbling.getsockname()[1]}/keys"
        with pytest.raises(ValueError, match=r"cannot be read: no JSON Web Key Set"):
            made.load()
        thread.join()
    assert made.validated(signed(CLAIMS), NOW)[0] == "alice"


async def test_any_error_of_a_look_at_the_keys_is_counted_and_the_next_look_comes(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RENEWAL_SECONDS", 0)
    made, failures, looks = loaded(keys), Failures(), []
    again = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def load() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise ArithmeticError
        token.run_sync_soon(again.set)

    made.refresh_s = 0
    monkeypatch.setattr(made, "load", load)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server._refresh, made, failures)
        with trio.fail_after(PATIENCE_S):
            await again.wait()
        nursery.cancel_scope.cancel()
    assert failures.by_border == {"security": 1}


def answer_garbage(garbling: socket.socket) -> None:
    connection, _ = garbling.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(b"garbage\r\n\r\n")


@pytest.mark.parametrize("text", ["", "[]", '{"keys": 1}', '{"keys": []}', '{"keys": [{"kty": "oct", "k": "AA"}]}'])
def test_a_document_without_keys_changes_nothing(keys: Path, text: str) -> None:
    made = loaded(keys)
    keys.write_text(text)
    with pytest.raises(ValueError, match=r"^(The keys of )?sasl\.oauthbearer\.jwks\.endpoint\.url"):
        made.load()
    assert made.validated(signed(CLAIMS), NOW)[0] == "alice"


def test_settings_that_do_not_fit_are_refused(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
    handler = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    assert security_of(listener | {handler: VALIDATOR, URL: keys.as_uri()}) is not None
    for wrong in ({handler: VALIDATOR}, {handler: "mine"}, {URL: "ftp://host/keys"}, {URL: str(keys)}):
        with pytest.raises(ValueError, match=r"sasl\."):
            security_of(listener | wrong)
    monkeypatch.setattr(jwks, "MAX_BYTES", 10)
    with pytest.raises(ValueError, match="cannot be read"):
        loaded(keys)
    with pytest.raises(ValueError, match="cannot be read"):
        loaded(keys.with_name("none"))


class Issuer(HTTPServer):
    """An issuer with an address for its keys."""

    text = document(KEY)

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.served = 0


class Answer(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        self.server.served += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Signs a token for each login."""

    key = KEY

    def token(self) -> str:
        return signed({"sub": "alice", "iat": time.time(), "exp": time.time() + 600}, self.key)


def test_a_client_logs_in_and_the_issuer_changes_its_keys(issuer: Issuer) -> None:
    config = {URL: f"http://127.0.0.1:{issuer.server_port}/keys", "sasl.enabled.mechanisms": "OAUTHBEARER"}
    with CoordinatorServer(topics={"orders": 1}, security="SASL_SSL", config=config) as server:
        settings = server.client_settings("kafka-python", "alice", "OAUTHBEARER")
        settings["sasl_oauth_token_provider"] = tokens = Tokens()
        consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, **settings)
        assert consumer.topics() == {"orders"}
        consumer.close()
        assert issuer.served == 1
        issuer.text, tokens.key = document(OTHER), OTHER
        while True:
            # The first token of the new key asks for the keys, and is refused.
            try:
                consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, **settings)
            except KafkaError:
                continue
            break
        assert consumer.topics() == {"orders"}
        consumer.close()
        assert issuer.served == 2
