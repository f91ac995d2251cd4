"""Who gets GPUs when there are not enough: queues and quotas over the pools, gangs, their controllers."""
