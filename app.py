"""The app that ``cdk synth GpuClusterStack`` runs."""

from __future__ import annotations

import os

import aws_cdk as cdk

from gpu_constructs import plain_errors
from gpu_constructs.synth_check import check_gpus
from stacks.gpu_cluster_stack import GpuClusterStack
from stacks.options import options_from_context


def main() -> None:
    """Synthesize the stack, or print why the context is invalid or a GPU pod would stay Pending."""
    plain_errors("stacks")
    app = cdk.App()
    account, region = os.environ.get("CDK_DEFAULT_ACCOUNT"), os.environ.get("CDK_DEFAULT_REGION")
    env = cdk.Environment(account=account, region=region)
    GpuClusterStack(app, "GpuClusterStack", env=env, options=options_from_context(app.node.get_all_context()))
    check_gpus(app)
    app.synth()


if __name__ == "__main__":
    main()
