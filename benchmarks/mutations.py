"""What share of people's mistakes preflight finds: each is made in inputs that are right, and both are judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.mutations.measure import Mutant, mutants, operators

HEAD = f"{'family':22} {'operators':>9} {'mutants':>8} {'found':>6} {'share':>6}"


def main() -> None:
    """Print the table by family, and what is not found."""
    families: dict[str, list[Mutant]] = defaultdict(list)
    for each in mutants(operators()):
        families[each.operator.family].append(each)
    seen = {family: [each for each in made if each.operator.unseen is None] for family, made in families.items()}
    print(HEAD)
    for family, made in sorted(seen.items()):
        print(row(family, made))
    print(row("all", [each for made in seen.values() for each in made]))
    print("\nNot found:")
    for family, made in sorted(families.items()):
        for each in made:
            if not each.found:
                why = f"; cannot be seen before deployment: {each.operator.unseen}" if each.operator.unseen else ""
                print(f"  {family}: {each.operator.id} in {each.input.stem}: {each.operator.says}{why}")


def row(title: str, made: Iterable[Mutant]) -> str:
    """Return a line of the table."""
    listed = list(made)
    found = sum(bool(each.found) for each in listed)
    count = len({each.operator for each in listed})
    return f"{title:22} {count:9} {len(listed):8} {found:6} {found / len(listed):6.1%}"


if __name__ == "__main__":
    main()
