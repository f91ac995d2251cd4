"""Print how many of the expectations hold: ``python -m tests.preflight.expectations.score``."""

from __future__ import annotations

import os
from collections import defaultdict

from tests.preflight.expectations.expectations import find_differences, read_cases

DAY = "1795219200"


def main() -> None:
    """Print each case that differs, and the score by group."""
    # The day of all tests (tests/conftest.py).
    os.environ.setdefault("SOURCE_DATE_EPOCH", DAY)
    right: dict[str, list[bool]] = defaultdict(list)
    for case in read_cases():
        differences = find_differences(case)
        right[case.group].append(not differences)
        if differences:
            print(f"{case.name}\n  " + "\n  ".join(differences))
    for group, results in right.items():
        print(f"{group:12} {sum(results):3} of {len(results):3}")
    print(f"{'all':12} {sum(map(sum, right.values())):3} of {sum(map(len, right.values())):3}")


if __name__ == "__main__":
    main()
