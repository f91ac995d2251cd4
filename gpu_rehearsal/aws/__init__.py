"""AWS APIs: moto's server, the operations that moto lacks, and permissions of callers."""
