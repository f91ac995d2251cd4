"""The boot configuration of nodes, from the templates."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import yaml

from tests.emitted import Template
from tests.templates import manifests_of, of_type, text_of
from tests.user_data import parts_of

NODE_CONFIG = "application/node.eks.aws"
SCRIPT = "text/x-shellscript"


def user_data_of(template: Template) -> Iterator[str]:
    """Return the user data of every launch template and EC2NodeClass; values known at deployment are ``${...}``."""
    resources = template.get("Resources", {})
    for each in of_type(resources, "AWS::EC2::LaunchTemplate").values():
        if given := each["Properties"]["LaunchTemplateData"].get("UserData"):
            yield b64decode(given).decode() if isinstance(given, str) else text_of(given["Fn::Base64"])
    for made in manifests_of(resources):
        if made["kind"] == "EC2NodeClass" and "userData" in made["spec"]:
            yield made["spec"]["userData"]


def parts(emitted: dict[str, Template], kind: str) -> dict[str, str]:
    """Return every different part of a content type, by itself, and where it is."""
    texts = {text: name for name, template in emitted.items() for text in user_data_of(template)}
    multipart = {text: name for text, name in texts.items() if text.startswith(("MIME", "Content-Type"))}
    return {part: name for text, name in multipart.items() for found, part in parts_of(text) if found == kind}


def node_configs(emitted: dict[str, Template]) -> list[tuple[str, dict[str, Any]]]:
    """Return every different NodeConfig, and where it is."""
    return [(name, yaml.safe_load(part)) for part, name in parts(emitted, NODE_CONFIG).items()]
