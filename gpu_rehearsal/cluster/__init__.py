"""A cluster: its control plane, authentication, nodes, kubelets, devices, and programs that run as pods."""
