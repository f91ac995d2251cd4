"""Weights that the server itself reads from S3."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_s3 as s3

from gpu_constructs.identity.workload_identity import WorkloadIdentity
from gpu_constructs.storage.s3_names import region_of
from gpu_constructs.workloads.models.bringing import Brought, Place, pod_with
from gpu_constructs.workloads.models.bucket import reader_of, refuse_unless_source, uri
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import GIB
from gpu_facts.refusals import refuse_unless_whole_number


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class StreamedModel:
    """A model in S3 that the server reads straight into its GPUs, by Run:ai's streamer, from Safetensors files.

    The server is told where by its arguments: vLLM by ``--model`` and ``--load-format runai_streamer``, SGLang by
    ``--model-path`` alone. Its image must have the streamer (``vllm[runai]``). Here the pod gets the right to read, and
    variables: the region, as both SDKs of the streamer call it, no questions to the metadata service, which answers
    nodes only, and the bound of the buffers.

    Attributes:
        bucket: The bucket; a key of yours that encrypts it may be used, too, where the CDK knows it.
        prefix: What the names of the objects begin with, up to a ``/``. Default: all of the bucket.
        buffer_gib: Memory of the pod that the process of each GPU may hold weights in on their way, in GiB; at least
            the largest tensor. More is faster.
        identity: Who reads, which must be of the pod's namespace and service account. Default: made for the pod.
        region: Region of the bucket. Default: what the bucket knows, which of an imported one may be the stack's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix, the buffer or the region cannot be.

    Sources: https://github.com/run-ai/runai-model-streamer/blob/master/docs/src/usage.md,
    https://docs.vllm.ai/en/stable/models/extensions/runai_model_streamer/,
    https://docs.sglang.io/advanced_features/object_storage.html (2026-11)
    """

    bucket: s3.IBucket
    prefix: str = ""
    buffer_gib: int = 4
    identity: WorkloadIdentity | None = None
    region: str | None = None

    def __post_init__(self) -> None:
        who = "streamed model"
        refuse_unless_source(who, bucket=self.bucket, prefix=self.prefix, identity=self.identity, region=self.region)
        refuse_unless_whole_number(who, "buffer_gib", self.buffer_gib, least=1)

    @property
    def location(self) -> str:
        """What the server is told: a URI."""
        return uri(self.bucket, self.prefix)

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Somebody else reads, or the buffers are more than the pod's memory.
        """
        self._refuse_too_little_memory(place)
        region = region_of(place.scope, place.who, self.bucket, self.region)
        reader = reader_of(place, self.bucket, self.prefix, self.identity)
        env = {
            # Of the SDK for C++, and of boto3, which knows the other alone.
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "RUNAI_STREAMER_MEMORY_LIMIT": str(self.buffer_gib * GIB),
        }
        pod = pod_with(place.pod, env=env, service_account=reader.service_account)
        return Brought(pod=pod, needs=[reader])

    def _refuse_too_little_memory(self, place: Place) -> None:
        pod, buffers = place.pod, self.buffer_gib * place.pod.gpus
        memory = pod.memory_on(place.who, place.shape)
        if place.shape.memory_gib and memory <= buffers + pod.shm_gib:
            raise ValueError(
                f"{place.who}: pod must have more memory_gib than {buffers} for the buffers of the model and "
                f"{pod.shm_gib} of shm_gib, got {memory}; raise memory_gib, or lower buffer_gib"
            )
