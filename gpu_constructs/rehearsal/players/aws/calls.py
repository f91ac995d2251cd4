"""What was asked of AWS, by whom, and whether they might."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call, in the order in which they came.

    Attributes:
        principal: ARN of the role that called; empty for the administrator.
        service: Prefix of the action, ``ec2``.
        action: ``ec2:RunInstances``.
        resources: ARNs that were judged; empty for the administrator.
        allowed: Whether the principal's policies allow it.
        statements: Statements that allowed it, each ``<policy>#<its Sid or number>``, or the one that denies it.
        error: Code of the error that the caller got; empty when it went well.
        message: What the caller was told with it.
    """

    principal: str
    service: str
    action: str
    resources: tuple[str, ...] = ()
    allowed: bool = True
    statements: tuple[str, ...] = ()
    error: str = ""
    message: str = ""

    def refused(self, code: str, message: str) -> Call:
        """Return the call as one that is not allowed."""
        return replace(self, allowed=False, error=code, message=message)

    def allowed_by(self, *statements: str) -> Call:
        """Return the call as one that statements allow."""
        return replace(self, statements=tuple(dict.fromkeys(filter(None, statements))))

    @property
    def statement(self) -> str:
        """The statements as one text."""
        return ", ".join(self.statements)
