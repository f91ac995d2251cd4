"""What GPUs do, measured: exporter, Prometheus, and what scales pods by it."""
