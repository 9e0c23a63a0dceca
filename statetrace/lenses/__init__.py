"""The measurements of the paper, one file each: pure functions of (model, task, spec)."""
