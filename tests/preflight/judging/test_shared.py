"""A file that names no cluster, next to several: a fault in only one of them is a possible fault."""

from __future__ import annotations

from pathlib import Path

from gpu_preflight.judging.check import Report, check
from gpu_preflight.reading.inputs import read_input
from tests.preflight.command_line.test_cli import Done

CLUSTERS = Path(__file__).parent / "two_clusters.yaml"
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.com/train:1", resources: {limits: {nvidia.com/gpu: COUNT}}}]
"""


def with_job(folder: Path, gpus: int) -> Report:
    file = folder / "job.yaml"
    file.write_text(JOB.replace("COUNT", str(gpus)))
    return check(read_input([str(CLUSTERS), str(file)]))


def answers(report: Report) -> dict[str, str]:
    return {case.cluster.name: each.answer.value for case in report.cases for each in report.explanation(case).verdicts}


def test_a_job_that_one_cluster_takes_is_not_pending_for_sure_in_the_other(tmp_path: Path) -> None:
    report = with_job(tmp_path, 1)

    assert answers(report) == {"with-gpus": "yes", "without": "unknown"}
    assert [each.problem.unknown for each in report.findings if each.rule.id == "GPU120"] == [True]
    assert not report.fails


def test_a_job_that_no_cluster_takes_is_pending_in_each(tmp_path: Path) -> None:
    report = with_job(tmp_path, 2)

    assert answers(report) == {"with-gpus": "no", "without": "no"}
    assert [each.problem.unknown for each in report.findings if each.rule.id == "GPU120"] == [False, False]


def test_only_the_named_cluster_is_reported(tmp_path: Path) -> None:
    with_job(tmp_path, 1)

    done = Done("explain", str(CLUSTERS), str(tmp_path / "job.yaml"), "--cluster", "without", "--format", "json")

    [cluster] = done.json["clusters"]
    assert [each["answer"] for each in cluster["workloads"]] == ["no"]
    assert done.code == 1


GROUP = "{name: gpu, instanceType: g6.xlarge, taints: [{key: a, effect: EFFECT}]}"
CONFIG = (
    "{apiVersion: eksctl.io/v1alpha5, kind: ClusterConfig, metadata: {name: NAME, region: us-east-1, version: '1.35'}, "
    f"managedNodeGroups: [{GROUP}]}}"
)


def test_what_eksctl_refuses_of_one_cluster_it_takes_of_another(tmp_path: Path) -> None:
    for name, effect in (("dev", "NO_SCHEDULE"), ("prod", "NoSchedule")):
        (tmp_path / f"{name}.yaml").write_text(CONFIG.replace("NAME", name).replace("EFFECT", effect))

    found = check(read_input([str(tmp_path)])).findings

    assert {each.cluster for each in found if each.rule.id == "GPU461"} == {"dev"}
