"""The documentation site: pages, generated reference, notebooks and pictures."""
