"""Who vouches for the played hosts, so that real programs speak TLS to them as to the real ones."""

from __future__ import annotations

import ssl
from pathlib import Path

from trustme import CA


class Authority:
    """A certificate authority of one play.

    Args:
        folder: For its certificate.

    Attributes:
        certificate: File with its certificate alone.
        bundle: File with it and all that this machine trusts already.
    """

    def __init__(self, folder: Path) -> None:
        self._ca = CA()
        self.certificate, self.bundle = folder / "authority.pem", folder / "trusted.pem"
        self._ca.cert_pem.write_to_path(str(self.certificate))
        trusted = ssl.get_default_verify_paths().cafile
        self.bundle.write_bytes(
            (Path(trusted).read_bytes() + b"\n" if trusted else b"") + self.certificate.read_bytes()
        )

    def context(self, host: str) -> ssl.SSLContext:
        """Return what a host shows of itself."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(host).configure_cert(made)
        return made

    def environment(self) -> dict[str, str]:
        """Return the variables by which programs in Go, Python and Node trust it."""
        return {"SSL_CERT_FILE": str(self.bundle), "NODE_EXTRA_CA_CERTS": str(self.certificate)}
