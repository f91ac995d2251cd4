"""A workspace of Amazon Managed Service for Prometheus."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_constructs.named_arguments import named_arguments
from gpu_constructs.refusals import is_token

_URL = re.compile(r"https://aps-workspaces\.[\w-]+\.amazonaws\.com/workspaces/ws-[\w-]+/?")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedPrometheus:
    """Where KEDA measures signals, which must be allowed to: ``Keda(prometheus_workspace_arns=[...])``.

    Source: https://keda.sh/docs/2.20/scalers/prometheus/

    Attributes:
        url: Endpoint of the workspace, ``https://aps-workspaces.<region>.amazonaws.com/workspaces/ws-...``.
        region: Its region.

    Raises:
        ValueError: ``url`` is no endpoint of a workspace, or ``region`` no region.
    """

    url: str
    region: str

    def __post_init__(self) -> None:
        for argument, value, pattern, example in (
            ("url", self.url, _URL, "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-..."),
            ("region", self.region, _REGION, "us-east-1"),
        ):
            if not isinstance(value, str) or not (is_token(value) or pattern.fullmatch(value)):
                raise ValueError(f"managed prometheus: {argument} must be one such as '{example}', got {value!r}")
