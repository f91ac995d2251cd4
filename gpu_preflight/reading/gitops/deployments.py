"""A folder or chart that Argo CD or Flux deploys, rendered with the substitutions and values that they apply.

If kubectl and helm are installed, they render it.

Sources: https://fluxcd.io/flux/components/kustomize/kustomizations/#post-build-variable-substitution,
fluxcd/pkg 0180cac2f kustomize/kustomize_varsub.go, https://helm.sh/docs/intro/using_helm/,
https://fluxcd.io/flux/components/helm/helmreleases/ (2026-11)
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from gpu_facts.kubernetes import CLUSTER_SCOPED
from gpu_facts.light import dataclass, regex
from gpu_facts.software.daemon_sets import daemon_sets_of_chart
from gpu_preflight.reading.documents import KUSTOMIZATIONS, UnusableInput, parse
from gpu_preflight.reading.notation import written
from gpu_preflight.reading.objects import ANYTHING, SOFTWARE, Chart, Object, Part, parse_objects
from gpu_preflight.reading.rendering.folders import helm_template, kustomize_build
from gpu_preflight.reading.rendering.programs import Rendering
from gpu_preflight.reading.unknown import Unknown, as_written, dig, known_text, mapping, mappings
from gpu_preflight.reading.user_data import parse_embedded

_DISABLED = "kustomize.toolkit.fluxcd.io/substitute"
# A name, and the default if it isn't set or is empty.
_VARIABLE = regex(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=])([^{}]*))?\}")
_INDEX = regex(r"(.+)\[(\d{1,3})\]")
_MAX_INDEX = 100
_DOT = regex(r"(?<!\\)\.")
# An exact version. For a range, only the controller knows which version it installs.
_VERSION = regex(r"v?\d+\.\d+\.\d+[^\s*<>=~^|,]*")


@dataclass(frozen=True, slots=True)
class Variables:
    """Values of variables.

    Attributes:
        values: Known values.
        hidden: Names whose value isn't known.
        open: Whether there may be other variables.
        unread: Sources of values that aren't read.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    open: bool = False
    unread: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether Flux substitutes at all. Without a variable it doesn't change any text."""
        return bool(self.values or self.hidden or self.open)

    def substitute(self, text: str) -> str:
        """Return a text with the values of its variables. An unknown variable stays."""
        return _VARIABLE.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        escaped, name, kind, default = found.groups()
        if escaped:
            return found.group()[1:]
        if name in self.hidden or (self.open and name not in self.values):
            return found.group()
        return self.values.get(name) or (default or "" if kind else "")


def variables(owner: Object, every: list[Object]) -> Variables:
    """Return the variables of a Kustomization: from ConfigMaps and Secrets, then from the Kustomization itself."""
    values: dict[str, str] = {}
    hidden: set[str] = set()
    unread: list[str] = []
    for reference in mappings(dig(owner.spec, "postBuild", "substituteFrom")):
        found = _source(reference, owner, every)
        if found is None:
            unread += [] if reference.get("optional") is True else [f"{reference.get('kind')} {reference.get('name')}"]
            continue
        known = mapping(found.content.get("data")) if found.kind == "ConfigMap" else {}
        texts = {key: text for key, each in known.items() if (text := known_text(each)) is not None}
        names = {*mapping(found.content.get("data")), *mapping(found.content.get("stringData"))}
        values |= {key: text.replace("\n", "") for key, text in texts.items()}
        hidden = (hidden - texts.keys()) | (names - texts.keys())
    stated = mapping(dig(owner.spec, "postBuild", "substitute"))
    values |= {key: str(value).replace("\n", "") for key, value in stated.items()}
    return Variables(values, frozenset(hidden - stated.keys()), bool(unread), tuple(unread))


def _source(reference: Mapping[str, Any], owner: Object, every: list[Object]) -> Object | None:
    for each in every:
        named = (each.kind, each.name) == (reference.get("kind"), str(reference.get("name")))
        if named and each.namespace == owner.namespace:
            return each
    return None


def is_left_alone(content: Mapping[str, Any]) -> bool:
    """Whether an object disables substitution."""
    metadata = mapping(content.get("metadata"))
    return any(mapping(metadata.get(each)).get(_DISABLED) == "disabled" for each in ("labels", "annotations"))


@dataclass(frozen=True, slots=True)
class Files:
    """Selects the files of a folder without kustomization and chart that are applied.

    Source: argoproj/argo-cd v3.2 docs/user-guide/directory.md, reposerver/repository/repository.go ``findManifests``:
    it uses patterns of github.com/gobwas/glob without separators, so that ``*`` also matches ``/`` (2026-11).

    Attributes:
        recursive: Whether files of subfolders are applied.
        include: Pattern of the applied files; empty for all.
        exclude: Pattern of the excluded files.
    """

    recursive: bool = True
    include: str = ""
    exclude: str = ""

    def reach(self, path: PurePosixPath) -> bool:
        """Whether a file, by its path from the folder, is considered."""
        return self.recursive or len(path.parts) <= 1

    def take(self, path: PurePosixPath) -> bool:
        """Whether a file, by its path from the folder, is applied."""
        if not self.reach(path) or (self.exclude and _matches(self.exclude, path)):
            return False
        return not self.include or not path.parts or _matches(self.include, path)


def _matches(pattern: str, path: PurePosixPath) -> bool:
    return any(fnmatchcase(str(path), each) for each in _without_braces(pattern))


def _without_braces(pattern: str) -> list[str]:
    """Return the patterns without braces that a pattern with ``{a,b}`` means."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [one for each in found[1].split(",") for one in _without_braces(f"{before}{each}{after}")]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A folder of a repository that an object deploys into a cluster.

    Attributes:
        owner: The object.
        path: Path of the folder in its repository.
        kustomization: Settings that are added to the kustomization of the folder.
        components: Folders of components, by their paths from the folder.
        variables: Variables that are substituted in the rendered objects.
        namespace: Namespace of objects that set none.
        values: Values if the folder is a chart; ``None`` if it is rendered with its default values.
        release: Name of the release of the chart.
        source: The repository, in the words of the object.
        unread: Parts of the object that aren't read, in its words.
        files: Which files of a plain folder it applies.
        needs_kustomization: Whether the changes require a kustomization in the folder.
    """

    owner: Object
    path: str
    kustomization: Mapping[str, Any] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    variables: Variables = field(default_factory=Variables)
    namespace: str | None = None
    values: Mapping[str, Any] | None = None
    release: str = ""
    source: str = ""
    unread: tuple[str, ...] = ()
    files: Files = Files()
    needs_kustomization: bool = False

    @property
    def changes(self) -> tuple[str, ...]:
        """The changes that it makes, in the words of the object."""
        named = [*self.kustomization, *(["components"] if self.components else [])]
        named += ["postBuild"] if self.variables else []
        named += ["helm values"] if self.values is not None else []
        return (*named, *self.unread)


@dataclass(frozen=True, slots=True)
class Beside:
    """Finds files and folders next to the objects of an input.

    Attributes:
        roots: The folders of the input. Nothing outside of them is read.
    """

    roots: tuple[Path, ...] = ()

    def folder(self, path: str, owner: Object) -> Path | None:
        """Return the folder of a path; ``None`` if it doesn't exist or if only the repository shows where it is."""
        return self._place(path, owner, Path.is_dir)

    def file(self, path: str, owner: Object) -> Path | None:
        """Return the file of a path; ``None`` if it doesn't exist."""
        return self._place(path, owner, Path.is_file)

    def holds(self, place: Path) -> bool:
        """Whether a folder is in the input."""
        return place.is_dir() and any(root.resolve() in (place, *place.parents) for root in self.roots)

    def display_path(self, folder: Path) -> str:
        """Return the path of a folder, relative to the input folder as the user wrote it."""
        root = next((root for root in self.roots if root.resolve() in (folder, *folder.parents)), None)
        return str(root / folder.relative_to(root.resolve()) if root else folder)

    def _place(self, path: str, owner: Object, is_there: Callable[[Path], bool]) -> Path | None:
        parts = [each for each in PurePosixPath(normpath(path)).parts if each not in ("/", "//", ".")]
        if not parts or ".." in parts:
            return None
        try:
            return next((place for each in self._tops(owner) if is_there(place := self._inside(each, parts))), None)
        except (OSError, ValueError, RuntimeError):
            # The name isn't a valid path, or a link refers to itself.
            return None

    def _inside(self, top: Path, parts: list[str]) -> Path:
        """Return a path below the top of a repository, or an invalid path if it leads out of the input."""
        place = top.joinpath(*parts).resolve()
        inside = any(root.resolve() in (place, *place.parents) for root in self.roots)
        return place if inside else Path("/", "\0")

    def _tops(self, owner: Object) -> Iterator[Path]:
        """Yield possible tops of the repository: folders above the object, outermost first, or the input's root."""
        around = Path(owner.origin.file).resolve()
        if any(root.resolve() in around.parents for root in self.roots):
            yield from reversed(around.parents)
        yield from (root.resolve() for root in self.roots)


def read_values(owner: Object, text: Any) -> dict[str, Any]:
    """Return values from a YAML text."""
    return mapping(parse_embedded(owner.origin.file, text if isinstance(text, (str, Unknown)) else None))


def with_parameter(values: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return values with one more value at a path such as ``a.b[0].c``. In a key, a dot has a backslash."""
    keys = [each.replace("\\.", ".") for each in _DOT.split(path)]
    return _set_nested_value(values, keys, value)


def _set_nested_value(values: Mapping[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    head, rest = keys[0], keys[1:]
    if found := _INDEX.fullmatch(head):
        return {**values, found[1]: _item(values.get(found[1]), int(found[2]), rest, value)}
    return {**values, head: _set_nested_value(mapping(values.get(head)), rest, value) if rest else value}


def _item(listed: Any, index: int, rest: list[str], value: Any) -> list[Any]:
    found, place = list(listed) if isinstance(listed, list) else [], min(index, _MAX_INDEX)
    found += [{} for _ in range(place + 1 - len(found))]
    found[place] = _set_nested_value(mapping(found[place]), rest, value) if rest else value
    return found


def typed(value: Any) -> Any:
    """Return a value with the type that ``helm --set`` gives it."""
    if not isinstance(value, str):
        return value
    known = {"true": True, "false": False, "null": None}
    return int(value) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value) else known.get(value, value)


def parts_of_chart(name: Any) -> frozenset[Part]:
    """Return the kinds of things that an unread chart may install. Known software installs no pool."""
    known = daemon_sets_of_chart(str(name).rstrip("/").rsplit("/", 1)[-1], None, {}) is not None
    return SOFTWARE if known else ANYTHING


def build_chart(
    owner: Object, name: Any, version: Any, values: Mapping[str, Any], namespace: str, release: str
) -> Chart:
    """Return the release of a chart that an object describes."""
    text = known_text(version) or ""
    return Chart(
        name=str(name).rstrip("/").rsplit("/", 1)[-1],
        version=text if _VERSION.fullmatch(text) else None,
        values=values,
        origin=owner.origin,
        properties={"Release": release},
        namespace=namespace,
        cluster=owner.cluster,
    )


class NotRendered(Exception):
    """A folder that can't be rendered, with the reason."""


def has_kustomization(folder: Path) -> bool:
    """Whether a folder has a kustomization file."""
    return any((folder / each).is_file() for each in KUSTOMIZATIONS)


def is_chart(folder: Path) -> bool:
    """Whether a folder is a chart."""
    return (folder / "Chart.yaml").is_file()


def rendered(each: Deployment, folder: Path, plain: list[Object], beside: Beside, made: Rendering) -> list[Object]:
    """Return the objects that a deployment renders from a folder.

    Args:
        each: The deployment.
        folder: The folder.
        plain: The objects that were read from it.
        beside: Files and folders of the input.
        made: Time limit and results of rendering.

    Raises:
        NotRendered: A program is missing or fails, or a part is elsewhere.
    """
    if each.unread:
        raise NotRendered("")
    found = plain
    if is_chart(folder):
        found = found if each.values is None else _render_chart(each, folder, beside, made)
    elif each.values is not None:
        raise NotRendered("there is no chart")
    elif each.kustomization or each.components or (has_kustomization(folder) and not plain):
        found = _render_kustomization(each, folder, plain, beside, made)
    if each.variables:
        found = [one for before in found for one in _substituted(each, before)]
    return [_placed(one, each.namespace) for one in found] if each.namespace else found


def _render_chart(each: Deployment, folder: Path, beside: Beside, made: Rendering) -> list[Object]:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "values.json")
        file.write_text(_json(as_written(each.values)), encoding="utf-8")
        text, why = helm_template(folder, each.release, made, values=file, namespace=each.namespace)
    if text is None:
        raise NotRendered(why)
    made.texts[f"{folder} of {each.owner.origin.path}"] = text
    return _parsed(each, text, beside.display_path(folder), [])


def _render_kustomization(
    each: Deployment, folder: Path, plain: list[Object], beside: Beside, made: Rendering
) -> list[Object]:
    own = has_kustomization(folder)
    if each.needs_kustomization and not own:
        raise NotRendered("the folder has no kustomization")
    components = [(folder / one).resolve() for one in each.components]
    if not all(map(beside.holds, components)):
        raise NotRendered("a component isn't in the input")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        base = os.path.relpath(folder, place) if own else "objects.json"
        if not own:
            contents = [as_written(dict(one.content)) for one in plain]
            (place / base).write_text(_json({"apiVersion": "v1", "kind": "List", "items": contents}), encoding="utf-8")
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            **as_written(dict(each.kustomization)),
            "resources": [base],
            "components": [os.path.relpath(one, place) for one in components],
        }
        (place / KUSTOMIZATIONS[0]).write_text(_json(overlay), encoding="utf-8")
        text, why = kustomize_build(place, made)
    if text is None:
        raise NotRendered(why)
    made.texts[f"{folder} of {each.owner.origin.path}"] = text
    return _parsed(each, text, beside.display_path(folder), plain)


def _json(content: Any) -> str:
    """Return JSON that is also YAML. YAML readers reject half of a surrogate pair."""
    return json.dumps(content, ensure_ascii=False)


def _parsed(each: Deployment, text: str, file: str, before: Iterable[Object]) -> list[Object]:
    """Return the objects of a text, each with the place where it was before."""
    places = {(one.kind, one.name): one.origin for one in before}
    try:
        documents = list(parse(file, text))
    except UnusableInput as error:
        raise NotRendered(str(error)) from None
    found: list[Object] = []
    for one in documents:
        stood = places.get((str(dig(one.content, "kind")), str(dig(one.content, "metadata", "name"))))
        found += parse_objects(
            one.content,
            stood.file if stood else file,
            cluster=each.owner.cluster,
            templated=one.templated,
            template=one.template or (stood.template if stood else None),
        )
    return found


def _substituted(each: Deployment, before: Object) -> list[Object]:
    if is_left_alone(before.content):
        return [before]
    text = written(as_written(dict(before.content)))
    changed = each.variables.substitute(text)
    return [before] if changed == text else _parsed(each, changed, before.origin.file, [before])


def _placed(each: Object, namespace: str | None) -> Object:
    """Return an object in a namespace, unless it has one or is cluster-wide."""
    metadata = mapping(each.content.get("metadata"))
    if each.kind in CLUSTER_SCOPED or metadata.get("namespace"):
        return each
    content = {**each.content, "metadata": {**metadata, "namespace": namespace}}
    origin = each.origin
    found = parse_objects(content, origin.file, origin.resource, each.cluster, template=origin.template)
    return next(found, each)
