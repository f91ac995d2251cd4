"""What a cluster is made of: its control plane, who gets in, nodes, kubelets, and programs that run as pods."""
