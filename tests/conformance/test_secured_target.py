"""The suite connects to a target by TLS and SASL, with the options of its command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.conformance.broker_options import PASSWORD
from kafka_shim.conformance.cli import cli
from kafka_shim.testing import CoordinatorServer

SECRET = "the secret of alice"
# The first needs a server's list of brokers, the second looks for silence on a connection that TLS has just begun.
CASES = ("--case", "metadata/brokers/1@13", "--case", "join/round/1@9", "--case", "heartbeat/generation/1@4")


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    config = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
    with CoordinatorServer(security="SASL_SSL", users={"alice": SECRET}, config=config, brokers=2) as made:
        yield made


def run(server: CoordinatorServer, *arguments: str) -> tuple[int, str]:
    assert server.ca_file is not None
    command = ["--target", server.bootstrap, "--tls-ca", server.ca_file, *arguments]
    done = CliRunner().invoke(cli, command)
    return done.exit_code, done.output


@pytest.mark.second_stage("long runs")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_cells_pass_over_tls_and_sasl(
    server: CoordinatorServer, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, SECRET)
    results = tmp_path / "run.json"
    code, output = run(server, "--sasl", f"{mechanism}:alice", *CASES, "--results", str(results))
    assert code == 0, output
    assert "0 not as expected" in output
    text = results.read_text()
    assert f"--sasl {mechanism}:alice" in text  # the command of the run, to repeat it
    assert SECRET not in text


def test_a_token_and_a_file_authenticate_too(server: CoordinatorServer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    for options in (
        ("--sasl", "OAUTHBEARER:alice"),
        ("--sasl", "SCRAM-SHA-256:alice", "--sasl-password-file", str(tmp_path / "password")),
    ):
        code, output = run(server, *options, "--case", "metadata/brokers/1@13")
        assert code == 0, output


def test_a_wrong_password_ends_the_run_with_the_reason_of_the_broker(
    server: CoordinatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, "wrong")
    code, output = run(server, "--sasl", "PLAIN:alice", *CASES)
    assert code == 2
    assert "SASL_AUTHENTICATION_FAILED (58): Authentication failed: Invalid username or password" in output


def test_an_unknown_authority_ends_the_run(server: CoordinatorServer) -> None:
    code, output = run(server, "--tls-ca", "system", *CASES)
    assert code == 2
    assert "certificate verify failed" in output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--sasl", "PLAIN"], "MECHANISM:USER"),
        (["--sasl", "GSSAPI:alice"], "MECHANISM:USER"),
        (["--sasl", "PLAIN:alice"], f"set {PASSWORD}, or name --sasl-password-file"),
        (["--sasl-password-file", __file__], "needs --sasl"),
        (["--tls-ca", __file__], "cannot be used"),
        (["--tls-cert", __file__], "need --tls-ca"),
        (["--tls-ca", "system", "--tls-cert", __file__], "cannot be used"),
        (["--tls-ca", "system", "--client", "all"], "--tls-ca has no effect with --client"),
        (["--tls-ca", "system", "--target", "shim"], "starts shim without TLS and SASL"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], text: str) -> None:
    done = CliRunner().invoke(cli, ["--target", "127.0.0.1:1", *arguments])
    assert done.exit_code == 2
    assert text in done.output
