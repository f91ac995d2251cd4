"""A real API server rejects each certain error of this library, and an object that it accepts gets none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.schema.fields import Fields, broken_rules
from gpu_rehearsal.cluster.client import ApiError, Client
from gpu_rehearsal.processes import wait_until
from tests.e2e.test_manifests_are_accepted import is_served
from tests.preflight.schema.mutations import mutants
from tools.schemas import definitions

SAMPLES = Path(__file__).parents[1] / "preflight" / "schema" / "samples"
COUNT = 200


def samples(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((SAMPLES / name).read_text()) if each]


@pytest.fixture(scope="module")
def server(client: Client) -> Client:
    """The control plane, with the definitions that the schemas were read of."""
    try:
        known = [each for project in definitions.PROJECTS for each in definitions.definitions(project)]
    except definitions.Missing as error:
        pytest.skip(str(error))
    for each in known:
        client.apply(each)
    for each in known:
        wait_until(partial(is_served, client, each), f"{each['metadata']['name']} to be served")
    return client


def refusal(server: Client, content: dict[str, Any]) -> str:
    try:
        server.create(content, dryRun="All", fieldValidation="Strict")
    except ApiError as refused:
        return str(refused)
    return ""


def changed(sample: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A sample with one field changed, except its name and kind."""
    for place, content in mutants(sample, Random(sample["kind"]), COUNT):
        if not {"apiVersion", "kind", "metadata"} & set(place[:1]):
            yield place, content


@pytest.mark.parametrize("name", ["kubernetes.yaml", "custom_resources.yaml"])
def test_no_certain_refusal_of_what_the_api_server_takes(server: Client, name: str) -> None:
    false, asked = [], 0
    for sample in samples(name):
        # A name that another test created is valid too: the server checks it last.
        refused = refusal(server, sample)
        assert not refused or refused.endswith(f'"{sample["metadata"]["name"]}" already exists')
        assert not faults(sample)
        assert not broken(sample)
        for place, content in changed(sample):
            found = faults(content)
            certain = [each.text for each in found if not each.newer] + ([] if found else broken(content))
            asked += bool(certain)
            if certain and not refusal(server, content):
                false.append((sample["kind"], place, certain))

    assert asked > 1_000
    assert false == []


def faults(content: dict[str, Any]) -> list[Any]:
    return list(Fields().object_faults(Object(content, Origin("file", "path"))))


def broken(content: dict[str, Any]) -> list[str]:
    return [f"{path}: {text}" for path, text in broken_rules(Object(content, Origin("file", "path")))]
