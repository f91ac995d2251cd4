"""Rules of a template: what must be true of its parameters before anything is created.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.templates.intrinsics import Scope, evaluate


def refuse_unless_asserted(rules: Mapping[str, Any], scope: Scope) -> None:
    """Refuse parameters that a rule forbids.

    Raises:
        ValueError: An assertion does not hold.
    """
    for name, rule in rules.items():
        if "RuleCondition" in rule and not evaluate(rule["RuleCondition"], scope):
            continue
        for each in rule["Assertions"]:
            if not evaluate(each["Assert"], scope):
                raise ValueError(f"rule {name}: {each.get('AssertDescription', each['Assert'])}")
