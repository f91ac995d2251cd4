"""How pytest-xdist shares out the tests: the longest first, a file to a process.

A file's tests share what is slow to make, which each process would make again. Where they share nothing, or share it
through `once`, each test goes to the next free process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

APART = (
    "tests/test_matrix.py",
    "tests/test_app.py",
    "tests/test_examples.py",
)
TOGETHER = (
    "tests/stacks/test_reference_stacks.py",
    "tests/stacks/test_gpu_cluster_stack.py",
    "tests/preflight/test_rules.py",
    "tests/preflight/scheduling/test_properties.py",
    "tests/preflight/hostile/test_fuzz.py",
    "tests/constructs/cluster/test_kinds_of_clusters.py",
    "tests/preflight/hostile/test_intrinsics.py",
    "tests/preflight/command_line/test_mcp.py",
    "tests/preflight/command_line/test_cli.py",
    "tests/preflight/reading/test_program_limits.py",
    "tests/preflight/judging/test_stops.py",
    "tests/preflight/hostile/test_patterns.py",
    "tests/second_deployments/test_pairs.py",
    "tests/second_deployments/test_identities.py",
    "tests/constructs/cluster/test_gpu_cluster.py",
    "tests/constructs/storage/test_driver_permissions.py",
    "tests/constructs/teams/test_teams.py",
    "tests/fuzz/test_constructs.py",
    "tests/rehearsal/test_pools.py",
    "tests/rehearsal/faults/test_both_networks.py",
    "tests/rehearsal/cloudformation/test_stack_is_updated.py",
    "tests/tools/test_planted.py",
    "tests/mutations/test_operators.py",
    "tests/test_editor.py",
    "tests/test_github_action.py",
    "tests/test_adoption_page.py",
    "tests/test_readme.py",
)
LONGEST = (*APART, *TOGETHER)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of the files that take longest before all others."""
    items.sort(key=lambda item: LONGEST.index(file) if (file := _file(item.nodeid)) in LONGEST else len(LONGEST))


def import_in_turn(args: list[str], root: Path) -> None:
    """Import the tests' modules, each process of pytest-xdist from another one on.

    In a new checkout nothing is compiled. Processes that import in the same order would all compile every module, and
    Hypothesis would search every module for constants in each of them. Collection repeats an import that fails.
    """
    folders = [root / each for each in args if (root / each).is_dir()]
    files = sorted({file for each in folders for file in each.rglob("test_*.py")})
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    start = len(files) * number // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[start:] + files[:start]:
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file to a process, apart from those whose tests go one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if _file(nodeid) in APART else _file(nodeid)


def send_results_only(config: pytest.Config) -> None:
    """Let a process of pytest-xdist report each test once, and not also that it starts, is set up and torn down.

    A message takes half a millisecond in each of two processes. ``--durations`` and ``--verbose`` need them all.
    """
    if config.option.durations or config.option.verbose > 0:
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = _results_only(plugin.sendevent)


def _results_only(send: Any) -> Any:
    def filtered(name: str, **more: Any) -> None:
        if name == "testreport":
            data = more["data"]
            if data["when"] != "call" and data["outcome"] == "passed":
                return
        if name != "logstart":
            send(name, **more)

    return filtered
