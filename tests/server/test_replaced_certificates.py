"""Certificates that are replaced while the server runs (S15, S16 of the scenarios)."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.security.certificates import Issued, TestAuthority
from kafka_shim.security.tls import tls_of
from kafka_shim.server import server as serving
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client


def trusting(authority: str, host: str = "127.0.0.1") -> Callable[[socket.socket], ssl.SSLSocket]:
    return lambda sock: ssl.create_default_context(cadata=authority).wrap_socket(sock, server_hostname=host)


def is_served(client: Client) -> bool:
    return bool(client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0)


def put(path: Path, issued: Issued) -> None:
    new = path.with_suffix(".new")
    new.write_text(issued.key + issued.certificate)
    new.replace(path)


def test_new_connections_see_the_certificate_that_has_replaced_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "RENEWAL_SECONDS", 0.01)
    first, second = TestAuthority(), TestAuthority()
    file = tmp_path / "server.pem"
    put(file, first.server())
    config = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(file)}
    with CoordinatorServer(config=config) as server, Client(server.bootstrap, trusting(first.certificate)) as old:
        assert is_served(old)
        put(file, second.server())
        while True:
            try:
                with Client(server.bootstrap, trusting(second.certificate)) as new:
                    assert is_served(new)
                    break
            except ssl.SSLCertVerificationError:
                continue
        assert is_served(old)
        with pytest.raises(ssl.SSLCertVerificationError):
            Client(server.bootstrap, trusting(first.certificate))


def test_files_that_are_no_certificate_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = TestAuthority()
    file = tmp_path / "server.pem"
    put(file, authority.server())
    tls = tls_of({"ssl.keystore.location": str(file)})
    before = tls.context
    assert not tls.look()
    file.write_text("half a certif")
    with pytest.raises(ValueError, match="cannot be used"):
        tls.look()
    assert not tls.look()
    file.unlink()
    with pytest.raises(ValueError, match="No such file"):
        tls.look()
    assert tls.context is before
    put(file, authority.server())
    assert tls.look()
    assert tls.context is not before


def test_the_kit_replaces_the_certificate_of_a_server() -> None:
    with CoordinatorServer(security="SSL") as server:
        assert server.ca_file is not None
        authority = Path(server.ca_file).read_text()
        with Client(server.bootstrap, trusting(authority)) as old:
            server.replace_certificate(seconds=-1)
            with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
                Client(server.bootstrap, trusting(authority))
            server.replace_certificate("other.test")
            with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.1"):
                Client(server.bootstrap, trusting(authority))
            with Client(server.bootstrap, trusting(authority, "other.test")) as other:
                assert is_served(other)
            assert is_served(old)
            server.replace_certificate()
            with Client(server.bootstrap, trusting(authority)) as new:
                assert is_served(new)
    with CoordinatorServer() as server, pytest.raises(ValueError, match="no certificate"):
        server.replace_certificate()


def test_a_broken_replacement_is_logged_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "RENEWAL_SECONDS", 0.01)
    authority = TestAuthority()
    file = tmp_path / "server.pem"
    put(file, authority.server())
    config = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(file)}
    with CoordinatorServer(config=config) as server, caplog.at_level(logging.ERROR):
        file.write_text("nothing")
        while "The certificate before stays" not in caplog.text:
            with Client(server.bootstrap, trusting(authority.certificate)) as client:
                assert is_served(client)
        assert "nothing" not in caplog.text
