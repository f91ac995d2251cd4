"""Mirrors, authorities and proxy of a company reach nodes on either operating system."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli
import yaml
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import Mig, NodeShape, UpTo
from gpu_constructs.autoscaling.auto_mode_node_pool import node_class
from gpu_constructs.autoscaling.node_pool import Network, NodePool
from gpu_constructs.nodes.user_data import al2023_scripts, joining_user_data, node_class_user_data, user_data
from gpu_constructs.pools import Host, NodeConfig, OnDemand, ShellScript
from tests.hosts import CERTIFICATE, PROXY, SURROUNDED
from tests.user_data import membership, parts_of

Render = Callable[[NodeShape], str | None]


def joining(shape: NodeShape) -> str:
    return joining_user_data(shape, "l4", membership("demo"))


RENDERS = pytest.mark.parametrize("render", [user_data, joining, node_class_user_data])


def shape(system: Any, host: Host = SURROUNDED, **changes: Any) -> NodeShape:
    return NodeShape(instance_types=("p5.48xlarge",), operating_system=system, raid0=False, host=host, **changes)


def spec_of(text: str | None) -> dict[str, Any]:
    [config] = [yaml.safe_load(part) for kind, part in parts_of(text) if kind == "application/node.eks.aws"]
    spec: dict[str, Any] = config["spec"]
    return spec


@pytest.mark.parametrize("system", ["al2023", "bottlerocket"])
def test_a_managed_node_in_a_company(system: str, snapshot_text: SnapshotAssertion) -> None:
    assert user_data(shape(system)) == snapshot_text


@RENDERS
def test_nodeadm_knows_the_proxy(render: Render) -> None:
    environment = spec_of(render(shape("al2023")))["instance"]["environment"]["default"]

    assert environment["HTTPS_PROXY"] == environment["https_proxy"] == PROXY.url
    assert {"169.254.169.254", ".svc", "10.0.0.0/16"} <= set(environment["NO_PROXY"].split(","))


@RENDERS
def test_scripts_run_behind_mirrors_and_authorities(render: Render) -> None:
    host = Host(certificate_authorities=(CERTIFICATE,), user_data=(ShellScript(text="#!/bin/bash\ntrue\n"),))
    text = render(shape("al2023", host, sharing=Mig(geometry={"1g.10gb": 7})))

    scripts = [part for kind, part in parts_of(text) if kind == "text/x-shellscript"]
    assert ["update-ca-trust" in each for each in scripts] == [True, False, False]
    assert ["nvidia-smi" in each for each in scripts] == [False, True, False]


@RENDERS
def test_bottlerocket_has_settings_for_all_of_it(render: Render) -> None:
    settings = tomli.loads(render(shape("bottlerocket")) or "")["settings"]

    mirrors = {each["registry"]: each["endpoint"] for each in settings["container-registry"]["mirrors"]}
    assert mirrors["ghcr.io"] == ["https://mirror.example.com:8443", "http://spare.example.com"]
    [bundle] = settings["pki"].values()
    assert (base64.b64decode(bundle["data"]).decode(), bundle["trusted"]) == (CERTIFICATE, True)
    assert settings["network"] == {"https-proxy": PROXY.url, "no-proxy": list(PROXY.exceptions)}


def test_a_node_config_has_the_last_word() -> None:
    host = Host(
        proxy=PROXY,
        user_data=(NodeConfig(spec={"instance": {"environment": {"default": {"HTTP_PROXY": "http://other:1"}}}}),),
    )

    environment = spec_of(user_data(shape("al2023", host)))["instance"]["environment"]["default"]
    assert (environment["HTTP_PROXY"], environment["HTTPS_PROXY"]) == ("http://other:1", PROXY.url)


def test_the_script_writes_what_containerd_reads(tmp_path: Path) -> None:
    [script] = al2023_scripts(Host(registry_mirrors=SURROUNDED.registry_mirrors))
    here = script.replace("/etc/", f"{tmp_path}/")

    subprocess.run(["bash", "-c", here], check=True)

    read = {each.parent.name: tomli.loads(each.read_text()) for each in tmp_path.rglob("hosts.toml")}
    assert list(read["ghcr.io"]["host"]) == ["https://mirror.example.com:8443", "http://spare.example.com"]
    assert read["docker.io"]["host"]["https://mirror.example.com"]["capabilities"] == ["pull", "resolve"]


def test_auto_mode_takes_proxy_and_authorities() -> None:
    told = NodeShape(
        instance_types=("g6.xlarge",),
        operating_system="bottlerocket",
        host=Host(proxy=PROXY, certificate_authorities=(CERTIFICATE,)),
    )
    pool = NodePool.from_arguments(
        "who", name="l4", shape=told, size=UpTo(gpus=8), capacity=OnDemand(), disruption=None
    )

    spec = node_class(pool=pool, role_name="nodes", network=Network(subnet_ids=[], security_group_ids=[]))["spec"]
    assert spec["advancedNetworking"] == {"httpsProxy": PROXY.url, "noProxy": list(PROXY.exceptions)}
    [bundle] = spec["certificateBundles"]
    assert base64.b64decode(bundle["data"]).decode() == CERTIFICATE
