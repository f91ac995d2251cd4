"""The way out of a private subnet: a proxy that plays the hosts behind it, and lets nothing through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ssl import SSLError

from gpu_constructs.rehearsal.players.authority import Authority
from gpu_constructs.rehearsal.players.internet.charts import Charts
from gpu_constructs.rehearsal.players.internet.server import LOOPBACK, ChartHost, ChartServer


class Internet:
    """Every host that a deployment asks by name, played from one folder of charts.

    Attributes:
        address: Address of the proxy.
        authority: Who vouches for the hosts.
        asked: Hosts that were asked, in order, each once.
    """

    def __init__(self, address: str, authority: Authority) -> None:
        self.address, self.authority = address, authority
        self.asked: list[str] = []

    def environment(self) -> dict[str, str]:
        """Return the environment by which programs go through the proxy and trust what it plays."""
        return {
            "HTTPS_PROXY": self.address,
            "NO_PROXY": f"{LOOPBACK},localhost",
            **self.authority.environment(),
        }


class _Server(ChartServer):
    internet: Internet


class _Proxy(ChartHost):
    """Takes who wants to reach a host to the played one."""

    server: _Server

    def do_CONNECT(self) -> None:
        """Play the host to which a tunnel is asked."""
        host = self.path.rpartition(":")[0]
        if host not in self.server.internet.asked:
            self.server.internet.asked.append(host)
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        try:
            tunnel = self.server.internet.authority.context(host).wrap_socket(self.connection, server_side=True)
        except (SSLError, ConnectionError):
            return
        with tunnel:
            ChartHost(tunnel, self.client_address, self.server)


@contextmanager
def internet(charts: Charts, authority: Authority) -> Iterator[Internet]:
    """Play the hosts of charts behind a proxy on loopback.

    Args:
        charts: What they have.
        authority: Vouches for them.
    """
    server = _Server(charts, _Proxy)
    server.internet = Internet(server.address, authority)
    with server.serving():
        yield server.internet
