"""What GPUs do, measured: exporter, Prometheus, alarms, dashboards."""
