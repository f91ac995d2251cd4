"""A GPU cluster in one stack: two L4 nodes at most, none until a pod asks for one."""

import aws_cdk as cdk

from gpu_constructs import ClusterAutoscaler, DevicePlugin, GpuCluster, ManagedNodeGroup, NodeShape, Spot

app = cdk.App()
stack = cdk.Stack(app, "Inference")
gpu = GpuCluster(stack, "Gpu", kubernetes_version="1.36")
DevicePlugin(stack, "DevicePlugin", cluster=gpu.cluster)
ClusterAutoscaler(stack, "ClusterAutoscaler", cluster=gpu.cluster)
ManagedNodeGroup(
    stack,
    "L4",
    cluster=gpu.cluster,
    name="l4",
    shape=NodeShape(instance_types=("g6.xlarge",)),
    capacity=Spot(),
    max_nodes=2,
)
app.synth()
