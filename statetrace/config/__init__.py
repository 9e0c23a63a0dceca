"""Checked settings, the TOML they are read from, and the command-line options made from them."""
