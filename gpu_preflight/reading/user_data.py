"""User data, which configures a node at boot.

Sources: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/, https://bottlerocket.dev/en/os/latest/api/settings/
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from gpu_facts.light import dataclass, regex
from gpu_facts.merging import merged
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import UnusableInput, parse, refuse_endless
from gpu_preflight.reading.objects import Marks
from gpu_preflight.reading.unknown import Unknown, dig, is_true, items, mapping

if TYPE_CHECKING:
    from email.message import Message

# Values known at deployment only: an intrinsic, and a dynamic reference.
_UNKNOWN = regex(r"\$\{|\{\{resolve:")
# IAM policies, which a template may have as an object or as JSON text.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-iam-role.html (2026-08)
_DOCUMENTS = ("AssumeRolePolicyDocument", "PolicyDocument")
# EC2's limit before base64.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html (2026-08)
MAX_BYTES = 16 * 1024
_MAX_UNZIPPED = 1024**2
# Expressions of unknown values are longer than the values.
_MAX_CHARACTERS = 4 * MAX_BYTES
# The time of the parsers for headers and dotted keys grows with the square of the length.
_HEADER = regex(r"^content-[^\n]*(?:\n[ \t][^\n]*)*", re.IGNORECASE | re.MULTILINE)
_MAX_HEADER = 2_000
_MAX_DOTS = 100
# Prefixes of text that isn't encoded. It can't be base64, for any value that deployment sets after the prefix.
_PLAIN_STARTS = ("#!", "#cloud-config", "MIME-Version:", "Content-Type:", "---\n", "apiVersion:", "[settings")


def parse_embedded(file: str, text: Any) -> Any:
    """Return the document of a JSON or YAML text of a template, or `Unknown` if it can't be parsed."""
    if isinstance(text, (dict, list)):
        return text
    if isinstance(text, str):
        return _load(file, text)
    if not isinstance(text, Unknown):
        return None
    marks = Marks(text.expression)
    marked = _mark(text.expression, marks)
    if marked is None:
        return text
    found = _load(file, marked)
    return text if isinstance(found, Unknown) else marks.restore(found, Unknown)


def _load(file: str, text: str) -> Any:
    try:
        # Not parsed as JSON: an unknown number makes it YAML.
        documents = [each.content for each in parse(f"text in {file},", text)]
    except UnusableInput:
        return Unknown(text[:80])
    return documents[0] if len(documents) == 1 else documents


def _mark(expression: str, marks: Marks) -> str | None:
    """Replace every ``${...}`` and ``{{resolve:...}}``, which may contain braces and quotes, by a mark."""
    parts: list[str] = []
    place = 0
    while found := _UNKNOWN.search(expression, place):
        start = found.start()
        end = _closing(expression, start + 2, 1 if found.group() == "${" else 2)
        if end is None:
            return None
        parts += [expression[place:start], marks.mark(expression[start : end + 1])]
        place = end + 1
    return "".join([*parts, expression[place:]])


def _closing(expression: str, place: int, depth: int) -> int | None:
    for index in range(place, len(expression)):
        depth += {"{": 1, "}": -1}.get(expression[index], 0)
        if depth == 0:
            return index
    return None


def with_read_policies(resource: Resource) -> Resource:
    """Return a resource with the policies of a role, or of itself, as objects, from any notation."""
    if not resource.type.startswith("AWS::IAM::"):
        return resource
    properties = {name: _read(resource.file, name, value) for name, value in resource.properties.items()}
    return replace(resource, properties=properties)


def _read(file: str, name: str, value: Any) -> Any:
    if name == "Policies" and isinstance(value, list):
        return [_with_document(file, each) if isinstance(each, dict) else each for each in value]
    if name in _DOCUMENTS and isinstance(value, (str, Unknown)):
        found = parse_embedded(file, value)
        return found if isinstance(found, dict) else value
    return value


def _with_document(file: str, policy: dict[str, Any]) -> dict[str, Any]:
    return {name: _read(file, name, value) for name, value in policy.items()}


@dataclass(frozen=True, slots=True)
class UserData:
    """Decoded user data.

    Attributes:
        format: ``none``, ``nodeadm`` (MIME or one NodeConfig), ``toml`` of Bottlerocket, ``script``, or ``unknown``.
        text: The text, with ``${...}`` for unknown parts; ``None`` if all of it is unknown.
        node_config: ``spec`` of the NodeConfig parts, merged.
        settings: ``settings`` of Bottlerocket.
        scripts: Shell parts.
        problem: Why it can't be read, in one line.
    """

    format: Literal["none", "nodeadm", "toml", "script", "unknown"]
    text: str | None = None
    node_config: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def kubelet_flags(self) -> tuple[str, ...]:
        """Flags of kubelet in the NodeConfig."""
        return tuple(each for each in items(dig(self.node_config, "kubelet", "flags")) if isinstance(each, str))

    @property
    def kubelet_config(self) -> Mapping[str, Any]:
        """Configuration of kubelet in the NodeConfig."""
        return mapping(dig(self.node_config, "kubelet", "config"))

    def has_feature_gate(self, name: str) -> bool:
        """Whether the NodeConfig enables a feature gate of nodeadm."""
        return is_true(dig(self.node_config, "featureGates", name))

    @property
    def node_labels(self) -> dict[str, Any]:
        """Labels with which kubelet is configured to register."""
        labels = dict(mapping(dig(self.settings, "kubernetes", "node-labels")))
        for flag in self.kubelet_flags:
            name, equals, pairs = flag.partition("=")
            if equals and name == "--node-labels":
                labels |= dict(pair.partition("=")[::2] for pair in pairs.strip("\"'").split(",") if pair)
        return labels


NONE = UserData("none")


def read_user_data(value: Any, *, encoded: bool = True) -> UserData:
    """Return decoded user data.

    Args:
        value: Property ``UserData`` of a launch template, or ``userData`` of an EC2NodeClass.
        encoded: Whether it is base64.
    """
    if value is None or value == "":
        return NONE
    text, unknown = _plain(value, encoded)
    if text is None:
        return UserData("unknown") if unknown else UserData("unknown", problem="isn't base64")
    try:
        return _parse_user_data(text)
    except UnusableInput as error:
        return UserData("unknown", text, problem=str(error))
    except RecursionError:
        return UserData("unknown", text, problem="is nested too deeply")


def _plain(value: Any, encoded: bool) -> tuple[str | None, bool]:
    if isinstance(value, dict):
        value, encoded = value.get("Fn::Base64"), False
    if isinstance(value, Unknown):
        plain = value.expression.lstrip().startswith(_PLAIN_STARTS)
        return (None, not plain) if encoded else (value.expression, True)
    if not isinstance(value, str):
        return None, False
    if not encoded:
        return value, False
    try:
        # Line breaks aren't part of base64, but pasted text often has them.
        data = base64.b64decode("".join(value.split()), validate=True)
        return _unzipped(data).decode(), False
    except (binascii.Error, ValueError, OSError, EOFError, zlib.error):
        return None, False


def _unzipped(data: bytes) -> bytes:
    """Return data that cloud-init would unzip, up to a limit far above real user data."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    with gzip.open(io.BytesIO(data)) as stream:
        return stream.read(_MAX_UNZIPPED)


def _parse_user_data(text: str) -> UserData:
    if len(text) > _MAX_CHARACTERS:
        return UserData("unknown", text, problem=f"is longer than the {MAX_BYTES} bytes that EC2 accepts")
    start = text.lstrip()
    if start.lower().startswith(("mime-version:", "content-type:")):
        return _mime(text)
    if start.startswith("#!"):
        return UserData("script", text, scripts=(text,))
    if "apiVersion: node.eks.aws" in text or '"node.eks.aws' in text:
        return UserData("nodeadm", text, node_config=_node_config(text))
    try:
        settings = mapping(_toml(text).get("settings"))
        refuse_endless("user data", settings)
        return UserData("toml", text, settings=settings)
    except (ValueError, RecursionError) as error:
        return UserData("unknown", text, problem=f"is neither MIME, NodeConfig, script nor TOML; read as TOML: {error}")


def _toml(text: str) -> dict[str, Any]:
    if any(line.partition("=")[0].count(".") > _MAX_DOTS for line in text.splitlines()):
        raise UnusableInput(f"has a key of more than {_MAX_DOTS} parts")
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover
        import tomli as tomllib
    return tomllib.loads(text)


def _mime(text: str) -> UserData:
    if any(len(each.group()) > _MAX_HEADER for each in _HEADER.finditer(text)):
        raise UnusableInput(f"has a header of more than {_MAX_HEADER:,} characters")
    # Imported here, because few inputs have user data of several parts.
    import email

    message = email.message_from_string(text)
    if not message.is_multipart():
        return UserData("unknown", text, problem="is a MIME message without parts")
    config: dict[str, Any] = {}
    scripts: list[str] = []
    for part in message.walk():
        payload = _payload(part)
        if part.get_content_type() == "application/node.eks.aws":
            config = _merge_node_configs(config, _node_config(payload))
        elif part.get_content_type().startswith("text/") and payload.strip():
            scripts.append(payload)
    return UserData("nodeadm", text, node_config=config, scripts=tuple(scripts))


def _payload(part: Message) -> str:
    if part.is_multipart():
        return ""
    payload = part.get_payload(decode=True)
    return payload.decode(errors="replace") if isinstance(payload, bytes) else ""


def _node_config(text: str) -> dict[str, Any]:
    found = parse_embedded("user data", Unknown(text) if "${" in text else text)
    found = found if isinstance(found, list) else [found]
    spec: dict[str, Any] = {}
    for each in found:
        spec = _merge_node_configs(spec, mapping(mapping(each).get("spec")))
    return spec


def _merge_node_configs(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Merge as nodeadm does: mappings recursively, kubelet flags appended, and the later value for everything else.

    Source: https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/api/merge.go (2026-08)
    """
    return merged(first, second, other=_append_flags)


def _append_flags(key: str, first: Any, second: Any) -> Any:
    return [*first, *second] if key == "flags" and isinstance(first, list) and isinstance(second, list) else second
