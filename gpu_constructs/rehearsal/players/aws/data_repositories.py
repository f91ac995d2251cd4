"""Links between buckets and directories of file systems of FSx, which moto lacks; no file goes over one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.region import Region

# Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-linked-data-repo.html (2026-11)
_MOST = 8


class DataRepositories:
    """The links of a region's file systems.

    Args:
        region: Where they are.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        self._links: dict[str, list[dict[str, Any]]] = {}

    @plays("fsx", "CreateDataRepositoryAssociation")
    def link(self, request: Request) -> Mapping[str, Any]:
        """Link a directory of a file system that is there and has no link to that directory, or to one in or above it.

        Source: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html
        """
        asked = {name: value for name, value in request.parameters.items() if name != "ClientRequestToken"}
        system = str(asked["FileSystemId"])
        described = self._region.service("fsx").describe_file_systems()["FileSystems"]
        if system not in {each["FileSystemId"] for each in described}:
            raise AwsRefusal("FileSystemNotFound", f"File system '{system}' does not exist.")
        links = self._links.setdefault(system, [])
        if len(links) == _MOST:
            raise AwsRefusal("ServiceLimitExceeded", f"File system '{system}' has {_MOST} associations.")
        directory = _directory(asked)
        if any(directory.startswith(_directory(each)) or _directory(each).startswith(directory) for each in links):
            raise AwsRefusal("BadRequest", f"Path '{directory}' lies in that of another association, or above it.")
        made = f"dra-{uuid.uuid4().hex[:17]}"
        arn = self._region.arn("fsx", f"association/{system}/{made}")
        links.append(asked | {"AssociationId": made, "ResourceARN": arn, "Lifecycle": "AVAILABLE"})
        return {"Association": links[-1]}


def _directory(link: Mapping[str, Any]) -> str:
    return str(link.get("FileSystemPath", "/")).rstrip("/") + "/"
