"""The part of the internet that a deployment asks: registries and repositories of charts."""
