"""Certificates made for one test: an authority, what it signs, and files of them."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Puts both into files and says which."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        for path, content in ((certificate, self.certificate), (key, self.key)):
            draft = path.with_suffix(".draft")
            draft.write_bytes(content)
            draft.replace(path)
        return certificate, key


class Authority:
    """Signs certificates for loopback and for clients."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        builder = _builder(self._name, self._name, self._key.public_key(), 3650 * _DAY)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = builder.add_extension(basic, critical=True).sign(
            self._key, hashes.SHA256()
        )

    @property
    def certificate(self) -> bytes:
        """In PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, path: Path) -> Path:
        """Puts the certificate into a file."""
        path.write_bytes(self.certificate)
        return path

    def server(self, name: str = "server") -> Pair:
        """For 127.0.0.1 and localhost."""
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names: list[x509.GeneralName] = [x509.DNSName("localhost"), loopback]
        return self._sign(name, names, _DAY)

    def named(self, host: str, life: dt.timedelta = _DAY) -> Pair:
        """For a server of this host name alone."""
        return self._sign(host, [x509.DNSName(host)], life)

    def client(self, *uris: str, life: dt.timedelta = _DAY) -> Pair:
        """For a client that these URIs name."""
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        return self._sign("client", names or [x509.DNSName("client")], life)

    def _sign(self, name: str, names: list[x509.GeneralName], life: dt.timedelta) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key.public_key(), life)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Pair(signed.public_bytes(serialization.Encoding.PEM), private)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + life) - _DAY)
        .not_valid_after(now + life)
    )
