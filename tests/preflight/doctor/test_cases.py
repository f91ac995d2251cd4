"""Each dump with a known cause gets the right answer, and none of its look-alikes."""

from __future__ import annotations

import pytest

from tests.preflight.doctor.cases import KINDS, DoctorCase, cases


@pytest.mark.parametrize("case", [each for each in cases() if "unseen" not in each.name], ids=lambda each: each.name)
def test_the_cause_is_found_first_and_no_look_alike_is_named(case: DoctorCase) -> None:
    assert case.faults() == [], case.why


def test_dumps_by_authors_who_had_not_read_the_causes_are_mostly_right() -> None:
    """The message doesn't name failing dumps, so that no cause is changed for one of them."""
    unseen = [each for each in cases() if each.name.startswith("unseen")]
    first = [each for each in unseen if not any(fault.startswith("first") for fault in each.faults())]
    assert len(unseen) >= 52
    assert len(first) / len(unseen) >= 0.9


@pytest.mark.parametrize("case", [each for each in cases() if "unseen" in each.name], ids=lambda each: each.name)
def test_no_look_alike_is_proven(case: DoctorCase) -> None:
    assert case.wrongly_proven() == [], case.why


def report() -> None:
    """Print the score of each kind of case: ``python -m tests.preflight.doctor.test_cases``."""
    for kind in KINDS:
        found = [(each, each.faults()) for each in cases() if each.name.startswith(kind)]
        for each, faults in found:
            if faults:
                print(f"{each.name}: {'; '.join(faults)}")
        first = sum(not any(one.startswith("first") for one in faults) for _, faults in found)
        print(f"{kind}: first {first} of {len(found)}, without any fault {sum(not faults for _, faults in found)}")


if __name__ == "__main__":
    report()
