"""Values with random arguments."""

from __future__ import annotations

import importlib
import inspect
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_constructs import (
    CapacityBlock,
    Disk,
    GpuPod,
    Mig,
    Mps,
    NodeShape,
    Reservation,
    Spot,
    Static,
    SystemNodes,
    Taint,
    TimeSlicing,
    UpTo,
)
from gpu_constructs.cluster import AutoMode
from gpu_constructs.exposure import Internal, Public
from gpu_constructs.metrics import ManagedPrometheus
from gpu_constructs.nodes import Bootstrap, NodeUpdate
from gpu_constructs.pod_scaling import CpuUtilization, Demand, GpuMemory, GpuUtilization, SmActivity, SqsQueue
from gpu_constructs.pools import (
    BottlerocketSettings,
    Budget,
    CustomImage,
    Disruption,
    GpuClaim,
    Host,
    Kubelet,
    NodeConfig,
    NodeRepair,
    Proxy,
    RepairOverride,
    ScalingOptions,
    ShellScript,
)
from gpu_constructs.queueing import TeamQueue
from gpu_constructs.storage import Gp3, PersistentLustre, S3Mount, ScratchLustre
from gpu_constructs.teams import TeamQuota
from gpu_constructs.workloads import (
    ConfigMapEnv,
    ConfigMapKey,
    ConfigMapMount,
    CopiedModel,
    HubModel,
    ImageModel,
    ImageMount,
    InitContainer,
    KaiQueue,
    MountedModel,
    ScratchMount,
    SecretEnv,
    SecretKey,
    SecretMount,
    StreamedModel,
    VolumeClaimMount,
)
from tests.fuzz.hostile import HOSTILE, made_or_refused
from tests.long import count
from tests.test_named_arguments import FOLDERS

# The only call on a bucket before it is granted.
BUCKET = SimpleNamespace(bucket_name="weights", bucket_arn="arn:aws:s3:::weights")
# Valid arguments that each needs.
GOOD: dict[type[Any], dict[str, Any]] = {
    AutoMode: {},
    Bootstrap: {},
    BottlerocketSettings: {"settings": {"motd": "hello"}},
    Budget: {"nodes": "10%"},
    CapacityBlock: {
        "id": "cr-0123456789abcdef0",
        "availability_zone": "us-east-1a",
        "starts": datetime(2027, 1, 11, 11, 30, tzinfo=timezone.utc),
        "ends": datetime(2027, 1, 18, 11, 30, tzinfo=timezone.utc),
        "instances": 4,
    },
    ConfigMapEnv: {"config_map": "chat"},
    ConfigMapKey: {"config_map": "chat", "key": "mode"},
    ConfigMapMount: {"path": "/etc/chat", "config_map": "chat"},
    CopiedModel: {"bucket": BUCKET, "size_gib": 15},
    CpuUtilization: {},
    CustomImage: {"id": "ami-0123456789abcdef0", "driver_branch": 580},
    Demand: {"query": "sum(vllm:num_requests_waiting)", "per_pod": 4},
    Disk: {},
    Disruption: {"consolidation": "WhenEmpty"},
    Gp3: {},
    GpuClaim: {},
    GpuMemory: {},
    GpuPod: {"image": "example.com/app:1"},
    GpuUtilization: {},
    Host: {},
    HubModel: {"repo": "example/llama", "revision": "0" * 40, "size_gib": 15},
    ImageModel: {"image": "example.com/llama@sha256:" + "a" * 64},
    ImageMount: {"path": "/models", "image": "example.com/llama@sha256:" + "a" * 64},
    InitContainer: {"name": "load", "image": "example.com/load:1"},
    KaiQueue: {"name": "team"},
    Internal: {},
    Kubelet: {},
    ManagedPrometheus: {
        "url": "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-0123456789",
        "region": "us-east-1",
    },
    MountedModel: {"bucket": BUCKET},
    Mig: {"geometry": {"1g.10gb": 7}},
    Mps: {"replicas": 4},
    NodeConfig: {"spec": {"kubelet": {"flags": ["--v=2"]}}},
    NodeRepair: {},
    NodeShape: {"instance_types": ("g6.xlarge",)},
    NodeUpdate: {},
    PersistentLustre: {},
    Proxy: {"url": "http://proxy.example.com:3128"},
    Public: {"allow": ("203.0.113.0/24",), "plain_http": True},
    RepairOverride: {
        "condition": "AcceleratedHardwareReady",
        "reason": "NvidiaXID13Error",
        "wait_minutes": 10,
        "action": "Reboot",
    },
    Reservation: {"availability_zone": "us-east-1a", "id": "cr-0123456789abcdef0"},
    ShellScript: {"text": "#!/bin/bash\ntrue\n"},
    SmActivity: {},
    S3Mount: {},
    ScalingOptions: {"unneeded_minutes": 5},
    ScratchMount: {"path": "/scratch", "size_gib": 100},
    ScratchLustre: {},
    SecretEnv: {"secret": "hf"},
    SecretKey: {"secret": "hf", "key": "token"},
    SecretMount: {"path": "/etc/hf", "secret": "hf"},
    Spot: {},
    SqsQueue: {"url": "https://sqs.us-east-1.amazonaws.com/111122223333/queue", "region": "us-east-1", "per_pod": 4},
    Static: {"nodes": 2},
    StreamedModel: {"bucket": BUCKET},
    SystemNodes: {},
    Taint: {"key": "team", "value": "a"},
    TeamQueue: {"name": "team", "namespace": "team", "nodes": {"l4": 2}},
    TeamQuota: {"gpus": 16},
    TimeSlicing: {"replicas": 4},
    UpTo: {"gpus": 8},
    VolumeClaimMount: {"path": "/data", "claim": "data"},
}


def arguments(cls: type[Any]) -> list[str]:
    """The arguments of a value."""
    return [each for each in inspect.signature(cls).parameters if each not in ("self", "args", "kwargs")]


def test_every_public_value_is_tried() -> None:
    modules = [importlib.import_module(f"gpu_constructs.{folder}") for folder in FOLDERS]
    values = {
        each
        for module in modules
        for each in (getattr(module, name) for name in module.__all__)
        if inspect.isclass(each) and hasattr(each, "__dataclass_fields__") and arguments(each)
    }

    assert {each.__name__ for each in values - set(GOOD)} == set()


@pytest.mark.parametrize("cls", GOOD, ids=lambda each: each.__name__)
@settings(max_examples=count(20, 2000))
@given(data=st.data())
def test_a_value_is_made_or_refused_in_words(cls: type[Any], data: st.DataObject) -> None:
    assert cls(**GOOD[cls])
    wrong = data.draw(st.lists(st.sampled_from(arguments(cls)), min_size=1, max_size=3, unique=True))
    given_to_it = GOOD[cls] | {argument: data.draw(HOSTILE) for argument in wrong}

    made_or_refused(lambda: cls(**given_to_it))
