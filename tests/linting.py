"""cfn-lint over synthesized templates."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path

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


@cache
def _rules() -> Rules:
    """Every rule, of which a process needs one set: loading them takes longer than judging a small template."""
    return Runner(ConfigMixIn()).rules
