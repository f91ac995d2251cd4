"""A GPU cluster in one stack: eight L4 nodes at most, none until a pod requests one."""

import aws_cdk as cdk

from gpu_constructs import GpuCluster, Spot

app = cdk.App()
stack = cdk.Stack(app, "Inference")
gpu = GpuCluster(stack, "Gpu")
gpu.add_pool("l4", "g6.xlarge", max_nodes=8, capacity=Spot())
app.synth()
