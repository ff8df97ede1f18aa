"""What makes and checks files."""
