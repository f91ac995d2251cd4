"""What widely read write-ups on GPUs in EKS get wrong, and what naive set-ups break on, as far as no rule here is it.

``COVERED`` names the rule that finds it; ``OUT_OF_REACH`` says why none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpu_constructs.preflight.rules.rule import OutOfReach, Rule

RULES: tuple[Rule, ...] = ()

# A cause, and the rule that finds it.
COVERED: Mapping[str, str] = MappingProxyType(
    {
        "S1": "GPU011",
        "S2": "GPU010",
        "S5": "GPU101",
        "S6": "GPU017",
        "S12": "GPU148",
        "W0.5": "GPU010",
        "W0.6": "GPU122",
        "W0.12": "GPU157",
        "W0.17": "GPU004",
        "W1.9": "GPU074",
        "W1.10": "GPU001",
        "W1.11": "GPU150",
        "W1.14": "GPU010",
        "W3.1": "GPU003",
        "W3.9": "GPU120",
        "W4.6": "GPU183",
    }
)

_PROSE = "a misconception, nothing in a template shows it"
_ABSENT = "CloudFormation has no property to say it with, so no template does"

OUT_OF_REACH = (
    OutOfReach("W0.2", "A toleration is taken for what puts the plugin on GPU nodes, so it runs on all", _PROSE),
    OutOfReach("W0.8", "Arguments of cluster autoscaler are called annotations", _PROSE),
    OutOfReach("W0.14", "A node is said to take GPU pods by a label, not by its allocatable resources", _PROSE),
    OutOfReach("W0.15", "Allocatable GPUs are looked for at the cloud provider, not at kubelet", _PROSE),
    OutOfReach("W1.1", "An Auto Scaling group of one's own is to become a managed node group", _ABSENT),
    OutOfReach(
        "W1.7", "A command of the AWS CLI that does not exist changes a node group", "a command, not a template"
    ),
    OutOfReach("W1.8", "A heading speaks of creating and the text of updating", _PROSE),
    OutOfReach("W2.1", "Autoscalers of pods are said to make nodes", _PROSE),
    OutOfReach(
        "W2.5",
        "Two objects in one YAML document, without a line of dashes between them",
        "YAML keeps the last of equal keys, so the first object is gone before a rule can see it",
    ),
    OutOfReach("W2.15", "Tolerations are said to help against broken nodes", _PROSE),
    OutOfReach(
        "W2.16",
        "A busy GPU is taken for a saturated one",
        "whether a workload is better scaled by demand only measurements of it tell",
    ),
    OutOfReach("W3.2", "The device plugin is said to install drivers", _PROSE),
    OutOfReach("W3.3", "The device plugin is said to register with the API server", _PROSE),
    OutOfReach("W3.4", "The device plugin is said to queue jobs", _PROSE),
    OutOfReach("W3.5", "The device plugin is said to extend the scheduler", _PROSE),
    OutOfReach("W3.6", "The NVIDIA runtime is taken for a container runtime beside containerd", _PROSE),
    OutOfReach("W3.7", "GPUs are set against CPU and memory as the only resource that is counted", _PROSE),
    OutOfReach(
        "W3.8", "An image whose tag the registry has removed", "what a registry still holds only the registry can tell"
    ),
    OutOfReach("W3.10", "How the scheduler spreads GPU pods is said to be fixed", _PROSE),
    OutOfReach(
        "W4.3",
        "The limits of one NodePool are taken for limits of the whole cluster",
        "what an author meant a limit to cover is not in it",
    ),
    OutOfReach("W4.7", "Autoscalers of nodes are said to react to traffic", _PROSE),
    OutOfReach(
        "W4.9", "YAML printed without its indentation", "no reader takes it as an object; the report says unreadable"
    ),
)
