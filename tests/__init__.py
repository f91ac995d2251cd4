"""Tests, in the same folders as the code under test."""
