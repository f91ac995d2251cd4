"""Variables come from Secrets and ConfigMaps by name; a secret itself never gets into a template."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs import GpuPod
from gpu_constructs.workloads import ConfigMapEnv, ConfigMapKey, InitContainer, SecretEnv, SecretKey
from gpu_constructs.workloads.init_container import EnvValue, env_manifest

IMAGE = "registry.example.com/train:1"
TOKEN = "hf_" + "aB" * 17


def test_variables_keep_their_order_and_name_their_source() -> None:
    env: dict[str, EnvValue] = {
        "HF_TOKEN": SecretKey(secret="hf", key="token"),
        "MODE": ConfigMapKey(config_map="chat", key="mode"),
        "URL": "http://$(MODE)",
    }

    assert env_manifest(env) == [
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"key": "token", "name": "hf"}}},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"key": "mode", "name": "chat"}}},
        {"name": "URL", "value": "http://$(MODE)"},
    ]


def test_all_keys_come_with_a_prefix_or_without() -> None:
    assert SecretEnv(secret="hf", prefix="HF_").to_manifest() == {"prefix": "HF_", "secretRef": {"name": "hf"}}
    assert ConfigMapEnv(config_map="chat").to_manifest() == {"configMapRef": {"name": "chat"}}


@pytest.mark.parametrize("holder", [GpuPod, partial(InitContainer, name="load")])
def test_refuses_a_token_with_the_way_out_and_does_not_repeat_it(holder: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"'HF_TOKEN': SecretKey\(secret=.*\[GPU413\]$") as refused:
        holder(image=IMAGE, env={"HF_TOKEN": TOKEN})

    assert "a token of Hugging Face in 'HF_TOKEN'" in str(refused.value)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("argument", ["command", "args"])
@pytest.mark.parametrize("holder", [GpuPod, partial(InitContainer, name="load")])
def test_refuses_a_token_in_a_command_and_does_not_repeat_it(holder: Callable[..., object], argument: str) -> None:
    says = {argument: ["serve", f"--token={TOKEN}"]}

    with pytest.raises(
        ValueError, match=rf": {argument} must contain no secret .* got a token of .*\[GPU413\]$"
    ) as refused:
        holder(image=IMAGE, **says)
    assert TOKEN not in str(refused.value)


def test_takes_the_name_of_a_variable_in_a_command() -> None:
    env = {"HF_TOKEN": SecretKey(secret="hf", key="token")}

    assert GpuPod(image=IMAGE, args=["--token=$(HF_TOKEN)"], env=env).args


def test_a_wrong_value_is_not_repeated_either() -> None:
    with pytest.raises(TypeError, match="got a bytes for 'HF_TOKEN'; put it into a Secret") as refused:
        GpuPod(image=IMAGE, env={"HF_TOKEN": TOKEN.encode()})  # type: ignore[dict-item]

    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"PORT": 8000}, "got an int for 'PORT'; write it as a string"),
        ({"EAGER": True}, "got a bool for 'EAGER'; write it as a string"),
        ({"MODE": None}, "got a NoneType for 'MODE'; leave it out, or write ''"),
        ({"T": cdk.SecretValue.secrets_manager("hf")}, "got a SecretValue for 'T'; put it into a Secret of the clus"),
        ({"T": {"secretKeyRef": {}}}, "got a dict for 'T'; write {'T': SecretKey\\(secret=..., key=...\\)}, or a Conf"),
        ([{"name": "A", "value": "1"}], "got a list; write {'NAME': 'value'}"),
        ({1: "a"}, "env must have names that are strings, got 1"),
    ],
)
def test_what_is_no_variable_is_refused_with_the_fix(env: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^gpu pod: .*{message}"):
        GpuPod(image=IMAGE, env=env)


@pytest.mark.parametrize(
    ("kind", "says", "error", "message"),
    [
        (SecretKey, {"secret": "HF", "key": "token"}, ValueError, "secret key: secret must be 1 to 253 lower-case"),
        (SecretKey, {"secret": "hf", "key": "my token"}, ValueError, "secret key: key must be 1 to 253 letters"),
        (SecretKey, {"secret": "hf", "key": "..token"}, ValueError, r"not beginning with '\.\.', got '\.\.token'"),
        (SecretKey, {"secret": "hf", "key": "."}, ValueError, r"key must be 1 to 253 letters.*got '\.'"),
        (SecretKey, {"secret": "hf", "key": "a" * 254}, ValueError, "key must be 1 to 253 letters"),
        (SecretKey, {"secret": "hf", "key": 1}, TypeError, "key must be a string, got 1"),
        (ConfigMapKey, {"config_map": "a_b", "key": "a"}, ValueError, "config map key: config_map must be"),
        (ConfigMapKey, {"config_map": "a", "key": "a b"}, ValueError, "config map key: key must be 1 to 253 letters"),
        (SecretEnv, {"secret": 1}, TypeError, "secret env: secret must be a string, got 1"),
        (SecretEnv, {"secret": "hf", "prefix": "A="}, ValueError, "prefix must be of ASCII letters and signs"),
        (ConfigMapEnv, {"config_map": "a", "prefix": None}, TypeError, "prefix must be a string, got None"),
        (GpuPod, {"image": IMAGE, "env": {"A=B": "1"}}, ValueError, "env must have names of ASCII letters"),
        (GpuPod, {"image": IMAGE, "env": ["A"]}, TypeError, "env must map names to strings.*got a list"),
        (GpuPod, {"image": IMAGE, "env_from": ["hf"]}, TypeError, "env_from must be a list of SecretEnv or Config"),
        (GpuPod, {"image": IMAGE, "env_from": SecretEnv(secret="hf")}, TypeError, "env_from must be a list of"),
        (GpuPod, {"image": IMAGE, "image_pull_secrets": "ngc"}, TypeError, r"write \['ngc'\]"),
        (GpuPod, {"image": IMAGE, "image_pull_secrets": ["NGC"]}, ValueError, "image_pull_secrets must be 1 to 253"),
    ],
)
def test_refuses_an_environment(kind: Any, says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kind(**says)


@pytest.mark.parametrize("key", ["a", ".hidden", "a..b", "A_b-c.d", "a" * 253])
def test_takes_any_key_that_kubernetes_takes(key: str) -> None:
    assert SecretKey(secret="hf", key=key).key == key
