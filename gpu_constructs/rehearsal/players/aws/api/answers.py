"""What is answered: a result or an error, written as the protocol of the service has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.parsers import create_parser
from moto.core.errors import COMMON_ERROR_CODES
from moto.core.serialize import get_serializer_class
from werkzeug.wrappers import Response

from gpu_constructs.rehearsal.players.aws.api.ec2_xml import ec2_xml
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request


def answer(request: Request, result: Mapping[str, Any] | AwsRefusal) -> Response:
    """Write a result, or an error, of an operation."""
    if isinstance(result, AwsRefusal) and result.code not in COMMON_ERROR_CODES:
        # Every service has errors that its model does not list, and moto warns of each.
        COMMON_ERROR_CODES.append(result.code)
    if request.protocol == "ec2" and not isinstance(result, AwsRefusal):
        return Response(ec2_xml(request.operation, result), mimetype="text/xml")
    serializer = get_serializer_class(request.service, request.protocol)(operation_model=request.operation)
    written = serializer.serialize(result)
    body = written["body"]
    return Response(body, status=written["status_code"], headers=dict(written["headers"]))


def plain_refusal(refusal: AwsRefusal) -> Response:
    """Write an error for a request that no model describes."""
    body = json.dumps({"__type": refusal.code, "message": refusal.message})
    headers = {"Content-Type": "application/json", "x-amzn-errortype": refusal.code}
    return Response(body, status=400, headers=headers)


def error_of(response: Response, request: Request) -> tuple[str, str]:
    """Return code and message of the error in an answer; both empty when there is none."""
    if response.status_code < 400:
        return "", ""
    parser = create_parser(request.operation.service_model.metadata["protocol"])
    raw = {"status_code": response.status_code, "headers": dict(response.headers), "body": response.get_data()}
    try:
        error = parser.parse(raw, request.operation.output_shape)["Error"]
    except Exception:  # An answer that even botocore cannot read is told as it is.
        return str(response.status_code), response.get_data(as_text=True)[:500]
    return error.get("Code", "") or str(response.status_code), error.get("Message", "")
