"""What `cdk bootstrap` leaves in an account, as far as templates ask for it: the parameter with its version."""

from __future__ import annotations

from gpu_constructs.rehearsal.players.cloudformation.account import Account


def bootstrap(aws: Account, *, qualifier: str = "hnb659fds", version: int = 30) -> None:
    """Store the version of the bootstrap stack; the assets' bucket and the roles of a deployment are not played.

    Source: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html (2026-11)

    Args:
        aws: Account and region to bootstrap.
        qualifier: The CDK's own, or that of an app which says another.
        version: Of the bootstrap template.
    """
    name = f"/cdk-bootstrap/{qualifier}/version"
    aws.client("ssm").put_parameter(Name=name, Type="String", Value=str(version), Overwrite=True)
