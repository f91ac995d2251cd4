from gpu_constructs.workloads.gpu_deployment import GpuDeployment as GpuDeployment
from gpu_constructs.workloads.gpu_job import GpuJob as GpuJob
from gpu_constructs.workloads.gpu_pod import GpuPod as GpuPod
from gpu_constructs.workloads.kai_queue import KaiQueue as KaiQueue
from gpu_constructs.workloads.mpi_operator import MpiOperator as MpiOperator
from gpu_constructs.workloads.nccl_test import NcclTest as NcclTest
from gpu_constructs.workloads.smoke_test import GpuSmokeTest as GpuSmokeTest
