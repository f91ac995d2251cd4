"""Reads the given paths: resources of templates, Kubernetes objects and Helm releases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.cloudformation import Export, Resource, Template
from gpu_preflight.reading.construct_paths import ConstructPaths
from gpu_preflight.reading.documents import (
    KUSTOMIZATIONS,
    MAX_DEPTH,
    MAX_TOTAL_NODES,
    NOT_RENDERED,
    STDIN,
    Document,
    UnusableInput,
    is_folder,
    read,
)
from gpu_preflight.reading.eksctl.recognition import configs, is_written_by_eksctl
from gpu_preflight.reading.folder_files import (
    NO_TERRAFORM,
    TERRAFORM_FILES,
    Skipped,
    is_terraform_content,
    terraform_error,
    walk,
)
from gpu_preflight.reading.objects import (
    BrokenReference,
    Chart,
    Object,
    Origin,
    Repeated,
    Unread,
    parse_objects,
)
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping, mappings
from gpu_preflight.reading.unread import Dangling, dangling, unread
from gpu_preflight.reading.user_data import parse_embedded, with_read_policies
from gpu_preflight.reading.versions import Work, is_template, separate_versions

if TYPE_CHECKING:
    from gpu_preflight.reading.positions import Comment

# The modules aws_eks and aws_eks_v2 of CDK use the same types.
_MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
_CHART = "Custom::AWSCDK-EKS-HelmChart"
_MANIFEST_FILE = "manifest.json"
# API groups of the objects with which Argo CD and Flux install other objects.
_ARGO, _FLUX = "argoproj.io", ".toolkit.fluxcd.io"
# The key that identifies an acknowledgement file.
ACKNOWLEDGEMENTS = "acknowledgements"
_MISSPELT = ("acknowledgements", "acknowledgments", "acknowledgement", "acknowledge")
# Limits the time of a check, which may read each template many times.
MAX_TEMPLATES = 1_000
# Key in the metadata of a construct, and the prefix that CDK gives to the ids of our rules there.
_ACKNOWLEDGED = "aws:cdk:acknowledged-rules"
_OURS = "gpu-constructs::"
_LOGICAL_ID = "aws:cdk:logicalId"
_HASH = regex(r"/([0-9a-f]{64})\.json")


@dataclass(frozen=True, slots=True)
class Input:
    """The content of the paths, before it is assigned to clusters.

    Attributes:
        resources: Resources of all templates, by key.
        objects: Kubernetes objects, in manifests of templates and in files.
        charts: Helm releases.
        acknowledgements: Parsed acknowledgement files, with their paths.
        accepted: Acknowledgements of constructs in an assembly: by construct path, the reasons by rule id.
        problems: Parts that can't be read, each with its possible content.
        repeated: Documents in which a key occurs twice.
        dangling: References to names that a template doesn't have.
        broken: References of kustomizations, Applications and releases to targets that don't exist.
        parameters: Names of the parameters of its templates.
        assumed: Components that the user assumes to run in the cluster.
        alternatives: Alternatives by name, each with its unknown parts; see `versions`.
        templates: Its templates, in the order in which they were read.
        comments: Comments for the checker in YAML files.
        skipped: Parts of folders that aren't read.
    """

    resources: Mapping[str, Resource]
    objects: tuple[Object, ...]
    charts: tuple[Chart, ...]
    acknowledgements: tuple[Document, ...] = ()
    accepted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    problems: tuple[Unread, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    dangling: tuple[Dangling, ...] = ()
    broken: tuple[BrokenReference, ...] = ()
    parameters: frozenset[str] = frozenset()
    alternatives: Mapping[str, tuple[Unread, ...]] = field(default_factory=dict)
    assumed: frozenset[str] = frozenset()
    templates: tuple[Template, ...] = ()
    comments: tuple[Comment, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def exports(self) -> Iterator[Export]:
        """Yield the exports of its stacks. Only stacks in the same account and Region can import them."""
        for template in self.templates:
            place = template.account, template.region
            alike = [each for each in self.templates if (each.account, each.region) == place]
            for name, value in template.exported().items():
                importers = tuple(each.name for each in alike if name in each.imports)
                yield Export(name, template.name, value, Origin(template.file, template.name), importers)


@dataclass(slots=True)
class _Found:
    templates: list[Template] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)
    acknowledgements: list[Document] = field(default_factory=list)
    accepted: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: list[Unread] = field(default_factory=list)
    repeated: list[Repeated] = field(default_factory=list)
    broken: list[BrokenReference] = field(default_factory=list)
    roots: list[Path] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    left_out: list[Skipped] = field(default_factory=list)
    size: int = 0
    stack: str | None = None

    def read(self, path: str, *, skip: Collection[Path] = (), skipped: list[Skipped] | None = None) -> list[Document]:
        """Read a file or a folder, and add the number of its values to the total.

        Raises:
            UnusableInput: It cannot be read, or all inputs together have too many values.
        """
        return self.counted(path, read(path, skip=skip, skipped=skipped))

    def counted(self, path: str, documents: list[Document]) -> list[Document]:
        """Add the values, comments and repeated keys of documents to the totals.

        Raises:
            UnusableInput: All inputs together have too many values.
        """
        self.size += sum(each.size for each in documents)
        for each in documents:
            if each.commented:
                from gpu_preflight.reading.positions import comments

                self.comments += comments(each.file, each.commented)
        self.repeated += [
            Repeated(Origin(each.file, f"line {key.again} of {Path(each.file).name}"), key)
            for each in documents
            for key in each.repeated
        ]
        if self.size > MAX_TOTAL_NODES:
            raise UnusableInput(f"{path}: all inputs together must have at most {MAX_TOTAL_NODES:,} values, got more")
        return documents


@dataclass(frozen=True, slots=True)
class Stack:
    """A synthesized stack.

    Attributes:
        file: Path of its template.
        name: Its name.
        account: Its AWS account; ``None`` if it isn't known.
        region: Its AWS Region; ``None`` if it isn't known.
        paths: Construct paths of its resources and of the resources in its nested stacks, as far as they are known.
    """

    file: str
    name: str
    account: str | None
    region: str | None
    paths: ConstructPaths = field(default_factory=ConstructPaths)


def read_stacks(stacks: Iterable[Stack]) -> Input:
    """Read the templates of an app that is being synthesized.

    Raises:
        UnusableInput: A template cannot be read.
    """
    found = _Found()
    for stack in stacks:
        _read_template(stack, found)
    return _resolved(found, {})


def read_input(
    paths: Iterable[str],
    *,
    parameters: Mapping[str, str] | None = None,
    stack: str | None = None,
    assumed: frozenset[str] = frozenset(),
    running: Input | None = None,
) -> Input:
    """Read assemblies, templates, manifests and folders of them.

    Args:
        paths: Files, folders, or ``-`` for standard input.
        parameters: Values of template parameters. They override the defaults.
        stack: Name of the stack whose template a file is. Default: the name of the file.
        assumed: Components that run in the cluster although they aren't in the paths.
        running: A running cluster. Objects of the paths replace its objects.

    Raises:
        UnusableInput: A path cannot be read, or contains nothing to check.
    """
    found = _Found(stack=stack)
    if running is not None:
        found.objects += running.objects
        found.skipped += running.problems
    for path in paths:
        before = len(found.templates), len(found.objects), len(found.acknowledgements)
        _read_path(path, found)
        nothing = before == (len(found.templates), len(found.objects), len(found.acknowledgements))
        if nothing and not found.broken:
            why = f"; {found.skipped[-1].reason}" if found.skipped else ""
            if any(each.what == TERRAFORM_FILES for each in found.left_out):
                why += f"; {NO_TERRAFORM}"
            raise UnusableInput(
                f"{path}: must hold a CDK assembly, a CloudFormation template or Kubernetes objects, got none{why}"
            )
    read = _resolved(found, parameters or {})
    if running is not None:
        assumed, read = assumed | running.assumed, replace(read, resources={**running.resources, **read.resources})
    return replace(read, assumed=assumed)


def _resolved(found: _Found, parameters: Mapping[str, str]) -> Input:
    try:
        return _input(found, parameters)
    except RecursionError:
        raise UnusableInput(
            f"{', '.join(each.file for each in found.templates)}: values must refer to each other at most "
            f"{MAX_DEPTH} deep, got more"
        ) from None


def _read_path(path: str, found: _Found) -> None:
    if not path:
        raise UnusableInput("path must name a file or folder, got ''")
    folder = path != STDIN and is_folder(Path(path))
    if folder and (manifest := assembly_manifest(Path(path))) is not None:
        _read_assembly(Path(path), manifest, found)
        return
    if Path(path).name in KUSTOMIZATIONS and Path(path).is_file():
        folder, path = True, str(Path(path).parent)
    for document in _read_folder(path, found) if folder else found.read(path):
        _sort(document, found, named=not folder)


def _read_folder(path: str, found: _Found) -> list[Document]:
    """Read the files of a folder, and the rendered objects of its charts and kustomizations."""
    # A single file doesn't need these modules, and the command starts faster without them.
    from gpu_preflight.reading.rendering.folders import render
    from gpu_preflight.reading.rendering.programs import rendered_documents

    covered = _read_assemblies(Path(path), found)
    made = render(Path(path))
    found.roots.append(Path(path))
    plain = found.read(path, skip=made.covered | covered, skipped=found.left_out)
    found.left_out += _unused(plain)
    documents = [*plain, *found.counted(path, list(rendered_documents(made)))]
    found.skipped += made.problems
    found.broken += made.broken
    return documents


def _read_assemblies(folder: Path, found: _Found) -> set[Path]:
    """Read the assemblies in a folder, such as cdk.out in a repository, and return their files."""
    covered: set[Path] = set()
    for file in sorted(each for each in walk(folder) if each.name == _MANIFEST_FILE):
        if file not in covered and (manifest := assembly_manifest(file.parent)) is not None:
            _read_assembly(file.parent, manifest, found)
            covered |= set(walk(file.parent))
    return covered


def _unused(documents: Iterable[Document]) -> Iterator[Skipped]:
    """Yield the files that contain no template, no objects and no acknowledgements."""
    used: dict[str, bool] = {}
    terraform: dict[str, bool] = {}
    for each in documents:
        used[each.file] = used.get(each.file, False) or _is_input(each)
        terraform[each.file] = terraform.get(each.file, False) or is_terraform_content(each.content)
    for what, is_of_terraform in ((TERRAFORM_FILES, True), ("files without a template or objects", False)):
        names = tuple(file for file, is_used in used.items() if not is_used and terraform[file] is is_of_terraform)
        if names:
            yield Skipped(what, names)


def _is_input(document: Document) -> bool:
    content = document.content
    if content == NOT_RENDERED or is_template(content):
        return True
    # An acknowledgement file or a baseline.
    accepting = isinstance(content, dict) and (ACKNOWLEDGEMENTS in content or {"version", "entries"} <= content.keys())
    return accepting or any(parse_objects(content, document.file))


def assembly_manifest(folder: Path) -> Mapping[str, Any] | None:
    """Return the manifest of a cloud assembly; ``None`` for other folders.

    Raises:
        UnusableInput: The manifest of an assembly cannot be read.
    """
    file = folder / _MANIFEST_FILE
    if not file.is_file():
        return None
    try:
        manifest = next((mapping(each.content) for each in read(str(file))), {})
    except UnusableInput:
        # Other tools also write files with this name.
        if (folder / "cdk.out").exists():
            raise
        return None
    return manifest if "artifacts" in manifest else None


def _read_assembly(folder: Path, manifest: Mapping[str, Any], found: _Found) -> None:
    for name, artifact in sorted(mapping(manifest.get("artifacts")).items()):
        properties = mapping(mapping(artifact).get("properties"))
        if mapping(artifact).get("type") == "aws:cloudformation:stack":
            file = _inside(folder, properties.get("templateFile"))
            paths = _read_metadata(folder, mapping(artifact), found)
            account, region = _environment(mapping(artifact).get("environment"))
            _read_template(Stack(str(file), str(properties.get("stackName") or name), account, region, paths), found)
        elif mapping(artifact).get("type") == "cdk:cloud-assembly":
            inner = _inside(folder, properties.get("directoryName"))
            if (nested := assembly_manifest(inner)) is not None:
                _read_assembly(inner, nested, found)


def _read_metadata(folder: Path, artifact: Mapping[str, Any], found: _Found) -> ConstructPaths:
    """Read the acknowledgements of constructs, and return the construct paths of resources."""
    paths = ConstructPaths()
    for path, entry in read_metadata(folder, artifact, found.read):
        if entry.get("type") == _ACKNOWLEDGED:
            found.accepted.setdefault(path.strip("/"), {}).update(_reasons(entry.get("data")))
        elif entry.get("type") == _LOGICAL_ID:
            paths.note(str(entry.get("data")), path)
    return paths


def read_metadata(
    folder: Path, artifact: Mapping[str, Any], read: Callable[[str], list[Document]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the metadata of an artifact's constructs, as pairs of construct path and entry.

    Args:
        folder: The assembly.
        artifact: The artifact.
        read: Reads a file.

    Raises:
        UnusableInput: Its metadata cannot be read.
    """
    metadata = dict(mapping(artifact.get("metadata")))
    if (name := artifact.get("additionalMetadataFile")) is not None:
        for document in read(str(_inside(folder, name))):
            metadata |= mapping(document.content)
    yield from ((str(path), entry) for path, entries in metadata.items() for entry in mappings(entries))


def _reasons(data: Any) -> dict[str, str]:
    return {
        rule.removeprefix(_OURS): reason
        for rule, reason in mapping(data).items()
        if rule.startswith(_OURS) and isinstance(reason, str)
    }


def _read_template(stack: Stack, found: _Found) -> None:
    for document in found.read(stack.file):
        template = Template(stack.file, stack.name, mapping(document.content), stack.region, stack.account, stack.paths)
        _add_template(template, found)


def _inside(folder: Path, name: Any) -> Path:
    """Return a file of a folder. Reject a name that leads out of the folder."""
    try:
        file = folder / str(name)
        inside = isinstance(name, str) and folder.resolve() in file.resolve().parents
    except (OSError, ValueError, RuntimeError):
        # Too long, with a character that no path has, or a link to itself.
        inside = False
    if not inside:
        raise UnusableInput(f"{folder / 'manifest.json'}: must name files in its folder, got {str(name)[:200]!r}")
    return file


def _environment(text: Any) -> tuple[str | None, str | None]:
    parts = str(text).removeprefix("aws://").split("/")
    account, region = parts if len(parts) == 2 else ("", "")
    return (
        None if account in ("", "unknown-account") else account,
        None if region in ("", "unknown-region") else region,
    )


def _add_template(template: Template, found: _Found) -> None:
    found.templates.append(template)
    if len(found.templates) > MAX_TEMPLATES:
        raise UnusableInput(f"{template.file}: must be one of at most {MAX_TEMPLATES:,} templates, got more")
    if template.file in _files_around(template):
        raise UnusableInput(f"{template.file}: must not be nested in itself, got a stack {template.name}")
    for logical_id, raw in mapping(template.body.get("Resources")).items():
        nested = dig(raw, "Type") == "AWS::CloudFormation::Stack"
        asset = _asset(template, mapping(raw), found) if nested else None
        if isinstance(asset, str) and asset.endswith(".json"):
            file = _inside(Path(template.file).parent, asset)
            for document in found.read(str(file)):
                nested = Template(
                    str(file),
                    f"{template.name}.{logical_id}",
                    mapping(document.content),
                    template.region,
                    template.account,
                    template.paths,
                    parent=template,
                    nesting=(*template.nesting, str(logical_id)),
                    passed=mapping(dig(raw, "Properties", "Parameters")),
                )
                template.nested[logical_id] = nested
                _add_template(nested, found)


def _asset(template: Template, stack: Mapping[str, Any], found: _Found) -> Any:
    """Return the file of a nested stack's template.

    If CDK's command line ran the app, the stack's metadata names the file. If the app ran by itself, only the hash in
    the stack's URL identifies the file. The assets file of the outermost stack lists the file under that hash.
    """
    named = dig(stack, "Metadata", "aws:asset:path")
    if named is not None or (address := _HASH.search(str(dig(stack, "Properties", "TemplateURL")))) is None:
        return named
    while template.parent is not None:
        template = template.parent
    file = Path(f"{template.file.removesuffix('.template.json')}.assets.json")
    listed: Any = next((each.content for each in found.read(str(file))), None) if file.is_file() else None
    return dig(listed, "files", address.group(1), "source", "path")


def _files_around(template: Template) -> list[str]:
    found = []
    while template.parent is not None:
        template = template.parent
        found.append(template.file)
    return found


def _sort(document: Document, found: _Found, *, named: bool) -> None:
    content = document.content
    if content == NOT_RENDERED:
        found.skipped.append(Unread(Origin(document.file, document.file), NOT_RENDERED))
        return
    if is_template(content):
        _add_template(Template(document.file, found.stack or _stack_name(document.file), content), found)
        return
    if isinstance(content, dict) and isinstance(content.get(ACKNOWLEDGEMENTS), list):
        found.acknowledgements.append(document)
        return
    objects = list(parse_objects(content, document.file, templated=document.templated, template=document.template))
    found.objects += objects
    if isinstance(content, dict) and (wrong := next((each for each in content if each in _MISSPELT), None)):
        raise UnusableInput(f"{document.file}: acknowledgements must be a list under 'acknowledgements', got {wrong!r}")
    if named and not objects and is_terraform_content(content):
        raise UnusableInput(terraform_error(document.file))
    if named and not objects:
        raise UnusableInput(
            f"{document.file}: must be a CloudFormation template or Kubernetes objects, got {type(content).__name__}"
            " without 'Resources' or 'kind'"
        )


def _stack_name(file: str) -> str:
    return Path(file).name.removesuffix(".json").removesuffix(".template").removesuffix(".yaml").removesuffix(".yml")


def _input(found: _Found, parameters: Mapping[str, str]) -> Input:
    exports: dict[str, Any] = {}
    stacks = {(each.name, each.region): each for each in found.templates}
    work = Work()
    for template in found.templates:
        template.parameters, template.stacks, template.work = parameters, stacks, work
    for template in found.templates:
        exports |= template.exported()
    for template in found.templates:
        template.connect(exports)
    resources = {each.key: with_read_policies(each) for template in found.templates for each in template.resources()}
    objects, charts = list(found.objects), []
    problems = [*found.skipped, *(each for template in found.templates for each in unread(template))]
    for resource in resources.values():
        if resource.type == _MANIFEST:
            content = parse_embedded(resource.file, resource.properties.get("Manifest"))
            objects += parse_objects(content, resource.file, resource.key, resource.properties.get("ClusterName"))
            if isinstance(content, Unknown):
                problems.append(Unread(resource.origin, "its manifest can't be read before deployment"))
        elif resource.type == _CHART:
            charts.append(_chart(resource))
    broken: tuple[BrokenReference, ...] = ()
    if any(each.group == _ARGO or each.group.endswith(_FLUX) for each in objects):
        # Most inputs have no such objects, and the command starts faster without this module.
        from gpu_preflight.reading.gitops.delivered import delivered

        brought = delivered(objects, found.roots)
        objects, charts, problems = brought.objects, charts + brought.charts, problems + brought.problems
        broken = tuple(brought.broken)
    problems += _add_eksctl(found.templates, resources, objects, charts)
    versions = separate_versions(objects, charts, found.roots)
    return Input(
        resources,
        versions.objects,
        versions.charts,
        tuple(found.acknowledgements),
        found.accepted,
        tuple(problems),
        tuple(found.repeated),
        tuple(missing for each in found.templates for missing in dangling(each)),
        tuple(dict.fromkeys((*found.broken, *broken))),
        frozenset(name for each in found.templates for name in mapping(each.body.get("Parameters"))),
        versions.alternatives,
        templates=tuple(found.templates),
        comments=tuple(found.comments),
        skipped=tuple(found.left_out),
    )


def _add_eksctl(
    templates: list[Template], resources: dict[str, Resource], objects: list[Object], charts: list[Chart]
) -> list[Unread]:
    """Add everything that eksctl creates from ClusterConfigs. Return everything that it installs by API."""
    found = configs(objects)
    if not found and not any(map(is_written_by_eksctl, templates)):
        return []
    # Most inputs have neither, and a check starts faster without this module.
    from gpu_preflight.reading.eksctl import configs as eksctl

    for config in found:
        resources |= {each.key: each for each in eksctl.config_resources(config)}
        charts += eksctl.karpenter_charts(config)
        objects += [*eksctl.irsa_service_accounts(config), *eksctl.device_plugins(config, objects, charts)]
    return list(eksctl.installed_by_api(templates, objects))


def _chart(resource: Resource) -> Chart:
    values = parse_embedded(resource.file, resource.properties.get("Values"))
    reference = resource.properties.get("Chart") or resource.properties.get("Repository")
    text = known_text(reference) or str(reference)
    return Chart(
        name=text.rstrip("/").rsplit("/", 1)[-1],
        version=known_text(resource.properties.get("Version")),
        values=mapping(values),
        origin=resource.origin,
        properties=resource.properties,
        namespace=known_text(resource.properties.get("Namespace")) or "default",
        cluster=resource.properties.get("ClusterName"),
    )
