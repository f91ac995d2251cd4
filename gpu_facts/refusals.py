"""Validation errors for bad input: who, argument, rule, value, suggestion."""

from __future__ import annotations

import difflib
import re
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpu_facts.light import regex

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

# registry/name:tag, registry/name@sha256:digest, or both.
# Source: https://github.com/distribution/reference (v0.6.0 regexp.go)
_HOST = r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:\d+)?"
_WORD = r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*"
_DIGEST = r"@sha256:[0-9a-f]{64}"
_PINNED_IMAGE = regex(rf"({_HOST}/)?{_WORD}(/{_WORD})*(:\w[\w.-]{{0,127}}({_DIGEST})?|{_DIGEST})", re.ASCII)
# Source: aws-cdk-lib 2.275.0 core/lib/private/encoding.ts, token-map.ts (a name, and a number that counts up).
_TOKEN = regex(r"\$\{Token\[[a-zA-Z0-9:._-]*\.\d+\]\}")
_PLAIN = regex(r"[!#-\[\]-z|~]*")
# us-east-1a, or in a Local Zone us-west-2-lax-1a.
_ZONE = regex(r"[a-z]{2}(-[a-z]+)+-\d(-[a-z]+-\d)?[a-z]", re.ASCII)


# The largest count that Kubernetes and CloudFormation accept.
INT32 = 2**31 - 1
_MAX_SHOWN = 100


def did_you_mean(value: str, known: Iterable[str], *, closeness: float = 0.6) -> str:
    """Return ``; did you mean 'x'?`` for the known word nearest to ``value``, or an empty string.

    Case doesn't matter. Another number isn't a typo but another version, size or id.
    """
    nearest = near(value, known, closeness=closeness)
    return f"; did you mean {nearest!r}?" if nearest is not None else ""


def near(value: str, known: Iterable[str], *, closeness: float = 0.6) -> str | None:
    """Return the known word that ``value`` most likely means, if any."""
    plain = {word.lower(): word for word in known}
    matches = difflib.get_close_matches(value.lower(), plain, n=5, cutoff=closeness)
    return next((plain[each] for each in matches if not _is_another_number(value.lower(), each)), None)


def _is_another_number(value: str, known: str) -> bool:
    """Whether two texts differ in their digits. Two swapped digits are a typo, not another number."""
    pairs = list(zip(re.findall(r"\d+", value), re.findall(r"\d+", known), strict=False))
    return any(len(said) == len(meant) and sorted(said) != sorted(meant) for said, meant in pairs)


def refuse_unless_choice(who: object, argument: str, value: object, known: Iterable[str]) -> None:
    """Reject a value that isn't one of the known words.

    Raises:
        ValueError: ``value`` isn't in ``known``.
    """
    words = tuple(known)
    if value in words:
        return
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    raise ValueError(f"{who}: {argument} must be one of {', '.join(words)}, got {value!r}{hint}")


def refuse_unless_instance(
    who: object, argument: str, value: object, kinds: type | tuple[type, ...], written: str, *, fix: str = ""
) -> None:
    """Reject a value that isn't an instance of one of the classes, for example the class itself.

    Args:
        who: Name of the construct in messages.
        argument: Name of the argument.
        value: The value.
        kinds: Classes that are accepted.
        written: Example of each in code, such as ``UpTo(gpus=8) or Static(nodes=2)``.
        fix: Suggested code. Default: if ``value`` is a class, the part of ``written`` that creates an instance of it.

    Raises:
        TypeError: ``value`` isn't an instance of any of them.
    """
    if not isinstance(value, kinds):
        raise TypeError(
            f"{who}: {argument} must be {written}, got {format_value(value)}{fix or suggest_call(value, written)}"
        )


def format_value(value: object) -> str:
    """Return the value as messages show it.

    Messages show only the name of a class, of an object without a ``__repr__``, and of a dataclass with a long text.
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, (list, tuple)) and any(isinstance(each, type) for each in value):
        return f"[{', '.join(map(format_value, value))}]"
    if hasattr(value, "__dataclass_fields__") and len(repr(value)) > _MAX_SHOWN:
        return f"{type(value).__name__}(...)"
    return repr(value) if type(value).__repr__ is not object.__repr__ else f"<{type(value).__name__}>"


def suggest_call(value: object, written: str) -> str:
    """Return ``; write Spot()`` if a class is passed instead of its instance, or an empty string."""
    call = re.search(rf"\b{value.__name__}\([^)]*\)", written) if isinstance(value, type) else None
    return f"; write {call[0]}" if call else ""


def refuse_unless_whole_number(
    who: object, argument: str, value: object, *, least: int, most: int = INT32, fix: str = ""
) -> None:
    """Reject a value that isn't an integer of at least ``least`` and at most ``most``.

    Raises:
        TypeError: ``value`` isn't an ``int``.
        ValueError: ``value`` is below ``least`` or above ``most``, or known only at deployment.
    """
    if is_number_token(value):
        raise ValueError(f"{who}: {argument} must be known at synth, got a token; write a number")
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{who}: {argument} must be a whole number, got {value!r}")
    if value < least:
        advice = f"; {fix}" if fix else ""
        raise ValueError(f"{who}: {argument} must be at least {least}, got {value}{advice}")
    if value > most:
        raise ValueError(f"{who}: {argument} must be at most {most}, got {value}; lower it")


def refuse_unless_bool(who: object, argument: str, value: object) -> None:
    """Reject a value that isn't a boolean, because any string would count as true.

    Raises:
        TypeError: ``value`` isn't a ``bool``.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{who}: {argument} must be True or False, got {value!r}")


def is_token(text: str) -> bool:
    """Whether a string has a CDK token, and outside it no space, double quote, backslash or brace."""
    return has_token(text) and _PLAIN.fullmatch(_TOKEN.sub("", text)) is not None


def has_token(text: str) -> bool:
    """Whether any part of a string is a CDK token. `cdk.Token.is_unresolved` would call another process."""
    return _TOKEN.search(text) is not None


def is_number_token(number: object) -> bool:
    """Whether a number is a CDK token: a double that begins with the bits 0xFBFF.

    Source: aws-cdk-lib 2.275.0 core/lib/private/encoding.ts (DOUBLE_TOKEN_MARKER_BITS)
    """
    return isinstance(number, float) and struct.pack(">d", number).startswith(b"\xfb\xff")


def refuse_unless_image(who: object, argument: str, image: object) -> None:
    """Reject a container image without tag or digest, because the image would change without the template.

    Raises:
        TypeError: ``image`` isn't a string.
        ValueError: It has neither tag nor digest, or the tag ``latest``.
    """
    if not isinstance(image, str):
        uri = "its image_uri" if hasattr(image, "image_uri") else "one such as 'registry.example.com/app:1'"
        raise TypeError(f"{who}: {argument} must be a string, got {image!r}; write {uri}")
    if is_token(image):
        return
    if not _PINNED_IMAGE.fullmatch(image) or image.endswith(":latest"):
        raise ValueError(f"{who}: {argument} must {_rule_of_images(image)}, got {image!r}")


def _rule_of_images(image: str) -> str:
    """Return the most important rule that a wrong image breaks."""
    name = re.split(r"@|:(?!.*/)", image, maxsplit=1)[0]
    if re.search(r"\s", image):
        return "have no space"
    if "://" in image:
        return "begin with its registry or name, and have no '://'"
    if name == image or image.endswith(":latest"):
        return "end in a tag other than 'latest' or a digest"
    if _PINNED_IMAGE.fullmatch(image.replace(name, name.lower(), 1)):
        return "have a name in lower case"
    return "be written as 'registry/name:tag' or 'registry/name@sha256:' with 64 hex digits"


def refuse_unless_zone(who: object, argument: str, zone: object) -> None:
    """Reject a value that isn't the name of an Availability Zone or Local Zone.

    Raises:
        ValueError: ``zone`` isn't a zone name.
    """
    if not isinstance(zone, str) or not (is_token(zone) or _ZONE.fullmatch(zone)):
        raise ValueError(f"{who}: {argument} must be a zone name such as 'us-east-1a', got {zone!r}")


def address_block(who: object, argument: str, block: str, *, example: str) -> IPv4Network | IPv6Network:
    """Return a block of addresses in the form ``203.0.113.0/24``.

    Raises:
        ValueError: ``block`` isn't a block, has no length, or has another address than its first.
    """
    from ipaddress import ip_address, ip_network

    rule = f"{who}: {argument} must be an address block such as {example!r}, got {block!r}"
    try:
        network = ip_network(block, strict=False)
    except ValueError:
        raise ValueError(rule) from None
    if "/" not in block or str(network.network_address) != str(ip_address(block.partition("/")[0])):
        raise ValueError(f"{rule}; did you mean '{network}'?")
    return network


def words(who: object, argument: str, value: object) -> tuple[str, ...]:
    """Return a list or tuple of strings as a tuple.

    Raises:
        TypeError: ``value`` is one string, or contains other types.
    """
    if isinstance(value, str):
        raise TypeError(f"{who}: {argument} must be a list of names, got {value!r}; write [{value!r}]")
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{who}: {argument} must be a list of names, got {value!r}")
    refuse_unless_strings(who, argument, value)
    return tuple(value)


def refuse_unless_strings(who: object, argument: str, items: Sequence[object], *, as_text: bool = False) -> None:
    """Reject a list that contains other types than strings, and name the item.

    Args:
        who: Name of the construct in messages.
        argument: Name of the argument.
        items: The list.
        as_text: Whether to suggest the digits of a number as a string.

    Raises:
        TypeError: An item isn't a string.
    """
    for at, each in enumerate(items):
        if isinstance(each, str):
            continue
        number = as_text and isinstance(each, (int, float)) and not isinstance(each, bool)
        fix = "" if not number else "; write cdk.Token.as_string(...)" if is_number_token(each) else f"; write '{each}'"
        got = "a token" if is_number_token(each) else repr(each)
        raise TypeError(f"{who}: {argument}[{at}] must be a string, got {got}{fix}")


def suggest_attribute(value: object, kind: str, attribute: str) -> str:
    """Return ``write volume.name`` if a construct was passed instead of its attribute, or an empty string."""
    if all(each.__name__ != kind for each in type(value).__mro__):
        return ""
    return f"write {re.findall('[A-Z][a-z]+', kind)[-1].lower()}.{attribute}"


def refuse_unless_key(who: object, argument: str, key: object) -> None:
    """Reject a value that is neither a KMS key nor `None`.

    Raises:
        TypeError: ``key`` has another type, for example an ARN.
    """
    if key is not None and not hasattr(key, "key_arn"):
        raise TypeError(f"{who}: {argument} must be a kms.IKey, got {key!r}; import one with Key.from_key_arn")


def refuse_unless_role(who: object, argument: str, role: object) -> None:
    """Reject a value that is neither an IAM role nor `None`.

    Raises:
        TypeError: ``role`` has another type, for example an ARN.
    """
    if role is not None and not hasattr(role, "role_arn"):
        raise TypeError(f"{who}: {argument} must be an iam.IRole, got {role!r}; import one with iam.Role.from_role_arn")
