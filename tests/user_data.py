"""Reading the user data of AL2023 nodes in tests."""

from __future__ import annotations

from email import message_from_string


def parts_of(text: str | None) -> list[tuple[str, str]]:
    """Return content type and text of each part of a MIME message."""
    whole = message_from_string(text or "")
    assert whole.is_multipart()
    return [(part.get_content_type(), str(part.get_payload())) for part in whole.walk() if part is not whole]
