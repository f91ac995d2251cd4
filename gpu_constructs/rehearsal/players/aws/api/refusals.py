"""How AWS says no: a code and a message, which every SDK makes an exception of."""

from __future__ import annotations

from moto.core.exceptions import ServiceException


class AwsRefusal(ServiceException):
    """A call that AWS answers with an error.

    Args:
        code: Error code, as the service's API reference lists it.
        message: What the caller is told.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


class Unplayed(AwsRefusal):
    """A call, or a form of one, that this AWS does not know. It fails, so that nothing rests on a guess."""

    def __init__(self, what: str) -> None:
        super().__init__("NotPlayed", f"{what} is not played")
