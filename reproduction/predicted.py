"""What the algorithms themselves would show, on S3: made once, as rows and pictures ask often."""

from __future__ import annotations

from functools import cache

from statetrace.mechanisms.signatures import Signature, signature


@cache
def predicted(algorithm: str, length: int, pairs: int = 200) -> Signature:
    return signature(algorithm, "S3", length, pairs=pairs)
