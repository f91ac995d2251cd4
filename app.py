"""The app that ``cdk synth GpuClusterStack`` runs."""

from __future__ import annotations

import sys

import aws_cdk as cdk

from stacks.gpu_cluster_stack import GpuClusterStack
from stacks.options import options_from_context


def main() -> None:
    """Synthesize the stack, or say in one line why the context is refused."""
    app = cdk.App()
    try:
        options = options_from_context(app.node.get_all_context())
        GpuClusterStack(app, "GpuClusterStack", options=options)
    except (TypeError, ValueError) as error:
        sys.exit(f"gpu-constructs: {error}")
    app.synth()


if __name__ == "__main__":
    main()
