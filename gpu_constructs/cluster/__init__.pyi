from gpu_constructs.cluster.encryption import grant_volume_key as grant_volume_key
from gpu_constructs.cluster.gpu_cluster import GpuCluster as GpuCluster
from gpu_constructs.cluster.network import gpu_vpc as gpu_vpc
from gpu_constructs.cluster.system_nodes import AutoMode as AutoMode
from gpu_constructs.cluster.system_nodes import SystemNodes as SystemNodes
from gpu_constructs.cluster.vpc_parts import PrivateEndpoints as PrivateEndpoints
