"""Instance profiles are listed by path, because a controller deletes only the profiles under its own path."""

from __future__ import annotations

from gpu_rehearsal.aws.server import Aws


def test_profiles_of_other_paths_are_not_listed(aws: Aws) -> None:
    iam = aws.client("iam")
    iam.create_instance_profile(InstanceProfileName="of-a-group")
    iam.create_instance_profile(InstanceProfileName="of-karpenter", Path="/karpenter/us-east-1/demo/")

    def names(**filters: str) -> set[str]:
        return {each["InstanceProfileName"] for each in iam.list_instance_profiles(**filters)["InstanceProfiles"]}

    assert names(PathPrefix="/karpenter/us-east-1/demo/") == {"of-karpenter"}
    assert names(PathPrefix="/karpenter/us-east-1/other/") == set()
    assert names() >= {"of-a-group", "of-karpenter"}
