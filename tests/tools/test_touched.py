"""The tests that a change touches."""

from __future__ import annotations

import grimp
import pytest

from tools.touched import PACKAGES, selected_tests


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def test_a_module_is_tested_by_what_imports_it(graph: grimp.ImportGraph) -> None:
    tests, rules = selected_tests(["gpu_facts/quantities.py", "README.md"], graph)

    assert "tests/preflight/node/test_node_size.py" in tests
    assert rules == []


def test_a_module_of_rules_and_a_fixture_are_tested_by_their_cases(graph: grimp.ImportGraph) -> None:
    changed = ["gpu_preflight/rules/capacity.py", "tests/preflight/rules/GPU361/cases.yaml"]

    _, rules = selected_tests(changed, graph)

    assert "GPU361" in rules
    assert len(rules) > 5


def test_a_changed_test_runs_and_a_changed_helper_runs_its_users(graph: grimp.ImportGraph) -> None:
    tests, _ = selected_tests(["tests/facts/test_quantities.py", "tests/preflight/rule_cases.py"], graph)

    assert "tests/facts/test_quantities.py" in tests
    assert "tests/preflight/test_rules.py" in tests
    assert "tests/preflight/rule_cases.py" not in tests
