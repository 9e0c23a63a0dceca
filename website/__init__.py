"""The documentation site: staging of the Markdown pages, generated reference, notebooks, pictures."""
