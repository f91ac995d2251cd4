"""Hosts with every escape hatch, for tests."""

from __future__ import annotations

from typing import Any

from gpu_constructs.pools import BottlerocketSettings, Host, NodeConfig, Proxy, ShellScript

# Made for these tests; nothing is signed by it.
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUBQ==\n-----END CERTIFICATE-----\n"
PROXY = Proxy(url="http://proxy.example.com:3128", no_proxy=("10.0.0.0/16", ".example.com"))
_SURROUNDINGS: dict[str, Any] = {
    "registry_mirrors": {
        "docker.io": "https://mirror.example.com",
        "ghcr.io": ("https://mirror.example.com:8443", "http://spare.example.com"),
    },
    "certificate_authorities": (CERTIFICATE,),
    "proxy": PROXY,
}
SURROUNDED = Host(**_SURROUNDINGS)
_PARTS: dict[str, tuple[Any, ...]] = {
    "al2023": (
        NodeConfig(spec={"kubelet": {"config": {"shutdownGracePeriod": "60s"}, "flags": ["--v=2"]}}),
        ShellScript(text="#!/bin/bash\necho hello\n"),
    ),
    "bottlerocket": (BottlerocketSettings(settings={"motd": "GPU node"}),),
}


def everything(system: str) -> Host:
    """A host with all that an operating system takes."""
    return Host(
        security_group_ids=("sg-0123456789abcdef9",),
        metadata_hop_limit=2,
        user_data=_PARTS[system],
        **_SURROUNDINGS,
    )
