"""A Lambda function of one file, whose code stands in the template."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from gpu_constructs.installing.pod_identity import policy_document

_RUNTIME = "python3.13"
_RETENTION_DAYS = 30


def own_log(scope: Construct) -> tuple[logs.CfnLogGroup, dict[str, Any]]:
    """Make the log group of a function, and return it with the statement that lets the function write there."""
    log = logs.CfnLogGroup(scope, "Logs", retention_in_days=_RETENTION_DAYS)
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    return log, {"Effect": "Allow", "Action": actions, "Resource": log.attr_arn}


def role_of_function(scope: Construct, policies: Mapping[str, Any]) -> iam.CfnRole:
    """Make the role of a function, with a policy document by each name."""
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return iam.CfnRole(
        scope,
        "Role",
        assume_role_policy_document=policy_document([trust]),
        policies=[{"policyName": name, "policyDocument": document} for name, document in policies.items()],
    )


def inline_function(
    scope: Construct, *, package: str | None, file: str, role: iam.CfnRole, log: logs.CfnLogGroup, **more: Any
) -> lambda_.CfnFunction:
    """Make a function of ``handler`` in a file of a package; ``more`` are other properties of it."""
    code = pkgutil.get_data(package or "", file) or b""
    return lambda_.CfnFunction(
        scope,
        "Resource",
        runtime=_RUNTIME,
        handler="index.handler",
        code={"zipFile": code.decode()},
        role=role.attr_arn,
        logging_config={"logGroup": log.ref},
        **more,
    )
