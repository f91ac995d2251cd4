"""Requests and responses of AWS APIs: parsed, checked, simulated and serialized with the service models of the SDK."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeVar
from uuid import uuid4
from xml.sax.saxutils import escape

from botocore.exceptions import ParamValidationError
from botocore.parsers import create_parser
from botocore.validate import ParamValidator
from moto.core.errors import COMMON_ERROR_CODES
from moto.core.exceptions import ServiceException
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request as HttpRequest
from moto.core.request import determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response


class AwsError(ServiceException):
    """An error response of AWS."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


class NotSimulated(AwsError):
    """A call, or a parameter of a call, that isn't simulated. It fails, so that no result is a guess."""

    def __init__(self, what: str) -> None:
        super().__init__("NotSimulated", f"{what} isn't simulated")


# The max number of values in a message.
_MAX_LISTED = 12
# The models have regular expressions of Java, with named Unicode classes. Some are escaped twice.
# Source: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/regex/Pattern.html
_PYTHON_CLASSES = {
    r"\\u": r"\u",
    r"\\r\\n\\t": r"\r\n\t",
    r"\uD800\uDC00-\uDBFF\uDFFF": r"\U00010000-\U0010FFFF",
    r"\w-_": r"\w_-",
    r"\p{L}": r"\w",
    r"\p{N}": r"\d",
    r"\p{Z}": r"\s",
    r"\p{ASCII}": r"\x00-\x7f",
    r"\p{Alnum}": "A-Za-z0-9",
    r"\p{Alpha}": "A-Za-z",
    r"\p{Graph}": r"\x21-\x7e",
    r"\p{Print}": r"\x20-\x7e",
}
# Enumerations that lack values which AWS accepts: ReceiveMessage also accepts names of message attributes.
# Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
_INCOMPLETE_ENUMERATIONS = frozenset({"QueueAttributeName"})


def register_validation(client: Any) -> None:
    """Make an SDK client also check enumerations, patterns and lengths of its parameters."""
    client.meta.events.register("provide-client-params.*.*", _check, unique_id="gpu-constructs-model")


def _check(params: Mapping[str, Any], model: Any, **_: object) -> None:
    found = faults(params, model.input_shape) if model.input_shape else []
    if found:
        raise ParamValidationError(report=f"{model.name}: {'; '.join(found)}")


def faults(value: Any, shape: Any, path: str = "") -> list[str]:
    """Return the violations of enumerations, patterns and lengths of a model in a value."""
    if value is None:
        return []
    if shape.type_name == "structure":
        known = [(name, shape.members[name]) for name in value if name in shape.members]
        return [each for name, member in known for each in faults(value[name], member, f"{path}.{name}")]
    if shape.type_name == "list":
        return [each for number, item in enumerate(value) for each in faults(item, shape.member, f"{path}[{number}]")]
    if shape.type_name == "map":
        return [each for key, item in value.items() for each in faults(item, shape.value, f"{path}.{key}")]
    if shape.type_name == "string" and isinstance(value, str):
        return list(_faults_of_string(value, shape, path.lstrip(".")))
    return []


def _faults_of_string(value: str, shape: Any, path: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum and shape.name not in _INCOMPLETE_ENUMERATIONS:
        near = shape.enum if len(shape.enum) <= _MAX_LISTED else get_close_matches(value, shape.enum)
        yield f"{path} must be one of {len(shape.enum)} values, got {value!r}; some are {', '.join(near)}"
    longest = shape.metadata.get("max")
    if longest is not None and len(value) > longest:
        yield f"{path} must have at most {longest} characters, got {len(value)}"
    pattern = shape.metadata.get("pattern")
    if pattern and not _compiled(pattern).fullmatch(value):
        yield f"{path} must match {pattern}, got {value!r}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    for java, python in _PYTHON_CLASSES.items():
        pattern = pattern.replace(java, python)
    return re.compile(pattern)


# Credential=<key>/<day>/<region>/<service>/aws4_request, in a header, or in the query of a presigned URL.
# Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
_SCOPE = re.compile(r"Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request")
# Names of SDK clients that differ from the signing name.
_CLIENTS = {"eventbridge": "events", "elasticloadbalancing": "elbv2", "monitoring": "cloudwatch"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One call of an AWS API.

    Attributes:
        access_key: Key that signed it.
        region: Region in the signature.
        service: Name of the SDK's client, e.g. ``ec2``.
        operation: The SDK's model of the operation.
        parameters: Its parameters, by the names in the model.
        http: The HTTP request.
        protocol: Protocol of its parameters, e.g. ``rest-json``.
    """

    access_key: str
    region: str
    service: str
    operation: Any
    parameters: Mapping[str, Any]
    http: HttpRequest
    protocol: str

    @property
    def name(self) -> str:
        """Name of the operation."""
        return str(self.operation.name)


def read_request(environ: dict[str, Any]) -> Request:
    """Parse a request. Its body can be read again.

    Raises:
        AwsError: It isn't signed, its operation doesn't exist, or its parameters don't match the model.
    """
    rewind(environ)
    http = HttpRequest(environ)
    access_key, region, service = _scope(http)
    model = _model(service)
    try:
        operation, in_path = get_service_router(service).match(http)
    except (NotFound, NotImplementedError) as error:
        raise NotSimulated(f"{http.method} {http.path} of {service}") from error
    protocol = determine_request_protocol(model, http.content_type)
    parameters = _parse(http, operation, protocol, in_path)
    return Request(
        access_key=access_key,
        region=region,
        service=service,
        operation=operation,
        parameters=parameters,
        http=http,
        protocol=protocol,
    )


def check(request: Request) -> None:
    """Reject parameters that the SDK's model of the operation doesn't allow.

    Raises:
        AwsError: With all violations.
    """
    shape = request.operation.input_shape
    if shape is None:
        return
    try:
        report = ParamValidator().validate(request.parameters, shape)
    except ParamValidationError as error:
        raise AwsError("ValidationException", str(error)) from error
    found = [report.generate_report()] if report.has_errors() else faults(request.parameters, shape)
    if found:
        raise AwsError("ValidationException", f"{request.name}: {'; '.join(found)}")


def rewind(environ: dict[str, Any]) -> None:
    """Reset the body, so that it can be read again."""
    if "rehearsal.body" not in environ:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["rehearsal.body"] = environ["wsgi.input"].read(length) if length else b""
    environ["wsgi.input"] = io.BytesIO(environ["rehearsal.body"])
    # The cached request of werkzeug has a consumed body.
    environ.pop("werkzeug.request", None)


def _scope(http: HttpRequest) -> tuple[str, str, str]:
    signed = http.headers.get("Authorization") or f"Credential={http.args.get('X-Amz-Credential', '')}"
    found = _SCOPE.search(signed)
    if found is None:
        raise AwsError("MissingAuthenticationToken", f"{http.method} {http.path} is not signed")
    key, _, region, service = found.groups()
    return key, region, _CLIENTS.get(service, service)


def _model(service: str) -> Any:
    try:
        return get_service_model(service)
    except Exception as error:
        raise NotSimulated(f"the service {service}") from error


def _parse(http: HttpRequest, operation: Any, protocol: str, in_path: dict[str, Any]) -> Mapping[str, Any]:
    parser = PROTOCOL_PARSERS[protocol](operation)
    return dict(
        parser.parse(
            {
                "method": http.method,
                "values": http.values,
                "headers": http.headers,
                "body": http.get_data(),
                "url_path": http.path,
                "url_params": in_path,
            }
        )
    )


# Returns the response, or nothing to use moto's response.
Simulate = Callable[[Request], Mapping[str, Any] | None]
_Method = TypeVar("_Method", bound=Callable[..., Mapping[str, Any] | None])


def simulates(service: str, operation: str) -> Callable[[_Method], _Method]:
    """Mark a method as the simulation of an operation.

    Args:
        service: Name of the SDK's client.
        operation: Name of the operation in the API reference.
    """

    def mark(method: _Method) -> _Method:
        method.operation = (service, operation)  # type: ignore[attr-defined]  # functions carry attributes
        return method

    return mark


def collect_operations(simulator: object) -> dict[tuple[str, str], Simulate]:
    """Return the marked methods of a simulator, by service and operation."""
    methods = (getattr(simulator, name) for name in dir(simulator) if not name.startswith("_"))
    return {method.operation: method for method in methods if hasattr(method, "operation")}


def matching(
    items: list[dict[str, Any]], filters: Iterable[Mapping[str, Any]], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the items that match all filters.

    Args:
        items: Described objects, by the names of the API.
        filters: Filters of the call.
        names: Field of an item, by the filter's name. Filters of tags are built in.

    Raises:
        NotSimulated: A filter isn't supported.
    """
    return [item for item in items if all(_passes(item, condition, names) for condition in filters)]


def _passes(item: Mapping[str, Any], condition: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    name, wanted = str(condition["Name"]), condition["Values"]
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", ())}
    if name == "tag-key":
        return any(fnmatchcase(key, pattern) for key in tags for pattern in wanted)
    if name.startswith("tag:"):
        return name[4:] in tags and any(fnmatchcase(tags[name[4:]], pattern) for pattern in wanted)
    if name not in names:
        raise NotSimulated(f"the filter {name}")
    return any(fnmatchcase(str(item.get(names[name], "")), pattern) for pattern in wanted)


def _ec2_xml(operation: Any, result: Mapping[str, Any]) -> str:
    """Serialize the result of an operation.

    Args:
        operation: The SDK's model of it.
        result: The result, by the names of the model. ``None`` values are left out.
    """
    name, version = operation.name, operation.service_model.api_version
    body = "".join(_members(result, operation.output_shape)) if operation.output_shape else "<return>true</return>"
    space = f'xmlns="http://ec2.amazonaws.com/doc/{version}/"'
    return f"<{name}Response {space}><requestId>{uuid4()}</requestId>{body}</{name}Response>"


def _members(value: Mapping[str, Any], shape: Any) -> Iterator[str]:
    members = shape.members
    for key, item in value.items():
        if item is not None and key in members:
            tag = members[key].serialization.get("name", key)
            yield f"<{tag}>{_written(item, members[key])}</{tag}>"


def _written(value: Any, shape: Any) -> str:
    kind = shape.type_name
    if kind == "structure":
        return "".join(_members(value, shape))
    if kind == "list":
        tag = shape.member.serialization.get("name", "item")
        return "".join(f"<{tag}>{_written(item, shape.member)}</{tag}>" for item in value)
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "timestamp":
        return _instant(value)
    return escape(str(value))


def _instant(value: datetime) -> str:
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def answer(request: Request, result: Mapping[str, Any] | AwsError) -> Response:
    """Serialize a result or an error of an operation."""
    if isinstance(result, AwsError) and result.code not in COMMON_ERROR_CODES:
        # Every service has errors that its model doesn't list. moto would warn about each.
        COMMON_ERROR_CODES.append(result.code)
    if request.protocol == "ec2" and not isinstance(result, AwsError):
        return Response(_ec2_xml(request.operation, result), mimetype="text/xml")
    serializer = get_serializer_class(request.service, request.protocol)(operation_model=request.operation)
    written = serializer.serialize(result)
    body = written["body"]
    return Response(body, status=written["status_code"], headers=dict(written["headers"]))


def plain_error_response(error: AwsError) -> Response:
    """Serialize an error for a request without a model."""
    body = json.dumps({"__type": error.code, "message": error.message})
    headers = {"Content-Type": "application/json", "x-amzn-errortype": error.code}
    return Response(body, status=400, headers=headers)


def parse_error(response: Response, request: Request) -> tuple[str, str]:
    """Return code and message of the error in a response; both empty without an error."""
    if response.status_code < 400:
        return "", ""
    parser = create_parser(request.operation.service_model.metadata["protocol"])
    raw = {"status_code": response.status_code, "headers": dict(response.headers), "body": response.get_data()}
    try:
        error = parser.parse(raw, request.operation.output_shape)["Error"]
    except Exception:  # botocore can't parse the response, so its raw text is the message.
        return str(response.status_code), response.get_data(as_text=True)[:500]
    return error.get("Code", "") or str(response.status_code), error.get("Message", "")
