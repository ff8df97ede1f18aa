"""What each machine can do: one file per ISA."""
