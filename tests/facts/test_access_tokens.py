"""Access tokens are known by how they look, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from gpu_facts.access_tokens import access_token_kind

# Written in parts, so that no scanner takes the tests for a leak.
LETTERS = "aB3dE5gH" * 12


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hf_" + "aB" * 17, "a token of Hugging Face"),
        ("AKIA" + "ABCDEFGH2345672Z", "an access key of AWS"),
        ("ASIA" + "ABCDEFGH2345672Z", "an access key of AWS"),
        ("ghp_" + LETTERS[:36], "a token of GitHub"),
        ("github_pat_" + LETTERS[:82], "a token of GitHub"),
        ("glpat-" + LETTERS[:20], "a token of GitLab"),
        ("sk-ant-" + "api03-" + LETTERS[:93], "a key of Anthropic"),
        ("sk-" + LETTERS[:48], "a key of OpenAI"),
        ("sk-proj-" + LETTERS[:80], "a key of OpenAI"),
        ("nvapi-" + LETTERS[:64], "a key of NVIDIA"),
        ("xoxb-" + "1234567890-1234567890abc", "a token of Slack"),
        ("wandb_v1_" + LETTERS[:77], "a key of Weights & Biases"),
        ("-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE", "a private key"),
        ("-----BEGIN " + "PRIVATE KEY-----", "a private key"),
        ("{{resolve:secretsmanager:hf:SecretString:token}}", "a secret that CloudFormation resolves to plain text"),
        ("https://user:ghp_" + LETTERS[:36] + "@github.com", "a token of GitHub"),
        ("--token=hf_" + "aB" * 17, "a token of Hugging Face"),
    ],
)
def test_a_token_is_known(text: str, kind: str) -> None:
    assert access_token_kind(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hf_transfer",
        "hf_hub_download",
        "/root/.cache/hf_models",
        "AKIA",
        "ghp_",
        "sk-learn",
        "task-" + LETTERS,
        "nvapi-key",
        "$(HF_TOKEN)",
        "<your token>",
        "${Token[TOKEN.12]}",
        "-----BEGIN CERTIFICATE-----",
        "{{resolve:ssm:/app/size}}",
        LETTERS,
    ],
)
def test_other_text_is_none(text: str) -> None:
    assert access_token_kind(text) is None


@pytest.mark.parametrize(
    ("variable", "text", "kind"),
    [
        ("AWS_SECRET_ACCESS_KEY", LETTERS[:38] + "/+", "a secret access key of AWS"),
        ("WANDB_API_KEY", "0123456789abcdef" * 2 + "01234567", "a key of Weights & Biases"),
    ],
)
def test_some_tokens_are_known_by_their_variable_alone(variable: str, text: str, kind: str) -> None:
    assert access_token_kind(text, variable=variable) == kind
    assert access_token_kind(text, variable="COMMIT") is None
    assert access_token_kind(text[:-1], variable=variable) is None
    assert access_token_kind(f"{text}a", variable=variable) is None
