"""Applies the definitions inside a Helm chart: a Lambda function behind a custom resource, alone in its file.

Helm applies them with the first release of a chart only, and refuses over those of another version that somebody else
made. A delete leaves them, because removing a definition removes every object of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request
from typing import Any

# Where the layers put their programs.
PATH = "/opt/helm:/opt/kubectl:/opt/awscli:" + os.environ.get("PATH", "")
ECR = re.compile(r"oci://(\d+\.dkr\.ecr\.([a-z0-9-]+)\.[a-z0-9.-]+)/")
# An access entry and a role that were made just before hold after seconds; a registry may fail for a moment.
WAITS = (5, 15, 45)


def handler(event: dict[str, Any], _context: object) -> None:
    """Answer CloudFormation."""
    answer = {"Status": "SUCCESS"}
    try:
        if event["RequestType"] != "Delete":
            apply_until_allowed(event["ResourceProperties"])
    except Exception as error:
        answer = {"Status": "FAILED", "Reason": f"{type(error).__name__}: {error}"[-1000:]}
    answer |= {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    # Never another id: CloudFormation would delete the resource of the old one.
    answer["PhysicalResourceId"] = event.get("PhysicalResourceId") or event["LogicalResourceId"]
    text = json.dumps(answer)
    print(text)
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], text.encode(), method="PUT"), timeout=30)


def apply_until_allowed(asked: dict[str, str]) -> None:
    """Apply the definitions, and try again where it fails."""
    for seconds in WAITS:
        try:
            return apply(asked)
        except RuntimeError as error:
            print(error)
            time.sleep(seconds)
    return apply(asked)


def apply(asked: dict[str, str]) -> None:
    """Apply the definitions inside one chart, whoever had them before."""
    with tempfile.TemporaryDirectory() as home:
        homes = {name: home for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        env = os.environ | homes | {"PATH": PATH, "KUBECONFIG": f"{home}/kubeconfig"}
        run(env, "aws", "eks", "update-kubeconfig", "--name", asked["Cluster"])
        repository = asked["Repository"]
        chart = [repository] if repository.startswith("oci://") else [asked["Chart"], "--repo", repository]
        if found := ECR.match(repository):
            password = run(env, "aws", "ecr", "get-login-password", "--region", found[2])
            run(env, "helm", "registry", "login", "--username", "AWS", "--password-stdin", found[1], given=password)
        definitions = run(env, "helm", "show", "crds", *chart, "--version", asked["Version"])
        print(run(env, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-", given=definitions))


def run(env: dict[str, str], *command: str, given: str | None = None) -> str:
    """Return what a program prints."""
    done = subprocess.run(command, env=env, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
