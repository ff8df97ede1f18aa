"""The C that is generated, one template per op."""
