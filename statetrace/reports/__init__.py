"""Figures, tables and the HTML report, from saved results."""
