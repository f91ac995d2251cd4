"""A field is refused here where the publisher's own schema, asked by another library, refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from cfnlint.jsonschema import CfnTemplateValidator
from cfnlint.schema.resolver import RefResolver

from gpu_facts.schemas import find_schema
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.schema.fields import Fields
from gpu_preflight.schema.validation import CLOUDFORMATION, Judge
from tests import schemas
from tests.preflight.schema.mutations import mutants
from tools.schemas import cloudformation, definitions
from tools.schemas.kubernetes import VERSION
from tools.schemas.reduce import Reducer

SAMPLES = Path(__file__).parent / "samples"
RESOURCES = yaml.safe_load((SAMPLES / "cloudformation.yaml").read_text())
COUNT = 60


def objects(name: str) -> list[Any]:
    documents = [each for each in yaml.safe_load_all((SAMPLES / name).read_text()) if each]
    return [pytest.param(each, id=f"{each['kind']}_{each['metadata']['name']}") for each in documents]


def changed(sample: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A sample, and the sample with one field changed, except its kind, which every check needs."""
    yield (), sample
    named = ({"apiVersion"}, {"kind"}, {"metadata"})
    yield from (each for each in mutants(sample, Random(sample["kind"]), COUNT) if set(each[0][:1]) not in named)


def faults(content: dict[str, Any]) -> list[str]:
    return [each.text for each in Fields().object_faults(Object(content, Origin("file", "path")))]


def is_stricter(texts: list[str]) -> bool:
    """Whether all findings are about enumerations and bounds."""
    return all("must be one of" in each or "must be at" in each for each in texts)


@pytest.mark.parametrize("kind", RESOURCES)
def test_resource_as_cfn_lint_judges_it(kind: str) -> None:
    schema = cloudformation.read_schema(kind)
    judge, reduced = Judge(CLOUDFORMATION), Reducer(schema.get("definitions")).reduce(schema)
    bare = CfnTemplateValidator({})
    context = bare.context.evolve(strict_types=False)
    theirs = bare.evolve(schema=schema, resolver=RefResolver.from_schema(schema), context=context)
    known = find_schema(kind)
    assert known is not None
    for place, properties in [((), RESOURCES[kind]), *mutants(RESOURCES[kind], Random(kind), COUNT)]:
        said = [each.message for each in theirs.iter_errors(properties) if each.validator != "format"]
        ours = [each.text for each in judge.faults(properties, reduced)]
        more = [each.text for each in judge.faults(properties, known)]
        assert bool(ours) == bool(said), (place, ours, said)
        assert set(ours) <= set(more), (place, ours, more)
        assert is_stricter([each for each in more if each not in ours]), (place, ours, more)


@pytest.mark.parametrize("sample", objects("kubernetes.yaml"))
def test_object_as_kubernetes_validate_judges_it(sample: dict[str, Any]) -> None:
    for place, content in changed(sample):
        ours, said = faults(content), ""
        try:
            schemas.validate(content, VERSION.removeprefix("v").rpartition(".")[0])
        except kubernetes_validate.ValidationError as error:
            said = error.message
        # Its schemas have no enumerations; `make e2e` asks the API server of them.
        assert bool(said) == bool(ours) or (ours and is_stricter(ours)), (place, ours, said)


@pytest.mark.parametrize("sample", objects("custom_resources.yaml"))
def test_object_as_its_definition_judges_it(sample: dict[str, Any]) -> None:
    theirs = jsonschema.Draft7Validator(definition_of(sample))
    for place, content in changed(sample):
        ours, said = faults(content), [each.message for each in theirs.iter_errors(content)]
        assert bool(ours) == bool(said), (place, ours, said)


@cache
def _definitions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for project in definitions.PROJECTS:
        with suppress(definitions.Missing):
            for each in definitions.definitions(project):
                found |= dict(definitions.served(each))
    return found


def definition_of(sample: dict[str, Any]) -> dict[str, Any]:
    known = _definitions().get(f"{sample['apiVersion']}/{sample['kind']}")
    if known is None:
        pytest.skip(f"no module proxy has the definition of {sample['kind']}: set {definitions.FOLDER}")
    return dict(filled_in(schemas.close(known)))


def filled_in(schema: Any) -> Any:
    """A schema that asks for no field with a default, which an API server fills in before it looks."""
    if isinstance(schema, list):
        return [filled_in(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    filled = {key: filled_in(each) for key, each in schema.items()}
    if isinstance(schema.get("required"), list):
        fields = schema.get("properties", {})
        filled["required"] = [each for each in schema["required"] if "default" not in fields.get(each, {})]
    return filled
