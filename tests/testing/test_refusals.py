"""The kit refuses one mechanism, and lets a certificate end by the clock of the test."""

import ssl
from pathlib import Path

import pytest

from kafka_shim.testing import CoordinatorServer
from tests.server.test_replaced_certificates import is_served, trusting
from tests.server.test_secured import choose, prove
from tests.server.wire import Client


def test_one_mechanism_is_refused_and_accepted_again() -> None:
    with CoordinatorServer(security="SASL_PLAINTEXT", users={"alice": "secret"}) as server:
        with Client(server.bootstrap) as old:
            assert choose(old).error_code == 0
            assert prove(old, b"\0alice\0secret").error_code == 0
            server.refuse_mechanism("PLAIN")
            server.refuse_mechanism("PLAIN")
            with Client(server.bootstrap) as refused:
                answer = choose(refused)
                assert (answer.error_code, "PLAIN" in answer.mechanisms) == (33, False)
            with Client(server.bootstrap) as other:
                assert choose(other, "SCRAM-SHA-512").error_code == 0
            assert is_served(old)
        server.accept_mechanisms()
        with Client(server.bootstrap) as accepted:
            assert choose(accepted).error_code == 0


def test_only_an_enabled_mechanism_can_be_refused() -> None:
    with (
        CoordinatorServer() as server,
        pytest.raises(ValueError, match=r"PLAIN is not enabled here; these are: none\."),
    ):
        server.refuse_mechanism("PLAIN")
    with (
        CoordinatorServer(security="SASL_PLAINTEXT", users={"alice": "secret"}) as server,
        pytest.raises(ValueError, match=r"GSSAPI is not enabled here; these are: PLAIN, "),
    ):
        server.refuse_mechanism("GSSAPI")


def test_a_certificate_ends_by_the_clock_of_the_test() -> None:
    with CoordinatorServer(security="SSL") as server:
        assert server.ca_file is not None
        authority = Path(server.ca_file).read_text()
        server.clock.freeze()
        server.expire_certificate(after=3600)
        with Client(server.bootstrap, trusting(authority)) as old:
            assert is_served(old)
            server.clock.advance(3599)
            with Client(server.bootstrap, trusting(authority)) as other:
                assert is_served(other)
            server.clock.advance(1)
            with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
                Client(server.bootstrap, trusting(authority))
            assert is_served(old)
            server.replace_certificate()
            with Client(server.bootstrap, trusting(authority)) as new:
                assert is_served(new)
    with CoordinatorServer() as server, pytest.raises(ValueError, match="no certificate"):
        server.expire_certificate()
