"""A certificate authority for tests: certificates for a server and for clients, as PEM. Needs `cryptography`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID
except ModuleNotFoundError as error:
    raise ImportError("Certificates for tests need a package more: pip install 'kafka-group-shim[security]'") from error

HOSTS = ("localhost", "127.0.0.1", "::1")


class Issued(NamedTuple):
    """A private key and its certificate, both as PEM."""

    key: str
    certificate: str


class TestAuthority:
    """An authority that signs certificates for `days` days. Its own key never leaves the process."""

    __test__ = False
    """Not a test class of pytest."""

    def __init__(self, days: float = 30) -> None:
        self._lasts = timedelta(days=days)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kafka-shim test authority")
        builder = self._builder(self._name, self._key.public_key(), self._lasts)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        self._certificate = builder.sign(self._key, SHA256())

    @property
    def certificate(self) -> str:
        """The certificate that clients trust, as PEM."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def java_truststore(self, password: str) -> bytes:
        """Return a PKCS12 truststore for Java with the certificate of the authority."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

        trusted = pkcs12.PKCS12Certificate(self._certificate, b"kafka-shim")
        return pkcs12.serialize_java_truststore([trusted], BestAvailableEncryption(password.encode()))

    def java_keystore(self, issued: Issued, password: str) -> bytes:
        """Return a PKCS12 keystore for Java with a key, its certificate and that of the authority."""
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            load_pem_private_key,
            pkcs12,
        )

        key = load_pem_private_key(issued.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"kafka-shim", key, certificate, [self._certificate], encryption)

    def server(self, hosts: Iterable[str] = HOSTS, lasts: timedelta | None = None) -> Issued:
        """Issue a certificate for a server with these names and addresses."""
        names: list[x509.GeneralName] = []
        for host in hosts:
            try:
                names.append(x509.IPAddress(ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
        return self._issue([(NameOID.COMMON_NAME, "kafka-shim")], x509.SubjectAlternativeName(names), lasts)

    def client(self, name: str, organization: str | None = None, lasts: timedelta | None = None) -> Issued:
        """Issue a certificate for a client; `name` is its common name."""
        parts = [] if organization is None else [(NameOID.ORGANIZATION_NAME, organization)]
        return self._issue([*parts, (NameOID.COMMON_NAME, name)], None, lasts)

    def _issue(
        self,
        parts: Sequence[tuple[x509.ObjectIdentifier, str]],
        names: x509.SubjectAlternativeName | None,
        lasts: timedelta | None,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
        builder = self._builder(subject, key.public_key(), lasts or self._lasts)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, SHA256())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return Issued(private, certificate.public_bytes(Encoding.PEM).decode())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lasts: timedelta) -> x509.CertificateBuilder:
        # A clock may be a little behind that of the issuer; a certificate that has ended is for tests of refusals.
        now = datetime.now(UTC)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + lasts) - timedelta(hours=1))
            .not_valid_after(now + lasts)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
