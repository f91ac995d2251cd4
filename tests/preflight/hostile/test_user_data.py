"""User data of any kind."""

from __future__ import annotations

import base64
import gzip

import pytest

from gpu_preflight.reading.user_data import MAX_BYTES, read_user_data
from tests.preflight.hostile.work import bytes_at_most, calls

MIB = 1024**2


def nested_parts(levels: int) -> str:
    parts = [f'Content-Type: multipart/mixed; boundary="{each}"\n\n--{each}\n' for each in range(levels)]
    return "MIME-Version: 1.0\n" + "".join(parts)


# Each is just short enough to be read.
TEXTS = [
    "Content-Type: multipart/mixed; boundary=a\n\n--a\n" * 1_200,
    "Content-Type: multipart/mixed; " + ";" * 60_000,
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; a="' + ";" * 60_000,
    "MIME-Version: 1.0\n" * 3_500,
    nested_parts(1_000),
    "Content-Type: text/plain; charset=\udcff\n\n\udcff",
    "[" * 60_000,
    "a = " + "[" * 60_000,
    "a" + ".a" * 30_000 + " = 1",
    "[settings" + ".a" * 5_000 + "]\nb = 1",
    "settings.a = 0x" + "f" * 60_000,
    "settings.a = nan\nsettings.b = 1979-05-27T07:32:00Z",
    "apiVersion: node.eks.aws/v1alpha1\nspec: " + "[" * 60_000,
    "apiVersion: node.eks.aws\na: &a [*a]",
    "#!" + "x" * 60_000,
    "\0",
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:24]))
@pytest.mark.parametrize("encoded", [True, False])
def test_user_data_of_any_kind_ends(text: str, encoded: bool) -> None:
    data = base64.b64encode(text.encode(errors="replace")).decode() if encoded else text

    assert calls(lambda: read_user_data(data, encoded=encoded)) < 1_000_000

    read = read_user_data(data, encoded=encoded)
    assert "longer than" not in (read.problem or "")
    assert read.text == (text.encode(errors="replace").decode() if encoded else text)


@pytest.mark.parametrize("text", ["#!", "Content-Type: multipart/mixed; ", "a = "])
def test_what_is_too_long_is_not_read(text: str) -> None:
    read = read_user_data(text + "x" * 10 * MIB, encoded=False)

    assert read.problem == f"is longer than the {MAX_BYTES} bytes that EC2 accepts"


def test_what_unzips_to_a_gigabyte_is_not_unzipped_to_its_end() -> None:
    part = gzip.compress(b"#!" + b"x" * 16 * MIB)
    data = base64.b64encode(part * 64).decode()

    with bytes_at_most(32 * MIB):
        read = read_user_data(data)

    assert read.problem == f"is longer than the {MAX_BYTES} bytes that EC2 accepts"
