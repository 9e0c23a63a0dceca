"""The figures of the paper, drawn from saved tables: one file per lens or study figure."""
