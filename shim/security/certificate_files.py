"""Files of a test authority in a folder: certificates and keys as PEM, and as stores for Java."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kafka_shim.security.certificates import Issued, TestAuthority

CA: Final = "ca.pem"
SERVER: Final = "server.pem"
CLIENT: Final = "client.pem"
KEYSTORE: Final = "client.p12"
TRUSTSTORE: Final = "truststore.p12"
EVERY: Final = (CA, SERVER, CLIENT, KEYSTORE, TRUSTSTORE)
STORE_PASSWORD: Final = "changeit"
"""The password of both stores. It hides nothing: the same key is in the PEM file of the client."""


def write_server(folder: Path, authority: TestAuthority, issued: Issued) -> dict[str, str]:
    """Write the certificate of the authority, and a server's with its key; return Kafka's settings of the server.
    Raises FileExistsError."""
    _write(folder / CA, authority.certificate.encode())
    write_pem(folder / SERVER, issued)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / SERVER),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / CA),
    }


def write_pem(path: Path, issued: Issued) -> None:
    """Write a key and its certificate as one PEM file, as Kafka and all its clients read them. Raises
    FileExistsError."""
    _write(path, (issued.key + issued.certificate).encode())


def write_stores(folder: Path, authority: TestAuthority, client: Issued) -> None:
    """Write a keystore of the client and a truststore for Java. Raises FileExistsError."""
    _write(folder / KEYSTORE, authority.java_keystore(client, STORE_PASSWORD))
    _write(folder / TRUSTSTORE, authority.java_truststore(STORE_PASSWORD))


def _write(path: Path, data: bytes) -> None:
    # A key is for its owner alone, and nothing that exists is replaced.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
