"""The instance types that DaemonSets select by name, by family."""

from __future__ import annotations


def _types(families: str) -> tuple[str, ...]:
    pairs = (each.split(":") for each in families.split(";"))
    return tuple(f"{family.strip()}.{size}" for family, sizes in pairs for size in sizes.split())


def _without(types: tuple[str, ...], families: str) -> tuple[str, ...]:
    return tuple(each for each in types if each.split(".")[0] not in families.split())


# Chart aws-efa-k8s-device-plugin v0.5.30: https://github.com/aws/eks-charts (2026-08-03)
EFA_DEVICE_PLUGIN = _types(
    """
    c5n: 18xlarge 9xlarge metal; c6a: 48xlarge metal; c6gn: 16xlarge; c6i: 32xlarge metal; c6id: 32xlarge metal;
    c6in: 32xlarge metal; c7a: 48xlarge metal-48xl; c7g: 16xlarge metal; c7gd: 16xlarge metal; c7gn: 16xlarge metal;
    c7i: 48xlarge metal-48xl; c8a: 48xlarge metal-48xl; c8g: 24xlarge 48xlarge metal-24xl metal-48xl; c8gb: 16xlarge
    24xlarge 48xlarge metal-24xl metal-48xl; c8gd: 24xlarge 48xlarge metal-24xl metal-48xl; c8gn: 16xlarge 24xlarge
    48xlarge metal-24xl metal-48xl; c8i: 48xlarge 96xlarge metal-48xl metal-96xl; c8ib: 48xlarge 96xlarge metal-48xl
    metal-96xl; c8id: 48xlarge 96xlarge metal-48xl metal-96xl; c8in: 48xlarge 96xlarge metal-48xl metal-96xl; c9g:
    48xlarge metal-48xl; c9gd: 48xlarge metal-48xl; dl2q: 24xlarge; f2: 48xlarge; g4dn: 12xlarge 16xlarge 8xlarge
    metal; g5: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g6: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g6e:
    12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g7: 12xlarge 24xlarge 48xlarge 8xlarge; g7e: 12xlarge 24xlarge
    48xlarge 8xlarge; gr6: 8xlarge; hpc6a: 48xlarge; hpc6id: 32xlarge; hpc7a: 12xlarge 24xlarge 48xlarge 96xlarge;
    hpc7g: 16xlarge 4xlarge 8xlarge; hpc8a: 96xlarge; i3en: 12xlarge 24xlarge metal; i4g: 16xlarge; i4i: 32xlarge
    metal; i7i: 24xlarge 48xlarge metal-48xl; i7ie: 48xlarge metal-48xl; i8g: 48xlarge metal-48xl; i8ge: 48xlarge
    metal-48xl; im4gn: 16xlarge; inf1: 24xlarge; m5dn: 24xlarge metal; m5n: 24xlarge metal; m5zn: 12xlarge metal;
    m6a: 48xlarge metal; m6i: 32xlarge metal; m6id: 32xlarge metal; m6idn: 32xlarge metal; m6in: 32xlarge metal;
    m7a: 48xlarge metal-48xl; m7g: 16xlarge metal; m7gd: 16xlarge metal; m7i: 48xlarge metal-48xl; m8a: 48xlarge
    metal-48xl; m8azn: 24xlarge metal-24xl; m8g: 24xlarge 48xlarge metal-24xl metal-48xl; m8gb: 16xlarge 24xlarge
    48xlarge metal-24xl metal-48xl; m8gd: 24xlarge 48xlarge metal-24xl metal-48xl; m8gn: 16xlarge 24xlarge 48xlarge
    metal-24xl metal-48xl; m8i: 48xlarge 96xlarge metal-48xl metal-96xl; m8ib: 48xlarge 96xlarge metal-48xl
    metal-96xl; m8id: 48xlarge 96xlarge metal-48xl metal-96xl; m8idb: 48xlarge 96xlarge metal-48xl metal-96xl;
    m8idn: 48xlarge 96xlarge metal-48xl metal-96xl; m8in: 48xlarge 96xlarge metal-48xl metal-96xl; m9g: 48xlarge
    metal-48xl; m9gd: 48xlarge metal-48xl; p3dn: 24xlarge; p4d: 24xlarge; p4de: 24xlarge; p5: 48xlarge 4xlarge; p5e:
    48xlarge; p5en: 48xlarge; p6-b200: 48xlarge; p6-b300: 48xlarge; p6e-gb200: 36xlarge; p6e-gb300: 36xlarge; r5dn:
    24xlarge metal; r5n: 24xlarge metal; r6a: 48xlarge metal; r6i: 32xlarge metal; r6id: 32xlarge metal; r6idn:
    32xlarge metal; r6in: 32xlarge metal; r7a: 48xlarge metal-48xl; r7g: 16xlarge metal; r7gd: 16xlarge metal; r7i:
    48xlarge metal-48xl; r7iz: 32xlarge metal-32xl; r8a: 48xlarge metal-48xl; r8g: 24xlarge 48xlarge metal-24xl
    metal-48xl; r8gb: 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl; r8gd: 24xlarge 48xlarge metal-24xl
    metal-48xl; r8gn: 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl; r8i: 48xlarge 96xlarge metal-48xl
    metal-96xl; r8ib: 48xlarge 96xlarge metal-48xl metal-96xl; r8id: 48xlarge 96xlarge metal-48xl metal-96xl; r8idb:
    48xlarge 96xlarge metal-48xl metal-96xl; r8idn: 48xlarge 96xlarge metal-48xl metal-96xl; r8in: 48xlarge 96xlarge
    metal-48xl metal-96xl; trn1: 32xlarge; trn1n: 32xlarge; trn2: 3xlarge 48xlarge; trn2-ac: 24xlarge; trn2u:
    48xlarge; trn2u-ac: 24xlarge; u7i-12tb: 224xlarge; u7i-6tb: 112xlarge; u7i-8tb: 112xlarge; u7in-16tb: 224xlarge;
    u7in-24tb: 224xlarge; u7in-32tb: 224xlarge; vt1: 24xlarge; x2idn: 32xlarge metal; x2iedn: 32xlarge metal;
    x2iezn: 12xlarge metal; x8aedz: 24xlarge metal-24xl; x8g: 24xlarge 48xlarge metal-24xl metal-48xl; x8i: 48xlarge
    64xlarge 96xlarge metal-48xl metal-96xl
    """
)
# Chart aws-dranet 1.0.0: https://github.com/aws/eks-charts (2026-08-03)
DRANET = _without(
    EFA_DEVICE_PLUGIN, "c8ib c8in c9g c9gd g7 m8ib m8idb m8idn m8in m9g m9gd r8ib r8idb r8idn r8in"
) + _types(
    "dl1: 24xlarge; trn3: 48xlarge; trn3-dev0: 48xlarge; trn3-dev1: 48xlarge; trn3p: 48xlarge; trn3pd98: 48xlarge; "
    "trn3s: 48xlarge"
)
# The types with NVIDIA GPUs that eksctl's copy of the plugin selects: eksctl-io/eksctl 99984adb6
# pkg/addons/assets/efa-device-plugin.yaml (2026-08-21)
EKSCTL_EFA_DEVICE_PLUGIN = _types(
    """
    g4dn: 12xlarge 16xlarge 8xlarge metal; g5: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; g6: 12xlarge 16xlarge
    24xlarge 48xlarge 8xlarge; g6e: 12xlarge 16xlarge 24xlarge 48xlarge 8xlarge; gr6: 8xlarge; p3dn: 24xlarge; p4d:
    24xlarge; p4de: 24xlarge; p5: 48xlarge; p5e: 48xlarge; p5en: 48xlarge
    """
)
# Chart eks-node-monitoring-agent v1.7.0: https://github.com/aws/eks-node-monitoring-agent (2026-08-04)
DCGM_SERVER = _types(
    """
    g3: 16xlarge 4xlarge 8xlarge; g3s: xlarge; g4dn: 12xlarge 16xlarge 2xlarge 4xlarge 8xlarge metal xlarge; g5:
    12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge; g5g: 16xlarge 2xlarge 4xlarge 8xlarge metal
    xlarge; g6: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge; g6e: 12xlarge 16xlarge 24xlarge
    2xlarge 48xlarge 4xlarge 8xlarge xlarge; g6f: 2xlarge 4xlarge large xlarge; g7: 12xlarge 24xlarge 2xlarge
    48xlarge 4xlarge 8xlarge; g7e: 12xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge; gr6: 4xlarge 8xlarge; gr6f:
    4xlarge; p2: 16xlarge 8xlarge xlarge; p3: 16xlarge 2xlarge 8xlarge; p3dn: 24xlarge; p4d: 24xlarge; p4de:
    24xlarge; p5: 48xlarge 4xlarge; p5e: 48xlarge; p5en: 48xlarge; p6-b200: 48xlarge; p6-b300: 48xlarge; p6e-gb200:
    36xlarge; p6e-gb300: 36xlarge
    """
)
DCGM_SERVER_1_6_6 = _without(DCGM_SERVER, "g7")
DCGM_SERVER_1_6_1 = _without(DCGM_SERVER, "g7 g7e")
# Chart amazon-cloudwatch-observability 6.4.0: https://github.com/aws-observability/helm-charts (2026-08-07)
_CLOUDWATCH_DCGM = _types(
    """
    g3: 16xlarge 4xlarge 8xlarge; g3s: xlarge; g4ad: 16xlarge 2xlarge 4xlarge 8xlarge xlarge; g4dn: 12xlarge
    16xlarge 2xlarge 4xlarge 8xlarge metal xlarge; g5: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge
    xlarge; g5g: 16xlarge 2xlarge 4xlarge 8xlarge metal xlarge; g6: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge
    4xlarge 8xlarge xlarge; g6e: 12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge; gr6: 4xlarge
    8xlarge; p2: 16xlarge 8xlarge xlarge; p3: 16xlarge 2xlarge 8xlarge; p3dn: 24xlarge; p4d: 24xlarge; p4de:
    24xlarge; p5: 48xlarge; p5e: 48xlarge; p5en: 48xlarge; p6-b200: 48xlarge; p6-b300: 48xlarge; p6e-gb200: 36xlarge
    """
)
CLOUDWATCH_DCGM = _CLOUDWATCH_DCGM + tuple(f"ml.{each}" for each in _without(_CLOUDWATCH_DCGM, "p6-b300"))
CLOUDWATCH_NEURON = _types(
    """
    inf1: 24xlarge 2xlarge 6xlarge xlarge; inf2: 24xlarge 48xlarge 8xlarge xlarge; ml: inf1.24xlarge inf1.2xlarge
    inf1.6xlarge inf1.xlarge inf2.24xlarge inf2.48xlarge inf2.8xlarge inf2.xlarge trn1.2xlarge trn1.32xlarge
    trn1n.32xlarge; trn1: 2xlarge 32xlarge; trn1n: 32xlarge; trn2: 3xlarge 48xlarge; trn2a: 48xlarge; trn2n:
    48xlarge; trn2u: 48xlarge
    """
)
