"""Manifests and charts as files for Argo CD or Flux, instead of resources that a deployment applies.

Values that exist only after deployment, such as the name of a role, are ``${Key}`` in a file. The stack's output with
this key has the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import constructs
import jsii
from constructs import Construct

from gpu_constructs.installing.context import DELIVERY, FOLDER, Delivery, refuse_wrong_context
from gpu_constructs.installing.yaml_text import to_yaml
from gpu_facts.refusals import has_token
from gpu_facts.versions import Chart

# Id of the construct with the files of a stack.
FILES = "gpu-constructs-files"
_TTL = "ttlSecondsAfterFinished"
# Charts install the CRDs of the other objects, so they come first.
_CHARTS, _OBJECTS = "charts", "objects"
# First line of every file. It distinguishes obsolete files of this library from the user's own files.
_MARK = "# Written by gpu_constructs, and deleted with its construct.\n"


def delivery_method(scope: constructs.IConstruct) -> Delivery:
    """Return the tool that applies manifests and charts in this app.

    Raises:
        ValueError: The context names an unknown tool.
    """
    given = scope.node.try_get_context(DELIVERY)
    if given is None:
        return "kubectl"
    refuse_wrong_context({DELIVERY: given})
    return cast("Delivery", given)


class ManifestFile(Construct):
    """Objects in a separate file, written at synth.

    Args:
        manifests: The objects.
        folder: Folder of the stack that contains the file.

    Raises:
        ValueError: A key is known only at deployment, or another construct writes the same file.
    """

    def __init__(
        self, scope: Construct, id: str, manifests: Sequence[Mapping[str, Any]], *, folder: str = _OBJECTS
    ) -> None:
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        path = self.node.path.removeprefix(stack.node.path).strip("/")
        file = _root(self) / stack.artifact_id / folder / f"{re.sub(r'[^A-Za-z0-9.]+', '-', path)}.yaml"
        files = _stack_files(stack)
        files.take(file, path)
        files.manifests[file] = [with_outputs(self, _without_ttl(each), path) for each in manifests]


class ChartFile(ManifestFile):
    """A chart as a resource of Argo CD or Flux.

    Args:
        chart: The chart.
        repository: Repository to fetch it from.
        namespace: Namespace of the release.
        values: Its values.
        own_definitions: Whether it installs its own CRDs. False if a separate chart installs them.
        until_ready: Whether Flux waits until its objects are ready. Argo CD doesn't fail if an object isn't ready.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        chart: Chart,
        repository: str,
        namespace: str,
        values: Mapping[str, Any] | None,
        own_definitions: bool = True,
        until_ready: bool = True,
    ) -> None:
        make = _argocd_application
        if delivery_method(scope) == "flux":
            make = partial(flux_release, until_ready=until_ready)
        made = make(
            chart, repository=repository, namespace=namespace, values=values or {}, own_definitions=own_definitions
        )
        super().__init__(scope, id, made, folder=_CHARTS)


def _argocd_application(
    chart: Chart, *, repository: str, namespace: str, values: Mapping[str, Any], own_definitions: bool = True
) -> list[dict[str, Any]]:
    """Return the Application of a chart.

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/helm/
    """
    source = {
        # Argo CD identifies registries by host only.
        "repoURL": _repository(chart, repository).removeprefix("oci://"),
        "chart": chart.name,
        "targetRevision": chart.version,
        "helm": {"releaseName": chart.name, "valuesObject": values} | ({} if own_definitions else {"skipCrds": True}),
    }
    return [
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": chart.name, "namespace": "argocd"},
            "spec": {
                "project": "default",
                "source": source,
                "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
                "syncPolicy": {
                    "automated": {"prune": True, "selfHeal": True},
                    # The CRDs of some charts are too large for client-side apply.
                    "syncOptions": ["CreateNamespace=true", "ServerSideApply=true"],
                },
            },
        }
    ]


def flux_release(
    chart: Chart,
    *,
    repository: str,
    namespace: str,
    values: Mapping[str, Any],
    own_definitions: bool = True,
    until_ready: bool = True,
) -> list[dict[str, Any]]:
    """Return the HelmRepository and the HelmRelease of a chart.

    Source: https://fluxcd.io/flux/components/helm/helmreleases/
    """
    url = _repository(chart, repository)
    metadata = {"name": chart.name, "namespace": "flux-system"}
    definitions = "CreateReplace" if own_definitions else "Skip"
    both = {"crds": definitions} | ({} if until_ready else {"disableWait": True})
    from_here = {"kind": "HelmRepository", "name": chart.name}
    return [
        {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "HelmRepository",
            "metadata": metadata,
            "spec": {"interval": "1h", "url": url} | ({"type": "oci"} if url.startswith("oci://") else {}),
        },
        {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": metadata,
            "spec": {
                "interval": "1h",
                "releaseName": chart.name,
                "targetNamespace": namespace,
                # By default Flux gives up after the first failure.
                "install": {"createNamespace": True, **both, "remediation": {"retries": -1}},
                "upgrade": {**both, "remediation": {"retries": -1}},
                "chart": {"spec": {"chart": chart.name, "version": chart.version, "sourceRef": from_here}},
                "values": values,
            },
        },
    ]


def _repository(chart: Chart, repository: str) -> str:
    """Return the repository that contains the chart. Helm's reference to a registry also contains the chart's name."""
    return repository.removesuffix(f"/{chart.name}") if repository.startswith("oci://") else repository


def _without_ttl(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest without TTL. If a finished Job were deleted, the tool would create it, and run it again."""
    spec: Any = manifest.get("spec")
    if manifest.get("kind") == "Job":
        return {**manifest, "spec": {key: value for key, value in spec.items() if key != _TTL}}
    if manifest.get("kind") == "MPIJob":
        policy = {key: value for key, value in spec["runPolicy"].items() if key != _TTL}
        return {**manifest, "spec": {**spec, "runPolicy": policy}}
    return manifest


def _root(scope: Construct) -> Path:
    given = scope.node.try_get_context(FOLDER)
    if given is None:
        return Path("manifests")
    refuse_wrong_context({FOLDER: given})
    return Path(given)


def with_outputs(scope: Construct, value: Any, path: str) -> Any:
    """Return a value in which values that exist only after deployment are keys of outputs."""
    if isinstance(value, Mapping):
        for key in value:
            if isinstance(key, str) and has_token(key):
                raise ValueError(
                    f"{path}: keys must be known at synth to be written to a file, got one that is known only at "
                    "deployment; give the cluster a literal name"
                )
        return {key: with_outputs(scope, each, f"{path}/{key}") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_outputs(scope, each, f"{path}/{number}") for number, each in enumerate(value)]
    if isinstance(value, str) and has_token(value):
        key = re.sub(r"[^A-Za-z0-9]", "", path.title())
        output = cdk.CfnOutput(cdk.Stack.of(scope), key, value=value)
        output.override_logical_id(key)
        return f"${{{key}}}"
    return value


@jsii.implements(constructs.IValidation)
class _Files(Construct):
    """The files of a stack. They are written in the last step before CDK writes templates, after all changes."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.manifests: dict[Path, Sequence[Any]] = {}
        self._owners: dict[str, str] = {}
        self.node.add_validation(self)

    def take(self, file: Path, path: str) -> None:
        """Register a file for one construct.

        Raises:
            ValueError: Another construct has it. Names that differ only in case are the same file on some systems.
        """
        owner = self._owners.setdefault(str(file).lower(), path)
        if owner != path:
            raise ValueError(
                f"{path}: id must give a unique file name, got {file.name!r}, which belongs to {owner!r}; rename one"
            )

    def validate(self) -> list[str]:
        """Write the files, and return no error."""
        stack = cdk.Stack.of(self)
        for folder in {file.parent for file in self.manifests}:
            folder.mkdir(parents=True, exist_ok=True)
        for folder in {file.parents[1] / name for file in self.manifests for name in (_CHARTS, _OBJECTS)}:
            # Files of constructs that are no longer defined.
            for old in folder.glob("*.yaml"):
                if old.read_bytes().startswith(_MARK.encode()):
                    old.unlink()
        for file, manifests in self.manifests.items():
            file.write_text(_MARK + to_yaml(*stack.resolve(manifests)))
        return []


def _stack_files(stack: cdk.Stack) -> _Files:
    found = stack.node.try_find_child(FILES)
    return found if isinstance(found, _Files) else _Files(cast("Construct", stack), FILES)
