"""Kustomize folders and charts, rendered by kubectl and helm where these programs are there.

They run on files of the input alone: no remote base is fetched, no plugin is run, and nothing reaches a cluster.

Sources: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/, https://helm.sh/docs/topics/charts/
(2026-11)
"""
