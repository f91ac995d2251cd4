#!/usr/bin/env bash
# Checks in a real account what happens in the deployments after the first one.
#
# Run it from the top of a clone with credentials, a bootstrapped region and a quota for two GPU instances:
#
#     ADMIN=arn:aws:iam::111122223333:role/Admin bash docs/how-to/day_two.sh
#
# It deploys GpuClusterStack eight times, runs one pod on a GPU, and destroys the stack: about three hours, and about 10 USD
# with one g6.xlarge. ADMIN is the role that the script runs as. Each step prints what it proves. `PLAN=1` prints the options
# of each deployment, and does nothing else. The script has not been run in an account yet.
# shellcheck disable=SC2329 # Functions are passed to `holds` by name.
set -euo pipefail

admin=${ADMIN:?the ARN of the role that this runs as}
type=${TYPE:-g6.xlarge}
cluster=${CLUSTER:-day-two}
stack=GpuClusterStack
failed=0
last=()

step() { printf '\n== %s\n   proves: %s\n' "$1" "$2" >&2; }

holds() { # Description of the expected result, and the command that checks it.
  local what=$1
  shift
  if "$@"; then echo "   held: $what"; else
    echo "   FAILED: $what"
    failed=1
  fi
}

pools() { printf 'pools=[{"name":"%s","instance_types":["%s"],"max_nodes":%s}]' "$1" "$type" "$2"; }

deploy() { # Options of the stack, each as key=value.
  local context=(-c "cluster_name=$cluster" -c "admins=$admin")
  for each in "$@"; do context+=(-c "$each"); done
  if [ -n "${PLAN:-}" ]; then
    printf '%s\t' "${context[@]}" && echo
    return 0
  fi
  cdk deploy "$stack" --require-approval never "${context[@]}"
  last=("${context[@]}")
}

status() { aws cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].StackStatus' --output text; }
is_status() { [ "$(status)" = "$1" ]; }
nodes() { kubectl get nodes --selector gpu-constructs.io/pool="$1" --output name; }
runs() { [ "$(kubectl get pod day-two --output 'jsonpath={.metadata.uid} {.status.phase}')" = "$uid Running" ]; }
group() { # The EKS name of a pool's group.
  local each
  for each in $(aws eks list-nodegroups --cluster-name "$cluster" --query 'nodegroups[]' --output text); do
    if [ "$(aws eks describe-nodegroup --cluster-name "$cluster" --nodegroup-name "$each" \
      --query 'nodegroup.labels."gpu-constructs.io/pool"' --output text)" = "$1" ]; then echo "$each"; fi
  done
}
desired() {
  aws eks describe-nodegroup --cluster-name "$cluster" --nodegroup-name "$(group "$1")" \
    --query nodegroup.scalingConfig.desiredSize --output text
}
is_desired() { [ "$(desired "$1")" = "$2" ]; }
no_nodes() { [ -z "$(nodes "$1")" ]; }
no_group() { [ -z "$(group "$1")" ]; }
unchanged() { cdk diff "$stack" --fail "${last[@]}"; }
rejected() { ! deploy "$@"; }
volumes_left() {
  aws ec2 describe-volumes --filters "Name=tag:kubernetes.io/cluster/$cluster,Values=owned" --query 'Volumes[].VolumeId' \
    --output text
}
nothing_left() {
  [ -z "$(volumes_left)" ] && ! aws eks describe-cluster --name "$cluster" >/dev/null 2>&1 &&
    ! aws cloudformation describe-stacks --stack-name "$stack" >/dev/null 2>&1
}
evict_to_end() { kubectl wait --for=delete "node/$1" --timeout=30m; }

start_pod() {
  kubectl apply --filename - <<POD
apiVersion: v1
kind: Pod
metadata: {name: day-two}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers:
    - name: gpu
      image: public.ecr.aws/amazonlinux/amazonlinux:2023
      command: [sleep, infinity]
      resources: {limits: {nvidia.com/gpu: 1}}
POD
  kubectl wait --for=condition=Ready pod/day-two --timeout=20m
  uid=$(kubectl get pod day-two --output 'jsonpath={.metadata.uid}')
}

old='kubernetes_version=1.35' new='kubernetes_version=1.36'

step "1. First deployment, on Kubernetes 1.35" "everything is created in its order, by the handlers of this library too"
deploy "$old" "$(pools gpu 2)"

if [ -z "${PLAN:-}" ]; then
  aws eks update-kubeconfig --name "$cluster"
  start_pod
  holds "the pod got a node of its pool" runs
  holds "the group has the size that the autoscaler gave it" is_desired gpu 1
  step "2. The same again" "a deployment without a change changes nothing"
  holds "cdk diff is empty" unchanged
fi

step "3. A larger pool" "the size that the autoscaler gave the group stays when its limits change"
deploy "$old" "$(pools gpu 3)"
[ -n "${PLAN:-}" ] || holds "the group still has one node" is_desired gpu 1
[ -n "${PLAN:-}" ] || holds "the pod still runs" runs

step "4. An administrator who doesn't exist" "a failed update is rolled back, and what it created is deleted"
if [ -z "${PLAN:-}" ]; then
  holds "the deployment fails" rejected "$old" "$(pools gpu 3)" "admins=$admin,$admin-of-nobody"
  holds "the stack is rolled back" is_status UPDATE_ROLLBACK_COMPLETE
  holds "the pod still runs" runs
fi

step "5. Kubernetes 1.36" "cluster, groups and charts follow in one update, with the autoscaler's size, after a rollback too"
deploy "$new" "$(pools gpu 3)"
[ -n "${PLAN:-}" ] || holds "the group still has at least one node" test "$(desired gpu)" -ge 1

step "6. Another name of the pool" "the new group is created before the old one is deleted, and no node of the old one stays"
deploy "$new" "$(pools other 3)"
[ -n "${PLAN:-}" ] || holds "the old group is deleted" no_group gpu
[ -n "${PLAN:-}" ] || holds "no node of it is left" no_nodes gpu

step "7. Karpenter instead of cluster autoscaler" "the old autoscaler leaves, and a pod gets a node of the new one"
deploy "$new" "$(pools other 3)" autoscaler=karpenter
if [ -z "${PLAN:-}" ]; then
  kubectl delete pod day-two --ignore-not-found
  start_pod
  holds "the pod got a node of its pool" runs
  holds "the group of the pool is deleted" no_group other
fi

step "8. Another name of the pool of Karpenter" "the old NodePool and its nodes don't stay"
deploy "$new" "$(pools third 3)" autoscaler=karpenter
if [ -z "${PLAN:-}" ]; then
  for each in $(nodes other); do evict_to_end "${each#node/}"; done
  holds "no node of the old NodePool is left" no_nodes other
  step "9. The end" "nodes, volumes, network and cluster are deleted, while a pod still has a GPU"
  cdk destroy "$stack" --force "${last[@]}"
  holds "nothing of the cluster is left" nothing_left
fi
exit $failed
