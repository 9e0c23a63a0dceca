"""What the families with rotary positions share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from statetrace.models.anatomy import Anatomy


class RotaryAnatomy(Anatomy):
    """Positions are rotations of queries and keys: no table, so no longest sequence."""

    fast = True
    _rotary: Any  # the model's rotary module

    @staticmethod
    def reads(config: Any) -> bool:
        # These types scale with the input length, so a position alone does not determine its
        # rotation.
        rope_type = config.rope_parameters["rope_type"]
        return "dynamic" not in rope_type and rope_type != "longrope"

    @staticmethod
    def position_limit(config: Any) -> int | None:
        return None

    def rotation(self, resid: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [1, T, rotated width], in the type of resid."""
        cos, sin = self._rotary(resid, position_ids=positions[None])
        return cos, sin

    def embed(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        resid: Tensor = self.embedding(tokens)
        return resid

    @staticmethod
    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x [B, H, T, head_width]: rotate its first entries, as many as cos has."""
        width = cos.shape[-1]
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        rotated, rest = x[..., :width], x[..., width:]
        half = width // 2
        swapped = torch.cat((-rotated[..., half:], rotated[..., :half]), dim=-1)
        rotated = (rotated * cos) + (swapped * sin)
        return torch.cat((rotated, rest), dim=-1) if rest.shape[-1] else rotated
