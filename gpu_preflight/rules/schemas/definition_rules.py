"""Rules of Karpenter's own definitions."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.definitions import other_definition, read_version
from gpu_preflight.reading.objects import Object
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.schema.expressions import broken_rules, has_rules

_WINDOWS = ("Windows2019", "Windows2022", "Windows2025")
# Rules that others say in words of their own, without a library: NodePools in GPU180, EC2NodeClasses in GPU181.
SAID_ELSEWHERE = {
    "NodePool": (
        "'schedule' must be set with 'duration'",
        "only 'limits.nodes' is supported on static NodePools",
        "'weight' is not supported on static NodePools",
        'label domain "karpenter.sh" is restricted',
        'label domain "karpenter.k8s.aws" is restricted',
        'label "karpenter.sh/nodepool" is restricted',
        'label "kubernetes.io/hostname" is restricted',
        "requirements with operator 'In' must have a value defined",
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    ),
    "EC2NodeClass": (
        "must specify exactly one of ['role', 'instanceProfile']",
        "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        "'alias' is improperly formatted, must match the format 'family@version'",
        "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', "
        "'windows2022', 'windows2025'",
        "windows families may only specify version 'latest'",
        "must specify amiFamily if amiSelectorTerms does not contain an alias",
        *(
            f"if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"
            for article, families in {"an": ("AL2", "AL2023"), "a": ("Bottlerocket", *_WINDOWS)}.items()
            for family in families
        ),
    ),
}


@rule("GPU305", "error", source="https://github.com/aws/karpenter-provider-aws/tree/v1.15.1/pkg/apis/crds")
def rule_of_karpenters_definitions_that_is_broken(case: Case) -> Iterator[Problem]:
    """Rule of Karpenter's definitions that is broken.

    The API server evaluates the rules of the definition and refuses the object: the pool or class is not there.

    Fix: Write the fields as the rule says.
    """
    for each in case.cluster.objects:
        for path, message in _broken(each, case):
            other = other_definition(each, case.cluster)
            besides = f"; that is so in {read_version(each)}, and here {other} defines it" if other else ""
            for subject in case.cluster.parts_of(each):
                text = f"{each.origin.path}: {path}: {message}{besides}"
                yield Problem(subject, text, unknown=other is not None)


def _broken(each: Object, case: Case) -> Iterator[tuple[str, str]]:
    # An API server asks the rules once the fields are as they should be.
    if has_rules(each) and all(fault.kind == "unknown" for fault in case.fields.of_object(each)):
        said = SAID_ELSEWHERE.get(each.kind, ())
        yield from ((path, message) for path, message in broken_rules(each) if message not in said)
