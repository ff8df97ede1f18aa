"""What krafla-gen writes; never edited by hand."""
