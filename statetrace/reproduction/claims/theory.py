"""Section 3 and appendix A: what can be done, and what it would look like."""

from __future__ import annotations

from statetrace.reproduction.claim import Claim
from statetrace.reproduction.claims.names import PAPER
from statetrace.reproduction.of_theory import compiled_accuracy, composed_example, signature_fronts
from statetrace.reproduction.rules import AtLeast, Near

TITLE = "Algorithms in theory (§2, §3, Figure 1, App. A)"


CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="composition",
        where="§2.2, Figure 1A",
        says="42315 and then 12534 is 32514, which brings ABCDE into the order DBAEC",
        paper="32514, DBAEC",
        recipe=f"{PAPER}/s5-gpt2.toml",
        measure=composed_example,
        rule=AtLeast(1),
    ),
    Claim(
        name="associative-layers",
        where="§3.3, Figure 1",
        says=(
            "The associative algorithm composes twice as many actions in each layer, so "
            "length n needs log₂ n"
        ),
        paper="5 layers at length 32",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=signature_fronts("associative", 32),
        rule=Near(5, 0),
    ),
    Claim(
        name="sequential-layers",
        where="§3.1, Figure 1",
        says="The sequential algorithm needs a layer for each action after the first",
        paper="31 layers at length 32",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=signature_fronts("sequential", 32),
        rule=Near(31, 0),
    ),
    Claim(
        name="parallel-exists",
        where="§3.2, App. A",
        says="A network of constant depth can solve S3: by counting modulo 2 and 3",
        paper="100% in theory",
        recipe=f"{PAPER}/s3-gpt2.toml",
        measure=compiled_accuracy("parallel", "S3"),
        rule=AtLeast(0.98),
    ),
)
