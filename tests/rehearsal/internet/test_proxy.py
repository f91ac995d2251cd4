"""The simulated hosts answer like image registries and chart repositories."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml
from urllib3 import BaseHTTPResponse, ProxyManager

from gpu_rehearsal.credentials import Authority
from gpu_rehearsal.internet import Charts, Internet


@pytest.fixture
def charts(tmp_path: Path) -> Charts:
    """One packed chart."""
    about = yaml.safe_dump({"apiVersion": "v2", "name": "karpenter", "version": "1.14.1"}).encode()
    with tarfile.open(tmp_path / "karpenter-1.14.1.tgz", "w:gz") as archive:
        entry = tarfile.TarInfo("karpenter/Chart.yaml")
        entry.size = len(about)
        archive.addfile(entry, io.BytesIO(about))
    return Charts(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The certificate authority of the hosts."""
    return Authority(tmp_path)


def _get(net: Internet, address: str) -> BaseHTTPResponse:
    return ProxyManager(net.address, ca_certs=str(net.authority.certificate)).request("GET", address, retries=False)


def test_a_registry_returns_the_chart_by_the_digest_in_its_manifest(charts: Charts, authority: Authority) -> None:
    with Internet(charts, authority) as net:
        manifest = json.loads(_get(net, "https://public.ecr.aws/v2/karpenter/karpenter/manifests/1.14.1").data)
        [layer] = manifest["layers"]
        blob = _get(net, f"https://public.ecr.aws/v2/karpenter/karpenter/blobs/{layer['digest']}").data
    assert blob == charts.file("karpenter", "1.14.1").read_bytes()
    assert layer["digest"] == f"sha256:{hashlib.sha256(blob).hexdigest()}"
    assert net.requested_hosts == {"public.ecr.aws"}


def test_a_repository_returns_the_chart_in_its_index(charts: Charts, authority: Authority) -> None:
    with Internet(charts, authority) as net:
        index = yaml.safe_load(_get(net, "https://example.com/charts/index.yaml").data)
        [entry] = index["entries"]["karpenter"]
        got = _get(net, f"https://example.com/charts/{entry['urls'][0]}").data
    assert hashlib.sha256(got).hexdigest() == entry["digest"]


@pytest.mark.parametrize(
    "address",
    [
        "https://public.ecr.aws/v2/karpenter/karpenter/manifests/1.15.1",
        "https://public.ecr.aws/v2/karpenter/other/manifests/1.14.1",
        "https://example.com/charts/other-1.0.0.tgz",
    ],
)
def test_a_chart_that_is_not_in_the_folder_is_not_found(charts: Charts, authority: Authority, address: str) -> None:
    with Internet(charts, authority) as net:
        assert _get(net, address).status == 404


def test_a_leading_v_is_the_same_version(charts: Charts) -> None:
    assert charts.has("karpenter", "v1.14.1")
    assert not charts.has("karpenter", "1.14.2")


def test_a_client_that_does_not_trust_the_authority_fails(charts: Charts, authority: Authority) -> None:
    with Internet(charts, authority) as net, pytest.raises(Exception, match="certificate verify failed"):
        ProxyManager(net.address).request("GET", "https://public.ecr.aws/v2/", retries=False)
