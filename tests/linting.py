"""cfn-lint over synthesized templates."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.decode.decode import decode_str
from cfnlint.rules import Match, Rules
from cfnlint.runner import Runner, run_template_by_data

# W3005: DependsOn beside a Ref to the same resource, which CDK emits.
CDKS_OWN = ("W3005",)


def cfn_lint(templates: Iterable[Path], *, ignore: tuple[str, ...] = CDKS_OWN) -> list[str]:
    """Return rule and message of everything cfn-lint finds."""
    texts = [each.read_text() for each in templates]
    assert texts
    config = ConfigMixIn(**ManualArgs(ignore_checks=list(ignore), regions=["us-east-1"]))
    with warnings.catch_warnings():
        # Those of cfn-lint itself are not ours.
        warnings.simplefilter("ignore")
        found = [each for text in texts for each in _lint(text, config)]
    return [f"{each.rule.id} {each.message}" for each in found]


def _lint(text: str, config: ConfigMixIn) -> list[Match]:
    template, errors = decode_str(text)
    return list(errors) if template is None else list(run_template_by_data(template, config, _rules()))


def each_shape_once(templates: Iterable[str]) -> list[str]:
    """Return the templates without the resources that are alike in an earlier one: names and figures are ignored."""
    seen: set[str] = set()
    return [_with_new_shapes(json.loads(text), seen) for text in templates]


def _with_new_shapes(template: dict[str, Any], seen: set[str]) -> str:
    resources = template["Resources"]
    kept: set[str] = set()
    for name, resource in resources.items():
        shape = _shape(resource, resources)
        if shape not in seen:
            seen.add(shape)
            kept |= {name}
    while missing := {each for name in kept for each in _named_in(resources[name], resources)} - kept:
        kept |= missing
    return json.dumps({**template, "Resources": {name: resources[name] for name in resources if name in kept}})


def _shape(resource: dict[str, Any], resources: Iterable[str]) -> str:
    text = json.dumps({key: value for key, value in resource.items() if key != "Metadata"}, sort_keys=True)
    for name in _named_in(resource, resources):
        text = text.replace(f'"{name}"', "name")
    # Instance types, hashes and figures.
    return re.sub(r"\b[a-z]\w*[0-9][a-z0-9-]*[.-][a-z0-9-]+|[0-9a-f]{8,}|[0-9]+", "", text)


def _named_in(resource: dict[str, Any], resources: Iterable[str]) -> set[str]:
    return set(re.findall(r'"(\w+)"', json.dumps(resource))).intersection(resources)


@cache
def _rules() -> Rules:
    """Every rule, of which a process needs one set: loading them takes longer than checking a small template."""
    return Runner(ConfigMixIn()).rules
