"""What runs: the C engine under csrc/ and the Python over it."""
