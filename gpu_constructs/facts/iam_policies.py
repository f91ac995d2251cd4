"""How large IAM policies may be.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html#reference_iam-quotas-entity-length
(2026-11)
"""

from __future__ import annotations

import re
from typing import Final

from gpu_constructs.light_patterns import regex

# Characters without white space, of all inline policies of a role together, and of one managed policy.
MAX_INLINE: Final = 10_240
MAX_MANAGED: Final = 6_144
# Managed policies of one role, unless AWS raises the quota of the account.
MAX_ATTACHED: Final = 10
_OPEN = regex(r"\$\{[^{}]*\}")


def policy_size(text: str, *, open_characters: int = 0) -> int:
    """Return the characters of a policy without white space, each value that only deployment sets as so many."""
    return len(re.sub(r"\s", "", _OPEN.sub("x" * open_characters, text)))
