"""A real API server takes every object that the stacks and examples emit, rules in CEL included."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import yaml

from gpu_rehearsal.cluster.client import ApiError, Client, Object
from gpu_rehearsal.processes import wait_until
from tests import test_serving_page
from tests.conftest import FLAGS
from tests.emitted import EXAMPLES, run
from tests.stacks.test_gpu_cluster_stack import MODES, options, template_text
from tests.stacks.test_reference_stacks import Made
from tests.templates import Resources, manifests_of
from tests.test_examples import with_ids

# Why there is no definition to hold an object against.
WITHOUT_DEFINITION = {("eks.amazonaws.com/v1", "NodeClass"): "EKS keeps the definitions of Auto Mode to itself"}
REFERENCE = ("Training", "Reserved", "OnDemand", "Inference", "AutoMode")


@pytest.fixture(scope="module")
def cluster(client: Client, crds: Path) -> Client:
    """The control plane, with the definitions of the software we emit objects for."""
    definitions = [each for path in sorted(crds.glob("*.yaml")) for each in documents(path)]
    for each in definitions:
        client.apply(each)
    for each in definitions:
        wait_until(partial(is_served, client, each), f"{each['metadata']['name']} to be served")
    return client


def documents(path: Path) -> list[Object]:
    # Definitions are megabytes, with which yaml.safe_load takes half a minute.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(path.read_text(), loader) if each]


def is_served(client: Client, definition: Object) -> bool:
    """Whether the server takes objects of a definition, in every version."""
    spec = definition["spec"]
    try:
        for each in spec["versions"]:
            if each["served"]:
                kind = {"apiVersion": f"{spec['group']}/{each['name']}", "kind": spec["names"]["kind"], "metadata": {}}
                client.get(client.collection_path(kind), limit="1")
    except ApiError:
        return False
    return True


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Resources]:
    """Every stack, synthesized once."""
    folder = tmp_path_factory.mktemp("stacks")
    whole = {mode: json.loads(template_text(folder / mode, options(mode), FLAGS))["Resources"] for mode in MODES}
    return Made(tmp_path_factory.mktemp("reference")).resources | whole


def refusals(cluster: Client, objects: list[Object]) -> dict[str, str]:
    """Apply objects, delete them again, and return the server's message on each that it refuses."""
    known = [each for each in objects if (each["apiVersion"], each["kind"]) not in WITHOUT_DEFINITION]
    for namespace in {each["metadata"]["namespace"] for each in known if "namespace" in each["metadata"]}:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    answers = {f"{each['kind']} {each['metadata']['name']}": refusal(cluster, each) for each in known}
    for each in known:
        cluster.delete(cluster.object_path(each))
    return {name: answer for name, answer in answers.items() if answer}


def refusal(cluster: Client, manifest: Object) -> str:
    """Apply an object, and return the server's message where it refuses."""
    try:
        cluster.apply(manifest)
    except ApiError as refused:
        return str(refused)
    return ""


def emitted(resources: Resources) -> list[Object]:
    """Every applied object of a template, with ids in place of values known only at deployment."""
    return [with_ids(each) for each in manifests_of(resources)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_object_of_an_example_is_accepted(name: str, cluster: Client, tmp_path: Path) -> None:
    for stack, template in run(name, tmp_path).items():
        assert refusals(cluster, emitted(template["Resources"])) == {}, stack


def test_every_object_of_the_page_on_serving_is_accepted(cluster: Client, tmp_path: Path) -> None:
    test_serving_page.run_examples(tmp_path)
    for stack in test_serving_page.STACKS:
        template = json.loads(test_serving_page.file_of(tmp_path, stack).read_text())
        assert refusals(cluster, emitted(template["Resources"])) == {}, stack


@pytest.mark.parametrize("name", [*REFERENCE, *MODES])
def test_every_object_of_a_stack_is_accepted(name: str, cluster: Client, stacks: dict[str, Resources]) -> None:
    objects = emitted(stacks[name])

    assert len(objects) >= 2
    assert refusals(cluster, objects) == {}


def test_every_stack_is_tried(stacks: dict[str, Resources]) -> None:
    assert set(stacks) == {*REFERENCE, *MODES}


def changed(objects: list[Object], kind: str, **spec: object) -> Object:
    """The first object of a kind, with ``spec`` applied to its spec."""
    found = next(each for each in objects if each["kind"] == kind)
    return found | {"spec": found["spec"] | spec}


def test_what_is_wrong_is_refused(cluster: Client, stacks: dict[str, Resources]) -> None:
    objects = emitted(stacks["karpenter"])

    typo = refusal(cluster, changed(objects, "DaemonSet", templat={}))
    assert ".spec.templat: field not declared in schema" in typo
    # A rule in CEL, which no JSON schema knows.
    both = refusal(cluster, changed(objects, "EC2NodeClass", role="nodes", instanceProfile="nodes"))
    assert "must specify exactly one of ['role', 'instanceProfile']" in both
