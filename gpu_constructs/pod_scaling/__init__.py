"""More pods when GPUs are busy or work waits, and requests of the right size."""
