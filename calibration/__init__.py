"""How the verdict is calibrated on models whose algorithm is known; not part of the wheel."""
