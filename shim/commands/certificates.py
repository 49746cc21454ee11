"""`kafka-shim certificates`: a test authority, certificates of a server and a client, and the settings for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from kafka_shim.apis.readable import readable_lines
from kafka_shim.commands.parameters import Whole


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name or an address of the server, beside localhost; may be repeated.",
)
@click.option("--client", default="client", show_default=True, metavar="NAME", help="The common name of the client.")
@click.option("--days", type=Whole(1, 3650), default=30, show_default=True, help="How long the certificates count.")
def certificates(folder: Path, hosts: tuple[str, ...], client: str, days: int) -> None:
    """Make a test authority, and certificates of a server and a client, in FOLDER; print the settings to use them.

    The key of the authority is not written: to get other certificates, make a new folder.
    """
    try:
        from kafka_shim.security import certificate_files as files
        from kafka_shim.security.certificates import HOSTS, TestAuthority
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    authority = TestAuthority(days)
    try:
        of_server, of_client = authority.server((*HOSTS, *hosts)), authority.client(client)
    except ValueError as error:
        raise click.ClickException("A certificate has hosts in ASCII, and a client of 1 to 64 letters.") from error
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if existing := next((name for name in files.EVERY if (folder / name).exists()), None):
            raise click.ClickException(f"{folder / existing} already exists.")
        server = {"listeners": "SSL://127.0.0.1:9093"} | files.write_server(folder, authority, of_server)
        files.write_pem(folder / files.CLIENT, of_client)
        files.write_stores(folder, authority, of_client)
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be written: {error.strerror}.") from error
    click.echo(readable_lines("\n".join(_advice(folder, server, client, days))))


def _advice(folder: Path, server: dict[str, str], name: str, days: int) -> Iterator[str]:
    from kafka_shim.security import certificate_files as files
    from kafka_shim.security.listeners import Protocol
    from kafka_shim.security.tls import name_of
    from kafka_shim.testing.secured import Files, settings_of

    principal = f"User:{name_of({'subject': ((('commonName', name),),)})}"
    ca, client = str(folder / files.CA), str(folder / files.CLIENT)
    yield f"{', '.join(files.EVERY)} are in {folder}, for {days} days. The client is {principal}."
    yield from _block("Settings of kafka-shim serve (--config) or Kafka", server | {"ssl.client.auth": "required"})
    java = settings_of("java", Protocol.SSL, Files(ca, client))
    yield from _block("Java", java)
    stores = {"security.protocol": "SSL"}
    for name, file in (("truststore", files.TRUSTSTORE), ("keystore", files.KEYSTORE)):
        stores |= {f"ssl.{name}.type": "PKCS12", f"ssl.{name}.location": str(folder / file)}
        stores[f"ssl.{name}.password"] = files.STORE_PASSWORD
    yield from _block("Java, with stores", stores)
    for style in ("confluent-kafka", "kafka-python"):
        yield from _block(style, settings_of(style, Protocol.SSL, Files(ca, client)))
    yield "aiokafka, in Python:"
    yield f"  ssl_context = ssl.create_default_context(cafile={ca!r})"
    yield f"  ssl_context.load_cert_chain({client!r})"
    yield "  AIOKafkaConsumer(..., security_protocol='SSL', ssl_context=ssl_context)"
    yield "KafkaJS:"
    yield f"  const pem = fs.readFileSync({_quoted(client)})"
    yield f"  new Kafka({{ ..., ssl: {{ ca: [fs.readFileSync({_quoted(ca)})], key: pem, cert: pem }} }})"
    yield "franz-go:"
    yield f"  pem, _ := os.ReadFile({_quoted(ca)})"
    yield "  trusted := x509.NewCertPool()"
    yield "  trusted.AppendCertsFromPEM(pem)"
    yield f"  own, _ := tls.LoadX509KeyPair({_quoted(client)}, {_quoted(client)})"
    yield "  kgo.DialTLSConfig(&tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{own}})"
    yield "A server that asks for no certificate needs no client.pem, no client.p12 and no ssl.client.auth."


def _quoted(path: str) -> str:
    # A string of JSON is one of JavaScript and of Go too.
    return json.dumps(path)


def _block(title: str, settings: dict[str, str]) -> Iterator[str]:
    yield f"{title}:"
    yield from (f"  {name}={value}" for name, value in settings.items())
