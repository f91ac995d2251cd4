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
ECR = re.compile(r"oci://(\d{12}\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.[a-z0-9.-]+)/")
# A new role holds after seconds, and a registry may fail for a moment.
WAITS = (5, 15, 45)
# What an attempt takes, and the answer after it.
ATTEMPT, ANSWER = 40, 20
# The server's words where an older definition lacks a version in which objects are kept, as in a rollback.
KEPT = "status.storedVersions"


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer CloudFormation, before the time of the function is over."""
    answer = {"Status": "SUCCESS"}
    ends = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - ANSWER
    try:
        if event["RequestType"] != "Delete":
            asked = event["ResourceProperties"]
            back = goes_back(event.get("OldResourceProperties", {}).get("Version", ""), asked["Version"])
            apply_until_allowed(asked, ends, back)
    except Exception as error:
        answer = {"Status": "FAILED", "Reason": f"{type(error).__name__}: {error}"[-1000:]}
    answer |= {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    # Never another id: CloudFormation would delete the resource of the old one.
    answer["PhysicalResourceId"] = event.get("PhysicalResourceId") or event["LogicalResourceId"]
    text = json.dumps(answer)
    print(text)
    # The address may be signed for no content type, and urllib would say one.
    put = urllib.request.Request(event["ResponseURL"], text.encode(), {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(put, timeout=ANSWER)


def goes_back(old: str, new: str) -> bool:
    """Whether a version is older than the one before, as in a rollback."""
    numbers = [[int(each) for each in re.findall(r"\d+", version.partition("-")[0])] for version in (old, new)]
    return numbers[1] < numbers[0]


def apply_until_allowed(asked: dict[str, str], ends: float, back: bool) -> None:
    """Apply the definitions, and try again where it fails and time is left."""
    for seconds in WAITS:
        try:
            return apply(asked, ends, back)
        except RuntimeError as error:
            if time.monotonic() + seconds + ATTEMPT > ends:
                raise
            print(error)
            time.sleep(seconds)
    return apply(asked, ends, back)


def apply(asked: dict[str, str], ends: float, back: bool) -> None:
    """Apply the definitions, whoever had them before; on the way back those stay that objects are kept in."""
    with tempfile.TemporaryDirectory() as home:
        homes = {name: home for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        env = os.environ | homes | {"PATH": PATH, "KUBECONFIG": f"{home}/kubeconfig"}

        def run(*command: str, given: str | None = None) -> str:
            left = max(ends - time.monotonic(), 1)
            done = subprocess.run(command, env=env, input=given, capture_output=True, text=True, timeout=left)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
            return done.stdout

        run("aws", "eks", "update-kubeconfig", "--name", asked["Cluster"])
        chart, repository = asked["Chart"], asked["Repository"]
        if found := ECR.match(repository):
            password = run("aws", "ecr", "get-login-password", "--region", found[2])
            run("helm", "registry", "login", "--username", "AWS", "--password-stdin", found[1], given=password)
        source = [repository] if repository.startswith("oci://") else [chart, "--repo", repository]
        # Not shown from there: of a registry helm also prints what it pulled.
        run("helm", "pull", *source, "--version", asked["Version"], "--untar", "--untardir", home)
        definitions = run("helm", "show", "crds", f"{home}/{chart}")
        try:
            print(run("kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-", given=definitions))
        except RuntimeError as error:
            if not back or KEPT not in str(error):
                raise
            print(error)
