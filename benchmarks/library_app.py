"""The default GpuClusterStack with a number of GPU node groups: what `synth.py` times."""

from __future__ import annotations

import sys

import aws_cdk as cdk

from stacks.gpu_cluster_stack import GpuClusterStack
from stacks.options import GpuClusterOptions, PoolOptions


def main(groups: int, *, check: bool = False) -> None:
    """Synthesize the stack, and judge it where that is asked."""
    pools = tuple(PoolOptions(name=f"gpu{number}", instance_types=("g6.xlarge",)) for number in range(groups))
    app = cdk.App()
    GpuClusterStack(app, "GpuClusterStack", options=GpuClusterOptions(pools=pools))
    if check:
        # Not above: without a check an app does not load preflight.
        from gpu_constructs.synth_check import check_gpus

        check_gpus(app)
    app.synth()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
