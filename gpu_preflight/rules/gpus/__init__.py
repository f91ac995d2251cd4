"""Who offers GPUs, under which names, and who asks for them."""
