"""Changes of a node group that CloudFormation rejects in one update, or that set its number of nodes.

EKS changes version and launch template by UpdateNodegroupVersion and everything else by other calls, and CloudFormation
makes only one of these calls in an update.

Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
(Version, ReleaseVersion), https://github.com/aws/aws-cdk/issues/16644 (LaunchTemplate with Tags)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_preflight.judging.written import differ
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import known_number, mapping

VERSIONS = ("ReleaseVersion", "Version")
_LAUNCH = "LaunchTemplate"
# A tag of the stack is on the group and on its instances. The CDK's filter leaves out the launch template's tags.
_TAGS = (
    '. If Tags.of(stack) adds the tag, deploy it with exclude_resource_types=["AWS::EC2::Instance"] first, then without'
)


def rejected_combination(before: Mapping[str, Any], after: Mapping[str, Any], *, launch_changes: bool) -> str:
    """Return which changes of a group must be deployed one after another; empty if one update may combine them.

    Args:
        before: Properties of the group in the first version.
        after: Properties in the second version.
        launch_changes: Whether the content of its launch template changes.
    """
    names = dict.fromkeys((*before, *after))
    changed = [each for each in names if each != _LAUNCH and differ(before.get(each), after.get(each))]
    versions = [name for name in changed if name in VERSIONS]
    others = [name for name in changed if name not in VERSIONS]
    launch = [_LAUNCH] if launch_changes else []
    order = (versions, others, launch) if others == ["Tags"] else (versions, launch, others)
    steps = [" and ".join(each) for each in order if each]
    if len(steps) < 2 or not (versions or launch):
        return ""
    return (
        f"CloudFormation rejects a change of {', '.join(steps)} of one node group in one deployment; "
        f"deploy them one after another: {', then '.join(steps)}{_TAGS if launch and others == ['Tags'] else ''}"
    )


def reset_size(old: Resource, new: Resource) -> str:
    """Return to how many nodes an update of sizes sets a group that may run more; empty if it stops no node.

    An update of sizes sends all of them, and the autoscaler's choice is lost if the template has the desired size. A
    group never runs more nodes than its old maximum, so at that size or above no node stops.

    Sources, read 2026-11: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html
    (desiredSize), https://github.com/aws/aws-cdk/issues/5215 (AutoScalingGroup)
    """
    if new.type == "AWS::EKS::Nodegroup":
        before, after = (mapping(each.properties.get("ScalingConfig")) for each in (old, new))
        names = ("MinSize", "MaxSize", "DesiredSize")
    elif new.type == "AWS::AutoScaling::AutoScalingGroup":
        before, after = dict(old.properties), dict(new.properties)
        names = ("MinSize", "MaxSize", "DesiredCapacity")
    else:
        return ""
    desired, most = known_number(after.get(names[2])), known_number(before.get(names[1]))
    if desired is None or not any(differ(before.get(each), after.get(each)) for each in names):
        return ""
    if most is not None and desired >= most:
        return ""
    return (
        f"{names[2]} sets the number of nodes to {desired}, however many run, and stops the others; leave it out of "
        "the template if an autoscaler sets it"
    )
