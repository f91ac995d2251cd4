"""Names of images, as anybody's objects write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_preflight.reading.unknown import Unknown, is_expression

# Source: https://github.com/distribution/reference/blob/main/regexp.go (2026-11)
_NAME = regex(
    r"(?:(?P<registry>localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?|[A-Za-z0-9-]+:\d+)/)?"
    r"(?P<path>[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+:[a-f0-9]{32,}))?",
    re.ASCII,
)
_HUB = "docker.io"
_ECR = regex(r"\d{12}\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)")
# Arguments and variables that hand an image to who starts pods.
_ARGUMENT = regex(r"--?(?!\S*default)[\w-]*(?:image|config-reloader)[\w-]*=(?P<image>\S+/\S+:\S+)", re.IGNORECASE)
_VARIABLE = regex(r"\w*IMAGE\w*")


@dataclass(frozen=True, order=True, slots=True)
class ImageName:
    """The name of an image.

    Attributes:
        registry: Host of its registry, with a port where it has one.
        path: Its path there.
        tag: Its tag, empty where it has none.
        digest: Its digest, empty where it has none.
    """

    registry: str
    path: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.registry}/{self.path}{self.suffix}"

    @property
    def suffix(self) -> str:
        """Tag and digest, as they stand behind its path; ``latest`` where it has neither."""
        tag = self.tag or ("" if self.digest else "latest")
        return f"{f':{tag}' if tag else ''}{f'@{self.digest}' if self.digest else ''}"


def parsed(image: str | Unknown) -> ImageName | None:
    """Return the name of an image, in full; ``None`` where a part of it is known at deployment only."""
    found = _NAME.fullmatch(str(image))
    if found is None:
        return None
    registry, path = found["registry"] or _HUB, found["path"]
    if registry == _HUB and "/" not in path:
        path = f"library/{path}"
    return ImageName(registry, path, found["tag"] or "", found["digest"] or "")


def images_in(content: Any) -> Iterator[str | Unknown]:
    """Yield the images that an object names: of containers and volumes, and of fields, arguments and variables."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            # A part of an operator's settings that is off pulls nothing.
            if value.get("enabled") is not False:
                left += value.values()
                yield from _named(value)
        elif isinstance(value, (list, tuple)):
            left += value
            words = (each for each in value if isinstance(each, str))
            yield from (found["image"] for each in words if (found := _ARGUMENT.fullmatch(each)))


def _named(value: Mapping[str, Any]) -> Iterator[str | Unknown]:
    image = value.get("image")
    if isinstance(image, Mapping):
        image = image.get("reference") if "reference" in image else _joined(image)
    elif isinstance(image, str) and isinstance(value.get("repository"), str) and "/" not in image:
        image = _joined({**value, "name": image, "tag": value.get("version", value.get("tag"))})
    if isinstance(image, Unknown) or (isinstance(image, str) and (parsed(image) or is_expression(image))):
        yield image
    name, said = value.get("name"), value.get("value")
    if isinstance(name, str) and isinstance(said, str) and _VARIABLE.fullmatch(name) and "/" in said and parsed(said):
        yield said


def _joined(parts: Mapping[str, Any]) -> str | None:
    """Return the image of a mapping of its parts, ``None`` where one is missing."""
    last, tag = parts.get("name"), parts.get("tag")
    named = [parts.get("registry"), parts.get("repository"), last]
    texts = [each for each in named if isinstance(each, str) and each]
    if not isinstance(parts.get("repository"), str) or not isinstance(tag, (str, int, float)) or not tag:
        return None
    return f"{'/'.join(texts)}{'@' if str(tag).startswith('sha256:') else ':'}{tag}"


def ecr_region(registry: str) -> str | None:
    """Return the region of a private registry in ECR, ``None`` for any other."""
    found = _ECR.fullmatch(registry)
    return found["region"] if found else None
