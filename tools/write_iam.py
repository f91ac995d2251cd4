"""Write docs/reference/iam.md: the IAM roles and policies of each construct, read from synthesized templates.

The templates are the ones from which the change table is tested: each public construct in a stack with an imported
cluster, with its defaults and then with each option changed.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constructs import Construct

from gpu_preflight.reading.inputs import Input
from tests.second_deployments.rows import CASES
from tests.second_deployments.world import Case
from tools.docs.markdown import table

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "iam.md"
# ruff: noqa: E501 - rows of a table are one line each
HEAD = """# IAM permissions

The IAM roles and policies that each construct creates, from its synthesized template. Use this page for a security review,
or to write a permissions boundary. No policy was tried in an AWS account ([evidence](../explanation/evidence.md)).

* `${Name}` is a value that exists only after deployment, for example `${Cluster.Arn}`.
* "Only with" names the option that adds a resource or a statement. The page has one value of each option. Grants that you
  write yourself, such as `bucket.grant_read(identity)`, come in addition.
* The CDK's own helpers (the kubectl provider of a new cluster) are part of `GpuCluster`.

`make iam` writes this page. A test compares it with the templates.
"""
_SHARED = re.compile(r"[\w-]+-shared")
_LOGICAL_ID = re.compile(r"\$\{(?:\w+/)?(?:It)?(\w+?)[0-9A-F]{8}((?:\.\w+)*)\}")
# A case creates constructs next to its subject, under the name of their class. Pools have other names.
_POOL = "ManagedNodeGroup"
_TYPES = ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::InstanceProfile")


@dataclass(frozen=True, order=True)
class Grant:
    """One line of a table: a statement, a trusted principal, or an attached policy.

    Attributes:
        kind: ``trusted``, ``attached``, ``allow`` or ``deny``.
        actions: Actions; principals or policies of the other kinds.
        resources: Resources.
        conditions: Conditions.
    """

    kind: str
    actions: tuple[str, ...]
    resources: tuple[str, ...] = ()
    conditions: str = ""

    @property
    def cells(self) -> list[str]:
        """Cells of the table."""
        words = {"trusted": "assumed by", "attached": "AWS managed policy"}
        parts = (_codes(self.actions), _codes(self.resources), f"`{self.conditions}`" if self.conditions else "")
        return [words.get(self.kind, self.kind), *parts]


Resources = dict[str, tuple[Grant, ...]]


@dataclass(frozen=True)
class Version:
    """The IAM resources of one version of a case.

    Attributes:
        resources: Statements by path.
        neighbors: Ids of constructs next to the subject.
    """

    resources: Resources
    neighbors: frozenset[str]

    @property
    def own(self) -> Resources:
        """Statements of the subject's own resources, by path in the subject."""
        return {path.partition("/")[2]: grants for path, grants in self.resources.items() if path.startswith("It/")}


def document() -> str:
    """Return the page."""
    cases = [case for case in CASES if inspect.isclass(case.subject) and issubclass(case.subject, Construct)]
    found = {case.name: _versions(case) for case in cases}
    shared = _shared(found)
    parts = [HEAD, "## Shared by the constructs of a cluster\n", "A stack has each of these once for a cluster.\n"]
    for path, (grants, names) in sorted(shared.items()):
        parts += [f"### {path}\n", f"Created by {', '.join(f'`{name}`' for name in sorted(names))}.\n", _table(grants)]
    without = []
    for name, versions in sorted(found.items()):
        sections = list(_sections(versions))
        if sections:
            parts += [f"## {name}\n", *sections]
        else:
            without.append(f"`{name}`")
    parts += ["## Constructs without IAM resources of their own\n", ", ".join(without) + "\n"]
    return "\n".join(parts)


def _versions(case: Case) -> dict[str, Version]:
    """Return the resources of the defaults, by an empty name, and of each changed option."""
    found = {"": _version(case.deployed(""))}
    for option in case.parameters:
        if option not in ("cluster", "scope", "id"):
            try:
                found[option] = _version(case.changed(option))
            except (ValueError, RuntimeError):
                # The library rejects this change.
                continue
    return found


def _version(read: Input) -> Version:
    found: Resources = {}
    paths = [(each, each.path.partition("/")[2]) for each in read.resources.values() if each.path]
    for each, path in paths:
        if each.type in _TYPES:
            found[path] = (*found.get(path, ()), *sorted(policy_grants(each.properties)))
    firsts = {path.partition("/")[0] for _, path in paths}
    return Version(found, frozenset(first for first in firsts if first != "It" and not _SHARED.match(first)))


def _sections(versions: Mapping[str, Version]) -> Iterator[str]:
    """Yield heading and table of each own resource of a construct."""
    defaults = versions[""].own
    for path, grants in sorted(defaults.items()):
        yield f"### {path}\n"
        yield _table(grants)
    for option, version in versions.items():
        for path, grants in sorted(version.own.items()):
            added = tuple(grant for grant in grants if grant not in defaults.get(path, ()))
            if added:
                yield f"### {path}, only with {option}\n"
                yield _table(added)


def _shared(found: Mapping[str, Mapping[str, Version]]) -> dict[str, tuple[tuple[Grant, ...], set[str]]]:
    """Return the shared resources, and the constructs that create each of them themselves."""
    made_by = {
        name: {path for version in versions.values() for path in version.resources if _SHARED.match(path)}
        for name, versions in found.items()
    }
    shared: dict[str, tuple[tuple[Grant, ...], set[str]]] = {}
    for name, versions in found.items():
        for version in versions.values():
            neighbors = {each if each in found else _POOL for each in version.neighbors}
            of_neighbors = {path for each in neighbors - {name} for path in made_by[each]}
            for path, grants in version.resources.items():
                if _SHARED.match(path) and path not in of_neighbors:
                    shared.setdefault(path.partition("/")[2], (grants, set()))[1].add(name)
    return shared


def policy_grants(properties: Mapping[str, Any]) -> Iterator[Grant]:
    """Yield the grants of a role's or policy's properties."""
    for statement in _statements(properties.get("AssumeRolePolicyDocument")):
        principal = statement.get("Principal", {})
        pairs = principal.values() if isinstance(principal, Mapping) else [principal]
        yield Grant(
            "trusted", tuple(sorted(text for each in pairs for text in _texts(each))), (), _conditions(statement)
        )
    attached = tuple(sorted(_texts(properties.get("ManagedPolicyArns", ()))))
    if attached:
        yield Grant("attached", attached)
    documents = [each.get("PolicyDocument") for each in properties.get("Policies", ()) if isinstance(each, Mapping)]
    for document in (properties.get("PolicyDocument"), *documents):
        for statement in _statements(document):
            yield Grant(
                str(statement.get("Effect", "")).lower(),
                tuple(sorted(_texts(statement.get("Action", statement.get("NotAction", ()))))),
                tuple(sorted(_texts(statement.get("Resource", statement.get("NotResource", ()))))),
                _conditions(statement),
            )


def _statements(document: Any) -> Iterable[Mapping[str, Any]]:
    found = document.get("Statement", ()) if isinstance(document, Mapping) else ()
    return [found] if isinstance(found, Mapping) else [each for each in found if isinstance(each, Mapping)]


def _texts(value: Any) -> list[str]:
    """Return the texts of a value or a list of values."""
    if isinstance(value, (list, tuple)):
        return [text for each in value for text in _texts(each)]
    return [_LOGICAL_ID.sub(r"${\1\2}", str(getattr(value, "expression", value)))]


def _conditions(statement: Mapping[str, Any]) -> str:
    found = statement.get("Condition")
    if not found:
        return ""
    written = json.dumps(found, sort_keys=True, default=lambda value: str(getattr(value, "expression", value)))
    return _LOGICAL_ID.sub(r"${\1\2}", written)


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def _table(grants: Iterable[Grant]) -> str:
    return table(("effect", "actions", "resources", "conditions"), (grant.cells for grant in grants))


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
