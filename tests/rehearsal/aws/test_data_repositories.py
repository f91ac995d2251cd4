"""Links of buckets to file systems are refused as FSx refuses them."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from gpu_constructs.rehearsal.players.aws.server import Aws


def test_directories_are_linked_once(aws: Aws) -> None:
    fsx = aws.client("fsx")
    made = fsx.create_file_system(FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=["subnet-0123456789abcdef0"])
    system = made["FileSystem"]["FileSystemId"]

    def link(path: str, of: str = system) -> str:
        asked = {"FileSystemId": of, "FileSystemPath": path, "DataRepositoryPath": "s3://data/"}
        return str(fsx.create_data_repository_association(**asked)["Association"]["Lifecycle"])

    assert link("/corpus") == "AVAILABLE"
    assert link("/corpus-2") == "AVAILABLE"
    for path in ("/corpus", "/corpus/text", "/"):
        with pytest.raises(ClientError, match="BadRequest"):
            link(path)
    with pytest.raises(ClientError, match="FileSystemNotFound"):
        link("/other", "fs-0123456789abcdef0")
