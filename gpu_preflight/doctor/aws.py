"""Reads the state of AWS that decides about new nodes of a cluster. Each call is a Describe, List or Get.

The program for credentials in the kubeconfig has the name of the cluster, the Region and the profile. If EKS
names another endpoint for that cluster, nothing else is read.

Source: https://docs.aws.amazon.com/cli/latest/reference/eks/get-token.html (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any

from gpu_facts.doctor_reads import CALLS, Call
from gpu_preflight.doctor.dump import AWS_ANSWERS, Dump, NotLooked
from gpu_preflight.reading.unknown import dig, items, mappings

# Fields that may hold secrets.
_HIDDEN = ("UserData",)


class Aws:
    """AWS's answers about one cluster.

    Args:
        program: The program for credentials in the kubeconfig, as ``aws eks update-kubeconfig`` writes it.
    """

    def __init__(self, program: Mapping[str, Any]) -> None:
        """Connect to nothing yet."""
        words = [str(each) for each in items(program.get("args"))]
        self._options = {key: value for key, value in pairwise(words) if key.startswith("--")}
        profile = next(
            (str(each.get("value")) for each in mappings(program.get("env")) if each.get("name") == "AWS_PROFILE"), ""
        )
        self._profile = self._options.get("--profile") or profile or None
        self.cluster = self._options.get("--cluster-name") or self._options.get("--cluster-id") or ""
        self.answers: dict[str, dict[str, Any]] = {}
        self.refused: list[NotLooked] = []
        self._clients: dict[str, Any] = {}
        self._unreachable: dict[str, str] = {}

    def collect(self, server: str) -> None:
        """Read everything that decides about new nodes.

        Args:
            server: URL of the API server, which must be the endpoint of the cluster.
        """
        if not self.cluster:
            why = "the context of the kubeconfig doesn't use 'aws eks get-token', so the cluster's name isn't known"
            self.refused.append(NotLooked("aws", why))
            return
        try:
            from botocore.session import Session

            self._session: Any = Session(profile=self._profile)
        except ImportError:
            self.refused.append(NotLooked("aws", "botocore isn't installed; install gpu-constructs[doctor]"))
            return
        first, *others = CALLS
        self._ask(first)
        if first.name not in (each.removeprefix("aws-") for each in self.answers):
            return
        endpoint = dig(self.answers["aws-cluster"], "cluster", "endpoint")
        if str(endpoint).rstrip("/") != server.rstrip("/"):
            why = f"cluster {self.cluster} of this account and Region has another endpoint than the context, {server}"
            self.refused.append(NotLooked("aws", why))
            self.answers.clear()
            return
        for call in others:
            for each in self._each(call):
                self._ask(call, each)

    def _each(self, call: Call) -> Iterator[str]:
        """Yield each value for which a call is made; one empty text for a single call."""
        if not call.each:
            yield ""
            return
        jmespath: Any = import_module("jmespath")
        name, path = call.each
        found = jmespath.search(path, self.answers.get(f"aws-{name}", {}))
        yield from (str(each) for each in (found if isinstance(found, list) else [found]) if each)

    def _ask(self, call: Call, each: str = "") -> None:
        """Keep the answer to a call under its name. All pages are read."""
        from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

        service, operation = call.command.split()
        operation = operation.replace("-", "_")
        parameters = filled(call.parameters, self.cluster, each)
        if why := self._unreachable.get(service):
            self.refused.append(NotLooked(f"aws {call.command}", why))
            return
        try:
            client = self._client(service)
            if client.can_paginate(operation):
                pages = client.get_paginator(operation)
                answer = pages.paginate(**parameters, PaginationConfig={"MaxItems": call.most}).build_full_result()
            else:
                answer = getattr(client, operation)(**parameters)
        except (BotoCoreError, ClientError) as error:
            text = " ".join(str(error).split())[:300]
            if isinstance(error, (ConnectionError, HTTPClientError)):
                # Each other call would take as long.
                self._unreachable[service] = text
            self.refused.append(NotLooked(f"aws {call.command}", text))
            return
        answer.pop("ResponseMetadata", None)
        # The name of an Auto Scaling group may have a slash, and the name of a file in a record can't.
        name = filled(call.name, self.cluster, each.replace("/", "_"))
        self.answers[f"aws-{name}"] = json.loads(json.dumps(_without_secrets(answer), default=str))

    def _client(self, service: str) -> Any:
        from botocore.config import Config

        if service not in self._clients:
            config = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3})
            region = self._options.get("--region")
            self._clients[service] = self._session.create_client(service, region_name=region, config=config)
        return self._clients[service]

    def extend_dump(self, dump: Dump) -> None:
        """Add what was read to a dump of the cluster."""
        for name, answer in self.answers.items():
            for key in answer.keys() & AWS_ANSWERS.keys():
                dump.aws.setdefault(key, []).append((f"{name}.json", answer[key]))
        dump.refused += self.refused


def is_needed(dump: Dump) -> bool:
    """Whether AWS may explain something: a pod has no node, or a node isn't ready."""
    for each in dump.objects:
        conditions = mappings(dig(each.content, "status", "conditions")) if each.kind == "Node" else ()
        if any(one.get("type") == "Ready" and one.get("status") != "True" for one in conditions):
            return True
        if each.kind == "Pod" and not each.spec.get("nodeName"):
            return True
    return False


def filled(value: Any, cluster: str, each: str) -> Any:
    """Return a name or parameters of a call with the name of the cluster and one of the values of ``each``."""
    if isinstance(value, str):
        return value.replace("{cluster}", cluster).replace("{each}", each)
    if isinstance(value, list):
        return [filled(one, cluster, each) for one in value]
    return {key: filled(one, cluster, each) for key, one in value.items()}


def _without_secrets(value: Any) -> Any:
    """Return an answer without fields that may hold secrets."""
    if isinstance(value, dict):
        return {key: _without_secrets(each) for key, each in value.items() if key not in _HIDDEN}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value
