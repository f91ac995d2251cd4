"""Facts about NVIDIA instance types that DescribeInstanceTypes doesn't return, each with its source and date.

`tools/build_catalogue.py` joins these with the dump that moto ships.
"""

from __future__ import annotations

from typing import Any

AMAZON_EKS_AMI = "https://github.com/awslabs/amazon-eks-ami (doc/usage/g7-ami.md, install-nvidia-driver.sh)"
DRIVER_RESOLVER = "awslabs/amazon-eks-ami 46d3c70a (templates/al2023/runtime/gpu/resolve-nvidia-driver.sh)"
USER_GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide"

# Lowest NVIDIA driver branch that supports the chip. Families that all current branches support have no row.
DRIVER_MIN = {"p6-b200": 570, "p6e-gb200": 570, "g7e": 575, "g7": 595}
# Last branch that still supports the chip (V100) or its vGPU (fractional L4).
DRIVER_MAX = {"p3dn": 580, "g6f": 580, "gr6f": 580}

MIG_FAMILIES = ("p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "g7", "g7e")
NVSWITCH_TYPES = (
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
    "p6-b200.48xlarge",
    "p6-b300.48xlarge",
    "p6e-gb200.36xlarge",
)

# Values of the label k8s.amazonaws.com/accelerator that cluster autoscaler's metrics know by name. Other GPUs get
# "nvidia-<model>", which works alike for readiness and scale-up (aws_cloud_provider.go, tag cluster-autoscaler-1.36.1).
ACCELERATOR_LABELS = {
    "V100": "nvidia-tesla-v100",
    "T4": "nvidia-tesla-t4",
    "A100": "nvidia-tesla-a100",
    "A10G": "nvidia-a10g",
    "L4": "nvidia-l4",
    "L40S": "nvidia-l40s",
}

# Families that EC2 no longer sells, or that no current EKS image supports, each with a replacement.
RETIRED = {
    "g2": {"reason": "its GRID K520 is in no driver branch of a current EKS AMI", "successor": "g6"},
    "g3": {"reason": "its M60 is in no driver branch of a current EKS AMI", "successor": "g6"},
    "g3s": {"reason": "its M60 is in no driver branch of a current EKS AMI", "successor": "g6"},
    "p2": {"reason": "its K80 needs driver 470 or older, and EKS AMIs carry 580", "successor": "g6e"},
    "p3": {"reason": "EC2 no longer lists it, and driver branch 580 is the last for V100", "successor": "g6e"},
}
# Every size of a retired family that botocore's InstanceType enum still names.
RETIRED_SIZES = {
    "g2": ("2xlarge", "8xlarge"),
    "g3": ("4xlarge", "8xlarge", "16xlarge"),
    "g3s": ("xlarge",),
    "p2": ("xlarge", "8xlarge", "16xlarge"),
    "p3": ("2xlarge", "8xlarge", "16xlarge"),
}

# DescribeInstanceTypes never returns UltraServer members. vCPU, memory and GPU memory are not stated in the guide.
BY_HAND: dict[str, dict[str, Any]] = {
    "p6e-gb200.36xlarge": {
        "architecture": "arm64",
        "gpu_model": "GB200",
        "gpus": 4,
        "ec2_gpus": 4,
        "gpu_memory_mib": None,
        "vcpus": None,
        "memory_mib": None,
        "nvme_disks": 3,
        "nvme_disk_gb": 7500,
        "network_cards": [{"index": 0, "interfaces": None, "types": ["interface"]}]
        + [{"index": i, "interfaces": None, "types": ["interface", "efa", "efa-only"]} for i in range(1, 17)],
        "max_efa": None,
        "ipv4_per_interface": None,
        "ebs_mb_per_second": None,
        "purchase_options": ["capacity-block"],
        "ultraserver_only": True,
    }
}

COLUMNS: dict[str, dict[str, str]] = {
    "driver_min": {"source": DRIVER_RESOLVER, "as_of": "2026-11-21"},
    "driver_max": {"source": DRIVER_RESOLVER, "as_of": "2026-11-21"},
    "mig": {"source": f"{USER_GUIDE}/device-management-nvidia-mig.html", "as_of": "2026-08-21"},
    "nvswitch": {"source": "https://aws.amazon.com/ec2/instance-types/", "as_of": "2026-08-21"},
    "accelerator_label": {
        "source": "https://github.com/kubernetes/autoscaler (aws_cloud_provider.go, cluster-autoscaler-1.36.1)",
        "as_of": "2026-08-22",
    },
    "quota_family": {
        "source": "https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html",
        "as_of": "2026-08-21",
    },
    "ultraserver_only": {"source": f"{USER_GUIDE}/ml-eks-nvidia-ultraserver.html", "as_of": "2026-08-21"},
    "retired": {"source": AMAZON_EKS_AMI, "as_of": "2026-08-02"},
    "by_hand": {"source": f"{USER_GUIDE}/ml-eks-nvidia-ultraserver.html", "as_of": "2026-08-21"},
}

PRICE_SOURCE = {
    "source": "EC2 on-demand list price of Linux in us-east-1, as recorded by karpenter-provider-aws "
    "pkg/providers/pricing/zz_generated.pricing_aws.go",
    "as_of": "2026-07-20",
}
# Reasons why types have no price in that file.
WITHOUT_PRICE = {
    "p5e.48xlarge": "not sold in us-east-1",
    "p6e-gb200.36xlarge": "sold in Capacity Blocks alone, which are paid when they are bought",
}
# US dollars an hour.
USD_PER_HOUR = {
    "g4dn.xlarge": 0.526,
    "g4dn.2xlarge": 0.752,
    "g4dn.4xlarge": 1.204,
    "g4dn.8xlarge": 2.176,
    "g4dn.12xlarge": 3.912,
    "g4dn.16xlarge": 4.352,
    "g4dn.metal": 7.824,
    "g5.xlarge": 1.006,
    "g5.2xlarge": 1.212,
    "g5.4xlarge": 1.624,
    "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672,
    "g5.16xlarge": 4.096,
    "g5.24xlarge": 8.144,
    "g5.48xlarge": 16.288,
    "g5g.xlarge": 0.42,
    "g5g.2xlarge": 0.556,
    "g5g.4xlarge": 0.828,
    "g5g.8xlarge": 1.372,
    "g5g.16xlarge": 2.744,
    "g5g.metal": 2.744,
    "g6.xlarge": 0.8048,
    "g6.2xlarge": 0.9776,
    "g6.4xlarge": 1.3232,
    "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016,
    "g6.16xlarge": 3.3968,
    "g6.24xlarge": 6.6752,
    "g6.48xlarge": 13.3504,
    "g6e.xlarge": 1.861,
    "g6e.2xlarge": 2.24208,
    "g6e.4xlarge": 3.00424,
    "g6e.8xlarge": 4.52856,
    "g6e.12xlarge": 10.49264,
    "g6e.16xlarge": 7.57719,
    "g6e.24xlarge": 15.06559,
    "g6e.48xlarge": 30.13118,
    "g6f.large": 0.202,
    "g6f.xlarge": 0.2375,
    "g6f.2xlarge": 0.475,
    "g6f.4xlarge": 0.95,
    "g7.2xlarge": 2.52,
    "g7.4xlarge": 3.04208,
    "g7.8xlarge": 4.08624,
    "g7.12xlarge": 7.12832,
    "g7.24xlarge": 14.25664,
    "g7.48xlarge": 28.51328,
    "g7e.2xlarge": 3.36312,
    "g7e.4xlarge": 3.99816,
    "g7e.8xlarge": 5.26824,
    "g7e.12xlarge": 8.28608,
    "g7e.24xlarge": 16.57216,
    "g7e.48xlarge": 33.14432,
    "gr6.4xlarge": 1.5392,
    "gr6.8xlarge": 2.4464,
    "gr6f.4xlarge": 1.066,
    "p3dn.24xlarge": 31.212,
    "p4d.24xlarge": 21.957642,
    "p4de.24xlarge": 27.44705,
    "p5.4xlarge": 6.88,
    "p5.48xlarge": 55.04,
    "p5en.48xlarge": 63.296,
    "p6-b200.48xlarge": 113.9328,
    "p6-b300.48xlarge": 142.416,
}
