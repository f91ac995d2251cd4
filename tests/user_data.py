"""Reading the user data of AL2023 nodes in tests."""

from __future__ import annotations

from email import message_from_string

from gpu_constructs.nodes.bootstrap import Membership


def parts_of(text: str | None) -> list[tuple[str, str]]:
    """Return content type and text of each part of a MIME message."""
    whole = message_from_string(text or "")
    assert whole.is_multipart()
    return [(part.get_content_type(), str(part.get_payload())) for part in whole.walk() if part is not whole]


def membership(name: str) -> Membership:
    """The parameters of a node's cluster."""
    return Membership(
        name=name,
        endpoint="https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
        certificate_authority="Y2VydGlmaWNhdGU=",
        service_cidr="172.20.0.0/16",
        kubernetes_version="1.36",
        ami_release="v20261012",
        image_parameter="/aws/image",
    )
