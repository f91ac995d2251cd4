"""A workspace of Amazon Managed Service for Prometheus."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_facts.hardware.regions import refuse_unless_region
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token

_URL = re.compile(r"https://aps-workspaces\.[\w-]+\.amazonaws\.com/workspaces/ws-[\w-]+/?", re.ASCII)


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
        if not isinstance(self.url, str) or not (is_token(self.url) or _URL.fullmatch(self.url)):
            raise ValueError(
                "managed prometheus: url must be one such as "
                f"'https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-...', got {self.url!r}"
            )
        refuse_unless_region("managed prometheus", "region", self.region)
