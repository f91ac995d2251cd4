"""Runs the checker during ``cdk synth``. Errors stop synth, and the report lists every finding.

    check_gpus(app)

This is the only link from CDK to preflight. Preflight itself doesn't depend on the CDK.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
import jsii
from aws_cdk import Validations

from gpu_facts._version import __version__

# Functions import preflight, so that its import is a part of the check, in which Python collects no garbage.
if TYPE_CHECKING:
    from constructs import IConstruct

    from gpu_preflight.reading.inputs import Stack
    from gpu_preflight.reading.objects import Position
    from gpu_preflight.rule import Finding

# A construct acknowledges a finding by
# Validations.of(construct).acknowledge(Acknowledgment(id="gpu-constructs::GPU010",
# reason="...")).
_NAME = "gpu-constructs"


@jsii.implements(cdk.IPolicyValidationPlugin)
class GpuPreflight:
    """A policy validation plugin that checks every template of an app against the rules of preflight."""

    @property
    def name(self) -> str:
        """Name in the report, and prefix of an acknowledged rule."""
        return _NAME

    @property
    def version(self) -> str:
        """Version of this library."""
        return __version__

    @property
    def rule_ids(self) -> list[str]:
        """Ids of all rules."""
        with _without_garbage_collection():
            from gpu_preflight.rules import rules

            return list(rules())

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Check the templates of an app.

        Raises:
            ValueError: A template can't be checked.
        """
        with _without_garbage_collection():
            return _report([_stack(each) for each in context.stack_templates])


def check_gpus(app: IConstruct) -> None:
    """Check an app's templates at every synth.

    Args:
        app: The app or the stage.
    """
    Validations.of(app).add_plugins(GpuPreflight())


def _report(stacks: list[Stack]) -> cdk.PolicyValidationPluginReport:
    from gpu_preflight.judging.check import check
    from gpu_preflight.judging.doubts import cases_by_title, doubt
    from gpu_preflight.reading.creation_stacks import CreationStacks
    from gpu_preflight.reading.documents import UnusableInput
    from gpu_preflight.reading.inputs import read_stacks

    try:
        report = check(read_stacks(stacks))
    except UnusableInput as error:
        raise ValueError(str(error)) from error
    # Notes, such as the quota that pools need, would appear at every synth. `gpu-constructs check` shows them.
    shown = [each for each in report.findings if each.acknowledged is None and each.rule.severity != "note"]
    # CDK names the innermost frame, which is one of this library where the library creates the resource.
    lines, cases = CreationStacks(), cases_by_title(report.cases)
    return cdk.PolicyValidationPluginReport(
        success=not any(each.counts for each in shown),
        violations=[_violation(each, doubt(each, cases), lines.find(each.problem.origin)) for each in shown],
    )


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Collect no garbage during a check. Its objects live until its end, and the CDK's many objects live on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _stack(template: cdk.PolicyValidationStack) -> Stack:
    from gpu_preflight.reading.inputs import Stack

    # aws-cdk-lib before 2.269 doesn't return the account and region of a stack.
    account, region = (getattr(template, name, None) for name in ("account_id", "region"))
    return Stack(template.template_path, Path(template.stack_construct_path).name, account, region)


def _violation(finding: Finding, unsure: str, line: Position | None) -> cdk.PolicyViolation:
    notes = "".join(f" ({each})" for each in (unsure, line) if each)
    return cdk.PolicyViolation(
        rule_name=finding.rule.id,
        description=f"{finding.rule.title}: {finding.problem.message}{notes}",
        fix=f"{finding.fix} {finding.rule.source}",
        severity="warning" if finding.problem.unknown else finding.rule.severity,
        violating_resources=[_resource(finding)],
    )


def _resource(finding: Finding) -> cdk.PolicyViolatingResource:
    origin = finding.problem.origin
    return cdk.PolicyViolatingResource(
        resource_logical_id=origin.resource.partition("/")[2] if origin.resource else "",
        template_path=origin.file,
        locations=[],
    )
