"""What Kubernetes objects of an input say to each other: claims, rights."""
