"""Flags of cluster autoscaler by the type of their values.

Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/config/flags/flags.go (2026-11-22)
"""

from __future__ import annotations

import re
from typing import Final

FLAGS_VERSION: Final = (1, 36)

_DURATIONS = """
blocking-system-pod-distruption-timeout check-capacity-provisioning-request-batch-timebox
initial-node-group-backoff-duration max-binpacking-time max-bulk-soft-taint-time max-failing-time max-inactivity
max-node-group-backoff-duration max-node-provision-time max-node-startup-time max-nodegroup-binpacking-duration
max-pod-eviction-time max-startup-time new-pod-scale-up-delay node-delete-delay-after-taint
node-deletion-batcher-interval node-deletion-candidate-ttl node-deletion-delay-timeout node-group-backoff-reset-timeout
node-info-cache-expire-time provisioning-request-initial-backoff-time provisioning-request-max-backoff-time
salvo-scale-up-budget scale-down-delay-after-add scale-down-delay-after-delete scale-down-delay-after-failure
scale-down-simulation-timeout scale-down-unneeded-time scale-down-unready-time scan-interval
unremovable-node-recheck-timeout
"""
_INTEGERS = """
check-capacity-provisioning-request-max-batch-size cluster-snapshot-parallelism expendable-pods-priority-cutoff
kube-client-burst max-bulk-soft-taint-count max-drain-parallelism max-graceful-termination-sec max-nodes-per-scaleup
max-nodes-total max-scale-down-parallelism min-replica-count ok-total-unready-count pod-injection-limit
predicate-parallelism provisioning-request-max-backoff-cache-size scale-down-candidates-pool-min-count
scale-down-non-empty-candidates-count
"""
_NUMBERS = """
kube-client-qps max-allocatable-difference-ratio max-free-difference-ratio max-total-unready-percentage
memory-difference-ratio scale-down-candidates-pool-ratio scale-down-gpu-utilization-threshold
scale-down-utilization-threshold
"""
_SWITCHES = """
async-node-groups aws-use-static-instance-list balance-similar-node-groups capacity-buffer-controller-enabled
capacity-buffer-pod-dry-run-enabled capacity-buffer-pod-injection-enabled capacity-quotas-enabled
check-capacity-batch-processing cordon-node-before-terminating daemonset-eviction-for-empty-nodes
daemonset-eviction-for-occupied-nodes debugging-snapshot-enabled dynamic-node-delete-delay-after-taint-enabled
emit-per-nodegroup-metrics enable-csi-node-aware-scheduling enable-dynamic-resource-allocation enable-proactive-scaleup
enable-provisioning-requests enforce-node-group-min-size fastpath-binpacking-enabled force-delete-failed-nodes
force-delete-unregistered-nodes force-ds frequent-loops-enabled ignore-daemonsets-utilization
ignore-mirror-pods-utilization max-node-skip-eval-time-tracker-enabled node-removal-latency-tracking-enabled
parallel-scale-up profiling record-duplicated-events regional salvo-scale-up scale-down-delay-type-local
scale-down-enabled scale-down-unready-enabled scale-from-unschedulable scale-up-from-zero
scaleup-simulation-for-skipped-node-groups-enabled skip-nodes-with-custom-controller-pods
skip-nodes-with-local-storage skip-nodes-with-system-pods write-status-configmap
"""
_TEXTS = """
address allowed-scheduler-names balancing-ignore-label balancing-label bypassed-scheduler-names cloud-config
cloud-provider cluster-name cores-total drain-priority-config estimator expander feature-gates gpu-total
grpc-expander-cert grpc-expander-url ignore-taint kube-api-content-type kubeconfig kubernetes leader-elect
leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock leader-elect-resource-name
leader-elect-resource-namespace leader-elect-retry-period logging-format logtostderr memory-total namespace
node-group-auto-discovery nodes startup-taint startup-taint-prefix status-config-map-name status-taint stderrthreshold
user-agent
"""

# Prefixes of taint keys that it treats as startup taints by default.
# Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/utils/taints/taints.go (2026-11-22)
STARTUP_TAINTS: Final = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)

# Formats that Go's flag package parses. Source: https://pkg.go.dev/strconv#ParseBool,
# https://pkg.go.dev/time#ParseDuration
_DURATION = (re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)"), "a duration such as 10m")
_INTEGER = (re.compile(r"[-+]?(0[xX][\da-fA-F]+|\d+)"), "a whole number")
_NUMBER = (re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"), "a number")
_SWITCH = (re.compile(r"1|0|t|f|T|F|true|false|TRUE|FALSE|True|False"), "true or false")
_ANYTHING = (re.compile(r".*", re.DOTALL), "")

# Format of each flag's value, and its description.
FLAGS: Final = {
    name: wanted
    for names, wanted in (
        (_DURATIONS, _DURATION),
        (_INTEGERS, _INTEGER),
        (_NUMBERS, _NUMBER),
        (_SWITCHES, _SWITCH),
        (_TEXTS, _ANYTHING),
    )
    for name in names.split()
}

# Source: the same tag, cluster-autoscaler/expander/expander.go and factory/expander_factory.go. With price the program
# exits on AWS, because the AWS provider has no prices.
EXPANDERS: Final = ("random", "most-pods", "least-waste", "least-nodes", "priority", "grpc")
PRICE_EXPANDER: Final = "price"
# It always selects one group, so no expander may follow.
LAST_EXPANDER: Final = "random"
