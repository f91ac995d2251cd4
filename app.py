"""The app that ``cdk synth GpuClusterStack`` runs."""

from __future__ import annotations

import sys

import aws_cdk as cdk

from gpu_constructs.synth_check import check_gpus
from stacks.gpu_cluster_stack import GpuClusterStack
from stacks.options import options_from_context


def main() -> None:
    """Synthesize the stack, or say why the context is refused or a GPU pod would stay Pending."""
    app = cdk.App()
    try:
        options = options_from_context(app.node.get_all_context())
        GpuClusterStack(app, "GpuClusterStack", options=options)
    except (TypeError, ValueError) as error:
        sys.exit(f"gpu-constructs: {error}")
    check_gpus(app)
    try:
        app.synth()
    except RuntimeError as error:
        # What is wrong stands above, as CDK's validation report; a stack trace of jsii adds nothing.
        if "ValidationFailed" not in str(error):
            raise
        sys.exit(1)


if __name__ == "__main__":
    main()
