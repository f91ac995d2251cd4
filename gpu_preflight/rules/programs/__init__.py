"""Rules about the programs of GPU pods: their parallel sizes, models and memory."""
