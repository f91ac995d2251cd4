"""An app that a construct refuses ends in one line with its own place; every other error is shown as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

HEAD = "import gpu_constructs\ngpu_constructs.plain_errors({packages})\n"
STACK = "import aws_cdk as cdk\napp = cdk.App(analytics_reporting=False)\nstack = cdk.Stack(app, 'Inference')\n"


def run(
    folder: Path, program: str, *, packages: str = "", debug: str = "", name: str = "app.py"
) -> subprocess.CompletedProcess[str]:
    """Run an app that has asked for plain errors."""
    (folder / name).write_text(HEAD.format(packages=packages) + program)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "GPU_CONSTRUCTS_DEBUG": debug}
    # Under pytest, which CDK knows by its variables, there is neither judgement nor report.
    for variable in ("CDK_VALIDATION", "PYTEST_CURRENT_TEST", "PYTEST_VERSION"):
        environment.pop(variable, None)
    return subprocess.run(
        [sys.executable, name], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard error without the frame that jsii draws about versions of Node."""
    return "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("b'!!"))


def test_a_construct_is_refused_in_one_line_of_the_app(tmp_path: Path) -> None:
    program = STACK + "from gpu_constructs import GpuCluster\nGpuCluster(stack, 'Gpu', cluster_name='-')\n"

    done = run(tmp_path, program)

    assert said(done).startswith("app.py:7: gpu-constructs: Inference/Gpu: cluster_name must be 1 to 100 letters")
    assert said(done).count("\n") == 1
    assert (done.returncode, done.stdout) == (1, "")


def test_a_wrong_argument_of_a_construct_is_one_line_too(tmp_path: Path) -> None:
    program = STACK + "from gpu_constructs import DevicePlugin\nDevicePlugin(stack, 'Plugin', clutser=1)\n"

    done = run(tmp_path, program)

    assert said(done).startswith("app.py:7: gpu-constructs: Inference/Plugin: argument must be one of cluster, ")
    assert said(done).endswith("got 'clutser'; did you mean 'cluster'?\n")


def test_the_line_is_that_of_the_innermost_file_of_the_app(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "disks.py").write_text(
        "import gpu_constructs as g\n\n\ndef small():\n    return g.Disk(size_gib=1)\n"
    )

    done = run(tmp_path, "from parts import disks\ndisks.small()\n")

    place = Path("parts", "disks.py")
    assert done.stderr == (
        f"{place}:5: gpu-constructs: disk: size_gib must be at least 20, got 1; write 100 for a few CUDA images\n"
    )


def test_packages_of_the_app_that_refuse_are_as_plain(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text("def refuse():\n    raise ValueError('team must be known')\n")

    done = run(tmp_path, "import ours\nours.refuse()\n", packages="'ours'")

    assert done.stderr == "app.py:4: gpu-constructs: team must be known\n"


@pytest.mark.parametrize(
    ("program", "last"),
    [
        ("raise ValueError('of the app')\n", "ValueError: of the app"),
        ("int('x')\n", "ValueError: invalid literal for int() with base 10: 'x'"),
        ("gpu_constructs.instance_tpye\n", "AttributeError: module 'gpu_constructs' has no attribute 'instance_tpye'"),
        ("import gpu_constructs.nowhere\n", "ModuleNotFoundError: No module named 'gpu_constructs.nowhere'"),
    ],
)
def test_other_errors_keep_their_trace(tmp_path: Path, program: str, last: str) -> None:
    done = run(tmp_path, program)

    lines = done.stderr.splitlines()
    assert (lines[0], lines[-1], done.returncode) == ("Traceback (most recent call last):", last, 1)


def test_an_error_of_a_library_that_ours_calls_keeps_its_trace(tmp_path: Path) -> None:
    """It is a bug of the library, and the trace says where."""
    done = run(tmp_path, "from gpu_constructs.stack_traces import plain_errors\nplain_errors(*map(int, 'x'))\n")

    assert done.stderr.startswith("Traceback")


def test_debugging_shows_the_trace(tmp_path: Path) -> None:
    done = run(tmp_path, "gpu_constructs.Disk(size_gib=1)\n", debug="1")

    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "refusals.py" in done.stderr


def test_a_hook_that_was_there_sees_what_is_not_ours_once(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.excepthook = lambda kind, error, trace: print('mine:', error)\n"
        "gpu_constructs.plain_errors()\ngpu_constructs.plain_errors()\nraise KeyError(3)\n"
    )

    done = run(tmp_path, program)

    assert (done.stdout, done.stderr) == ("mine: 3\n", "")


def test_a_file_elsewhere_is_named_by_its_whole_path(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "disks.py").write_text("import gpu_constructs as g\ng.Disk(size_gib=1)\n")

    done = run(other, f"import sys\nsys.path.append({str(tmp_path)!r})\nimport disks\n")

    assert done.stderr.startswith(f"{tmp_path / 'disks.py'}:2: gpu-constructs: disk: size_gib")


def test_after_the_report_of_cdk_nothing_is_printed(tmp_path: Path) -> None:
    program = STACK + (
        "from aws_cdk import aws_eks as eks\n"
        "eks.CfnNodegroup(stack, 'Group', cluster_name='a', node_role='arn:aws:iam::111122223333:role/a',\n"
        "    subnets=['subnet-0123456789abcdef0'], ami_type='AL2_x86_64', instance_types=['p5.48xlarge'])\n"
        "gpu_constructs.check_gpus(app)\napp.synth()\n"
    )

    done = run(tmp_path, program)

    assert "GPU001" in done.stderr
    assert "Traceback" not in done.stderr
    assert "ValidationFailed" not in done.stderr
    assert done.returncode == 1


AT_SYNTH = """\
import jsii
from constructs import IValidation

@jsii.implements(IValidation)
class Refusal:
    def __init__(self, *said):
        self.said = said

    def validate(self):
        return list(self.said)

def refuse(path, *said):
    cdk.CfnResource(stack, path, type="A::B::C").node.add_validation(Refusal(*said))
"""


def test_what_is_refused_at_synth_is_a_line_each_and_said_once(tmp_path: Path) -> None:
    """CDK prints it nowhere else."""
    program = (
        f"{STACK}{AT_SYNTH}"
        "refuse('A', 'Inference/A: port must be 80, got 81; say 80', 'of another')\n"
        "refuse('B', 'Inference: port must be one, got two; drop one', 'Inf: of another')\n"
        "refuse('C', 'Inference: port must be one, got two; drop one')\n"
        "app.synth()\n"
    )

    done = run(tmp_path, program)

    place = f"app.py:{(HEAD + program).count(chr(10))}: "
    assert said(done).splitlines() == [
        f"{place}gpu-constructs: Inference/A: port must be 80, got 81; say 80",
        f"{place}[Inference/A] of another",
        f"{place}gpu-constructs: Inference: port must be one, got two; drop one",
        f"{place}[Inference/B] Inf: of another",
    ]
    assert (done.returncode, done.stdout) == (1, "")


def test_a_missing_controller_is_said_without_trace(tmp_path: Path) -> None:
    program = STACK + (
        "from gpu_constructs import GpuCluster, GpuDeployment, GpuPod\n"
        "from gpu_constructs.exposure import Internal\n"
        "gpu = GpuCluster(stack, 'Gpu')\n"
        "pool = gpu.add_pool('l4', ['g6.xlarge'], max_nodes=2)\n"
        "GpuDeployment(stack, 'Serve', cluster=gpu, pool=pool, name='serve', port=80, replicas=2,\n"
        "    pod=GpuPod(image='example.com/a:1', gpus=1), expose=Internal())\n"
        "app.synth()\n"
    )

    done = run(tmp_path, program)

    (line,) = said(done).splitlines()
    assert line.startswith("app.py:12: gpu-constructs: Inference/Serve/LoadBalancer: cluster must have a LoadBalancer")
    assert done.returncode == 1


def test_an_error_of_the_cdk_itself_keeps_its_trace(tmp_path: Path) -> None:
    done = run(tmp_path, STACK + "cdk.Stack(app, 'Inference')\n")

    assert "Traceback (most recent call last):" in done.stderr
    assert "There is already a Construct with name 'Inference'" in done.stderr


def test_asking_for_it_loads_no_cdk() -> None:
    program = (
        "import sys, gpu_constructs as g; g.plain_errors(); "
        "assert not {'aws_cdk', 'jsii', 'constructs', 'cdk8s'} & sys.modules.keys(), sorted(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
