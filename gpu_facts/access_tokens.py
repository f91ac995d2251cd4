"""Formats of access tokens, to find tokens in the wrong place."""

from __future__ import annotations

import re
from typing import Final

from gpu_facts.light import regex

# The kind of a dynamic reference of CloudFormation.
DYNAMIC_REFERENCE: Final = "a secret that CloudFormation resolves to plain text"
# Formats that can't be anything else: a prefix that the issuer reserves for tokens, and a length.
# Sources: gitleaks/gitleaks b58d3f1 config/gitleaks.toml (2026-07-22); for NVIDIA's mongodb/kingfisher f2a45c9
# crates/kingfisher-rules/data/rules/nvidia.yml (2026-11);
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html (2026-11)
# Before each: a text that contains none of these parts can't have the format, and the expression isn't compiled.
_LOOKS: Final = {
    "a token of Hugging Face": (("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    "an access key of AWS": (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    "a token of GitHub": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]_[0-9A-Za-z]{36}|github_pat_\w{50,})",
    ),
    "a token of GitLab": (("glpat-",), r"\bglpat-[\w-]{20,}"),
    "a key of Anthropic": (("sk-ant-",), r"\bsk-ant-[\w-]{20,}"),
    "a key of OpenAI": (("sk-",), r"\bsk-(?:(?:proj|svcacct|admin)-[\w-]{40,}|[A-Za-z0-9]{40,})"),
    "a key of NVIDIA": (("nvapi-",), r"\bnvapi-[\w-]{40,}"),
    "a token of Slack": (("xox",), r"\bxox[abeprs]-\d{10,}-[\w-]{10,}"),
    "a key of Weights & Biases": (("wandb_v1_",), r"\bwandb_v1_\w{40,}"),
    "a private key": (("PRIVATE KEY",), r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"),
    # CloudFormation writes the secret itself into its API requests.
    # Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references-secretsmanager.html
    DYNAMIC_REFERENCE: (
        ("{{resolve:",),
        r"\{\{resolve:(?:secretsmanager|ssm-secure):",
    ),
}
_PATTERNS: Final = {kind: (parts, regex(look, re.ASCII)) for kind, (parts, look) in _LOOKS.items()}
# Values that only the name of their variable distinguishes from a hash.
# Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html,
# https://github.com/wandb/wandb/blob/main/wandb/sdk/lib/apikey.py (2026-11)
_NAMED: Final = {
    "AWS_SECRET_ACCESS_KEY": ("a secret access key of AWS", regex(r"[A-Za-z0-9/+]{40}")),
    "WANDB_API_KEY": ("a key of Weights & Biases", regex(r"[0-9a-f]{40}")),
}


def access_token_kind(text: str, *, variable: str = "") -> str | None:
    """Return the kind of access token in a text, without the token itself, or ``None`` if there is none.

    Args:
        text: The text.
        variable: Name of the variable whose value it is.
    """
    kind, look = _NAMED.get(variable, ("", None))
    if look is not None and look.fullmatch(text):
        return kind
    for kind, (parts, pattern) in _PATTERNS.items():
        if any(part in text for part in parts) and pattern.search(text):
            return kind
    return None
