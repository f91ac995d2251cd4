"""What an instance is told when it boots, in the words of its image."""
