"""How a function of Lambda ends that raised, was killed or died."""

from __future__ import annotations


class FunctionError(Exception):
    """A function ended without an answer of its own.

    Lambda answers Invoke all the same: with the header ``X-Amz-Function-Error``, and what went wrong as the payload.
    Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html (2026-11)

    Attributes:
        payload: JSON with ``errorType`` and ``errorMessage``.
        kind: Value of the header.
    """

    kind = "Unhandled"

    def __init__(self, payload: bytes) -> None:
        super().__init__(payload.decode())
        self.payload = payload
