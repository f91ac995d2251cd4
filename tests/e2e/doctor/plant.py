"""Plant causes of pods that don't run on real programs, and write fixtures for `gpu-constructs doctor`.

``python -m tests.e2e.doctor.plant`` plants all causes of the scheduler and the controllers again, and writes them to
`tests/preflight/doctor/planted`; ``--karpenter`` plants Karpenter's causes instead. Names of causes limit it to these.
The real kube-apiserver, kube-scheduler, kube-controller-manager and Karpenter write every text. Nodes, the status of
running pods and devices are simulated, as `simulated_kubelet` in `case.toml` records.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from gpu_rehearsal.cluster.client import ApiError, Object
from gpu_rehearsal.cluster.control_plane import control_plane
from tests.e2e.doctor.admission_causes import ADMISSION_CAUSES
from tests.e2e.doctor.cause import Cause
from tests.e2e.doctor.dumps import write_dump
from tests.e2e.doctor.fleet import Fleet
from tests.e2e.doctor.karpenter_causes import KARPENTER_CAUSES
from tests.e2e.doctor.karpenter_world import KarpenterCause, karpenter_world
from tests.e2e.doctor.launch_causes import LAUNCH_CAUSES
from tests.e2e.doctor.pod_causes import POD_CAUSES
from tests.e2e.doctor.state_causes import STATE_CAUSES
from tests.e2e.doctor.volume_causes import VOLUME_CAUSES
from tests.e2e.doctor.world import World
from tools import build_e2e_tools, rehearse

PLANTED = Path(__file__).parents[2] / "preflight/doctor/planted"
CAUSES: Mapping[str, Cause] = {
    each.name: each for each in (*POD_CAUSES, *ADMISSION_CAUSES, *STATE_CAUSES, *VOLUME_CAUSES)
}
CAUSES_OF_KARPENTER: Mapping[str, KarpenterCause] = {each.name: each for each in (*KARPENTER_CAUSES, *LAUNCH_CAUSES)}
# EKS shows this Lease too. The retry period is the default.
_SCHEDULER: Object = {"leaderElection": {"leaderElect": True, "resourceName": "kube-scheduler"}}


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Run a control plane in which causes can be planted.

    Args:
        folder: Folder with etcd and the binaries of Kubernetes.
    """
    with control_plane(folder, scheduler=_SCHEDULER) as plane, Fleet(plane.client) as fleet:
        yield World(plane.client, fleet)


_Planted = TypeVar("_Planted", Cause, KarpenterCause)
_Accepted = TypeVar("_Accepted", bound=Cause | KarpenterCause, contravariant=True)


class _Place(Protocol[_Accepted]):
    """A cluster in which causes can be planted."""

    namespace: str

    def plant(self, cause: _Accepted) -> dict[str, list[Object]]:
        """Make a cause come true, and return a dump of that moment."""


def write_case(cause: Cause | KarpenterCause, dump: Mapping[str, list[Object]], namespace: str, folder: Path) -> None:
    """Write the folder of a planted cause."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_dump(folder, dump)
    (folder / "case.toml").write_text(render_case(cause, dump, namespace))
    for (prefix, container), text in (cause.logs if isinstance(cause, Cause) else {}).items():
        [name] = [each for each in _names(dump["pods"], namespace) if each.startswith(prefix)]
        (folder / f"{namespace}_{name}_{container}.log").write_text(text)


def render_case(cause: Cause | KarpenterCause, dump: Mapping[str, list[Object]], namespace: str) -> str:
    """Return the expectations about a dump, as TOML."""
    pod = _pod(cause, dump, namespace)
    fields: dict[str, object] = {"pod": pod} if pod else {}
    fields |= {"first": list(cause.first), "also": list(cause.also), "never": list(cause.never)}
    fields |= {
        "confidence": cause.confidence,
        "base": "planted" if isinstance(cause, Cause) else "planted-karpenter",
        "made": "planted",
    }
    fields |= {"simulated_kubelet": True, "sources": list(cause.sources), "why": cause.why}
    # JSON strings, lists of strings and booleans are TOML.
    return "".join(f"{key} = {json.dumps(each)}\n" for key, each in fields.items())


def _pod(cause: Cause | KarpenterCause, dump: Mapping[str, list[Object]], namespace: str) -> str:
    """Return the first pod with the prefix of the cause, a pending or failed one if there is one."""
    found = [each for each in dump["pods"] if each["metadata"]["namespace"] == namespace]
    matching = [each for each in found if cause.pod and each["metadata"]["name"].startswith(cause.pod)]
    if cause.pod and not matching:
        raise LookupError(f"{cause.name}: no pod {cause.pod}* in {namespace}, there are {_names(found, namespace)}")
    bad = [each for each in matching if each["status"]["phase"] != "Running"]
    name = (bad or matching)[0]["metadata"]["name"] if matching else cause.owner
    return f"{namespace}/{name}" if name else ""


def _names(pods: Iterable[Object], namespace: str) -> list[str]:
    return [str(each["metadata"]["name"]) for each in pods if each["metadata"]["namespace"] == namespace]


def main() -> None:
    """Plant the requested causes. Exit with 1 if one didn't come true."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causes", nargs="*", metavar="cause", help="names of causes; default: all")
    parser.add_argument("--karpenter", action="store_true", help="plant the causes of Karpenter")
    given = parser.parse_args()
    known = CAUSES_OF_KARPENTER if given.karpenter else CAUSES
    if unknown := sorted(set(given.causes) - set(known)):
        parser.error(f"no cause {', '.join(unknown)}; there are {', '.join(known)}")
    tools = build_e2e_tools.folder_of_tools()
    if tools is None:
        sys.exit(f"plant: {build_e2e_tools.MISSING}")
    if given.karpenter:
        with karpenter_world(rehearse.props()) as with_karpenter:
            failed = _plant(with_karpenter, CAUSES_OF_KARPENTER, given.causes)
    else:
        with world(tools) as made:
            failed = _plant(made, CAUSES, given.causes)
    sys.exit(f"plant: not planted: {', '.join(failed)}" if failed else 0)


def _plant(place: _Place[_Planted], causes: Mapping[str, _Planted], requested: Iterable[str]) -> list[str]:
    """Plant causes one after the other, and return the names of those that didn't come true."""
    failed = []
    for name in requested or causes:
        began = time.monotonic()
        try:
            dump = place.plant(causes[name])
            write_case(causes[name], dump, place.namespace, PLANTED / name)
        except (ApiError, TimeoutError, LookupError, ValueError, AssertionError) as error:
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    main()
