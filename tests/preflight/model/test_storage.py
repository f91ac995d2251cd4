"""PersistentVolumes and StorageClasses: values that are set, absent, or set only at deployment."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.storage import PersistentVolume, read_storage_class, read_volume
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

OPEN = Unknown("${Open}")


def written(**content: Any) -> Object:
    return Object({"kind": "It", "metadata": {"name": "it"}, **content}, Origin("a.yaml", "it"))


def volume(**spec: Any) -> PersistentVolume:
    return read_volume(written(spec=spec))


@pytest.mark.parametrize(
    ("csi", "driver", "handle", "attributes"),
    [
        (
            {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"cache": "emptyDir"}},
            "d",
            "h",
            {"cache": "emptyDir"},
        ),
        ({"driver": OPEN, "volumeHandle": OPEN, "volumeAttributes": OPEN}, None, OPEN, None),
        ({"driver": 1, "volumeAttributes": ["x"]}, None, None, {}),
        (OPEN, None, None, {}),
        (None, None, None, {}),
    ],
)
def test_driver_of_a_volume(csi: Any, driver: Any, handle: Any, attributes: Any) -> None:
    found = volume(csi=csi)

    assert (found.driver, found.handle, found.attributes) == (driver, handle, attributes)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--cache /tmp", "uid=1000", "allow-other", OPEN, 1], ("cache", "uid", "allow-other")),
        (None, ()),
        ("allow-other", ()),
        (OPEN, None),
    ],
)
def test_mount_options(options: Any, names: Any) -> None:
    assert volume(mountOptions=options).options == names


@pytest.mark.parametrize(
    ("spec", "name"), [({}, ""), ({"storageClassName": "gp3"}, "gp3"), ({"storageClassName": OPEN}, OPEN)]
)
def test_class_of_a_volume(spec: dict[str, Any], name: Any) -> None:
    assert volume(**spec).class_name == name


@pytest.mark.parametrize(
    ("provisioner", "driver"), [("ebs.csi.aws.com", "ebs.csi.aws.com"), (OPEN, None), (None, None), ([], None)]
)
def test_driver_of_a_class(provisioner: Any, driver: Any) -> None:
    found = read_storage_class(written(provisioner=provisioner, parameters=provisioner))

    assert (found.driver, found.parameters, found.is_default) == (driver, {}, False)
