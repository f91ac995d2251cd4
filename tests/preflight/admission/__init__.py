"""What admission makes of pods."""
