"""Kustomize folders and charts, rendered by kubectl and helm if these programs are installed.

The programs use only files of the input. They fetch no remote base, run no plugin and call no cluster.

Sources: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/, https://helm.sh/docs/topics/charts/
(2026-11)
"""
