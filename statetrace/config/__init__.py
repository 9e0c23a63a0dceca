"""Checked settings, the TOML they are read from, and command-line options generated from them."""
