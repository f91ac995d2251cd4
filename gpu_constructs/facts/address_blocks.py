"""Blocks of addresses."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

# Source: RFC 1918
PRIVATE: Final = tuple(IPv4Network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
LOOPBACK: Final = IPv4Network("127.0.0.0/8")
# What EKS recommends for pods, since companies seldom route it.
# Source: https://docs.aws.amazon.com/eks/latest/best-practices/custom-networking.html (2026-11)
FOR_PODS: Final = (IPv4Network("100.64.0.0/10"), IPv4Network("198.19.0.0/16"))
