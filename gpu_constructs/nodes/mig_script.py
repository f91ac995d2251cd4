"""The script that partitions the GPUs of an AL2023 node before its kubelet starts."""

from __future__ import annotations

from gpu_constructs.pools.sharing import Mig

# A unit, because the mode does not outlive a reboot on Hopper and newer, nor the instances on any.
# Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (getting started, read 2026-08)
_TEMPLATE = """\
#!/bin/bash
set -euo pipefail
cat > /usr/local/sbin/gpu-mig-setup <<'SCRIPT'
#!/bin/bash
set -euo pipefail
# A GPU that a daemon holds does not change its mode.
systemctl stop nvidia-persistenced.service || true
nvidia-smi -mig 1
# Ampere takes a reset for it; newer ones have changed already.
nvidia-smi --gpu-reset || true
nvidia-smi mig -dci || true
nvidia-smi mig -dgi || true
nvidia-smi mig -cgi {instances} -C
systemctl start nvidia-persistenced.service || true
SCRIPT
chmod 0755 /usr/local/sbin/gpu-mig-setup
cat > /etc/systemd/system/gpu-mig-setup.service <<'UNIT'
[Unit]
Description=Partition the GPUs with MIG
Before=nodeadm-run.service kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/gpu-mig-setup
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable gpu-mig-setup.service
/usr/local/sbin/gpu-mig-setup
"""


def mig_script(sharing: Mig) -> str:
    """Return the script: largest instances first, because the order decides where they fit."""
    sizes = sorted(sharing.geometry.items(), key=lambda item: -int(item[0].partition("g.")[0]))
    return _TEMPLATE.format(instances=",".join(name for name, number in sizes for _ in range(number)))
