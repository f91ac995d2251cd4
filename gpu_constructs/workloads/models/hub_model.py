"""Weights that the server itself downloads from the hub of Hugging Face."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_constructs.workloads.models.bringing import PATH, Brought, Place, pod_with, scratch
from gpu_constructs.workloads.parts.claim_mount import VolumeClaimMount
from gpu_constructs.workloads.parts.environment import EnvValue, SecretKey
from gpu_constructs.workloads.parts.mount_path import refuse_unless_mount_path
from gpu_constructs.workloads.parts.scratch_mount import ScratchMount
from gpu_facts.kubernetes import refuse_unless_dotted_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import instead_of, refuse_unless_whole_number

# Source: https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/utils/_validators.py (2026-11)
_REPO = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class HubModel:
    """A model of the hub of Hugging Face, which the server downloads when it starts, each pod anew, or once to a claim.

    The server is told which by its arguments: vLLM by ``--model`` and ``--revision``, SGLang by ``--model-path`` and
    ``--revision``. Here the pod gets the token, and ``HF_HOME`` where there is room. A cluster without a way to the
    internet cannot use it.

    Attributes:
        repo: Name of the repository, such as ``meta-llama/Llama-3.3-70B-Instruct``.
        revision: Its commit, 40 hex digits: branches and tags move, and code may be in them.
        token: Where the token is, for repositories that ask for one. Default: none.
        size_gib: What its files take, in GiB; scratch of that and a tenth more is asked for.
        claim: Instead of ``size_gib``, name of an existing claim in the pod's namespace that keeps them.
        path: Where the files appear, absolute.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The repository, the commit, the size, the claim or the path cannot be.

    Source: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables (2026-11)
    """

    repo: str
    revision: str
    token: SecretKey | None = None
    size_gib: int | None = None
    claim: str | None = None
    path: str = PATH

    def __post_init__(self) -> None:
        who = "hub model"
        for argument in ("repo", "revision"):
            if not isinstance(getattr(self, argument), str):
                raise TypeError(f"{who}: {argument} must be a string, got {getattr(self, argument)!r}")
        if not _REPO.fullmatch(self.repo) or ".." in self.repo or "--" in self.repo:
            raise ValueError(f"{who}: repo must be such as 'owner/name', got {self.repo!r}")
        if not _COMMIT.fullmatch(self.revision):
            raise ValueError(
                f"{who}: revision must be a commit of 40 hex digits, got {self.revision!r}; the hub shows it under "
                "'Files and versions'"
            )
        if self.token is not None and not isinstance(self.token, SecretKey):
            # Not repeated: it may be the token itself.
            raise TypeError(
                f"{who}: token must be a SecretKey, got a {type(self.token).__name__}; put the token into a Secret of "
                "the cluster and write SecretKey(secret=..., key=...)"
            )
        refuse_unless_mount_path(who, self.path)
        self._refuse_unless_room(who)

    def _refuse_unless_room(self, who: str) -> None:
        if (self.size_gib is None) == (self.claim is None):
            got = "neither" if self.claim is None else "both"
            raise ValueError(f"{who}: size_gib or claim must be given, one of them, got {got}")
        if self.size_gib is not None:
            refuse_unless_whole_number(who, "size_gib", self.size_gib, least=1)
        if self.claim is not None:
            refuse_unless_dotted_name(who, "claim", self.claim, fix=instead_of(self.claim, "S3Volume", "name"))

    @property
    def location(self) -> str:
        """What the server is told: a repository."""
        return self.repo

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Something else is at the path.
        """
        env: dict[str, EnvValue] = {"HF_HOME": self.path}
        if self.token is not None:
            env["HF_TOKEN"] = self.token
        # Each file is read once: a second copy of its parts would take room for nothing.
        env["HF_XET_CHUNK_CACHE_SIZE_BYTES"] = "0"
        return Brought(pod=pod_with(place.pod, env=env, mount=self._mount()))

    def _mount(self) -> VolumeClaimMount | ScratchMount:
        if self.claim is not None:
            return VolumeClaimMount(path=self.path, claim=self.claim)
        return scratch(self.path, self.size_gib or 0)
