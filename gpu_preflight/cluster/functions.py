"""The functions that do the work of custom resources."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_preflight.cluster.references import referred
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import dig

_FUNCTION = "AWS::Lambda::Function"
# The CDK's provider framework calls the function that this variable names.
_HANDLER = "USER_ON_EVENT_FUNCTION_ARN"


def functions_of(service_token: object, resources: Mapping[str, Resource]) -> list[Resource]:
    """Return the function that CloudFormation calls for a custom resource, and then the one that does the work.

    Nothing is returned where the first is not in the input, and only the first where it does the work itself.
    """
    provider = referred(service_token, resources)
    if provider is None or provider.type != _FUNCTION:
        return []
    handler = referred(dig(provider.properties, "Environment", "Variables", _HANDLER), resources)
    return [provider, handler] if handler is not None else [provider]
