"""The resources that eksctl creates for a ClusterConfig, as far as they are certain.

Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5, pkg/cfn/builder, pkg/nodebootstrap,
pkg/addons (2026-08-21)
"""
