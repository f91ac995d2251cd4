"""The tests that belong to a change."""

from __future__ import annotations

import pytest

from tools.touched import selected_tests


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("gpu_facts/quantities.py", "tests/facts/test_quantities.py"),
        ("gpu_constructs/cluster/pool_kinds.py", "tests/constructs/cluster/test_add_pool.py"),
        ("gpu_constructs/nodes/managed_node_group.py", "tests/constructs/cluster/test_add_pool.py"),
        ("gpu_rehearsal/scenarios/deletion.py", "tests/rehearsal/test_destroy.py"),
        ("tools/touched.py", "tests/tools/test_touched.py"),
        ("tests/preflight/rule_cases.py", "tests/preflight/test_rules.py"),
        ("tests/facts/test_quantities.py", "tests/facts/test_quantities.py"),
        ("tests/preflight/known_causes.yaml", "tests/preflight/test_rule_coverage.py"),
    ],
)
def test_a_changed_file_selects_the_tests_that_import_it(changed: str, test: str) -> None:
    tests, rules = selected_tests([changed])

    assert test in tests
    assert rules == []


def test_a_module_of_rules_and_a_fixture_select_the_cases_of_their_rules() -> None:
    _, rules = selected_tests(["gpu_preflight/rules/capacity.py", "tests/preflight/rules/GPU361/cases.yaml"])

    assert {"GPU020", "GPU021", "GPU361"} <= set(rules)


@pytest.mark.parametrize(
    "changed",
    [
        "README.md",
        "tests/facts/test_that_is_deleted.py",
        "tests/preflight/rules/GPU999/fails_rule_that_is_retired.yaml",
        "tests/e2e/test_scheduler_agrees.py",
    ],
)
def test_what_make_test_does_not_collect_selects_nothing(changed: str) -> None:
    assert selected_tests([changed]) == ([], [])
