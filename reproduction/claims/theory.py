"""Section 3 and appendix A: what can be done, and what it would look like."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER
from reproduction.measures.algorithms import more_layers, odd_ones, swap_example, swaps
from reproduction.measures.theory import (
    compiled_accuracy,
    complement_layers,
    composed_example,
    plateau_in_theory,
    printed_clusters,
    printed_relation,
    probed_share,
    s3_is_d3,
    signature_fronts,
    smallest_unsolvable,
    summed_parity,
    two_generators,
)
from reproduction.rules import AtLeast, AtMost, Near

TITLE = "Groups and algorithms in theory (§2, §3, Figure 1, App. A and D)"

OFF_BY_ONE = (
    "Off by one everywhere, since the first state is known before the first layer: it is the first "
    "action."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="composition",
        where="§2.2, Figure 1A",
        says="42315 and then 12534 is 32514, which brings ABCDE into the order DBAEC",
        paper="32514, DBAEC",
        recipe=f"{PAPER}/s5-gpt2.toml",
        measure=composed_example,
        rule=AtLeast(1),
        picture="examples",
    ),
    Claim(
        name="parity-sum",
        where="§2.2",
        says="The parity of a product is the sum of its factors' parities modulo 2",
        paper="“ε(a₀⋯aₜ) = Σ ε(aᵢ) mod 2”",
        recipe=f"{PAPER}/s5-gpt2.toml",
        measure=summed_parity,
        rule=AtLeast(1),
        picture="tables",
    ),
    Claim(
        name="swaps",
        where="§2.2",
        says=(
            "Every permutation is a product of swaps, and even or odd as the number that it takes"
        ),
        paper="“every permutation”",
        recipe=f"{PAPER}/s5-gpt2.toml",
        measure=swaps,
        rule=AtLeast(1),
    ),
    Claim(
        name="swap-example",
        where="§2.2, Figure 1A",
        says="42315 is a swap and 12534 is not",
        paper="“a₀, but not a₁”",
        recipe=f"{PAPER}/s5-gpt2.toml",
        measure=swap_example,
        rule=AtLeast(1),
        picture="examples",
    ),
    Claim(
        name="three-odd",
        where="App. C.2",
        says="Three elements of S3 are odd and three are even",
        paper="3",
        recipe=f"{PAPER}/s3-gpt2.toml",
        measure=odd_ones,
        rule=Near(3, 0),
        picture="tables",
    ),
    Claim(
        name="associative-layers",
        where="§3.3, Figure 1",
        says=(
            "The associative algorithm composes twice as many actions in each layer, so "
            "length n needs log₂ n"
        ),
        paper="layer “log (t + 1)”: 5 for 32 actions",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=signature_fronts("associative", 32),
        rule=Near(5, 0),
        picture="algorithms-patching",
    ),
    Claim(
        name="sequential-layers",
        where="§3.1, Figure 1",
        says="The sequential algorithm needs a layer for each action after the first",
        paper="“layer l = t”: 31 for the 32nd action",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=signature_fronts("sequential", 32),
        rule=Near(31, 0),
        picture="algorithms-patching",
    ),
    Claim(
        name="associative-probe",
        where="§3.3, Figure 1",
        says="Of the associative algorithm's layer l a probe knows the state of 2ˡ of n lengths",
        paper="2ˡ / n",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=probed_share("associative", 32, lambda layer: 2**layer / 32),
        rule=AtMost(0),
        picture="algorithms-probes",
    ),
    Claim(
        name="sequential-probe",
        where="§3.1, Figure 1",
        says="Of the sequential algorithm's layer l a probe knows the state of l of n lengths",
        paper="l / n",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=probed_share("sequential", 32, lambda layer: layer / 32),
        rule=AtMost(1 / 32),
        ours=True,
        note=OFF_BY_ONE,
        noted="",
        picture="algorithms-probes",
    ),
    *(
        Claim(
            name=f"{algorithm}-parity-probe",
            where=f"{where}, Figure 1",
            says=(
                f"Where the {algorithm} algorithm's states show their parity, a probe of parity "
                f"knows as many lengths as one of the state: {formula} of n"
            ),
            paper=f"{formula} / n",
            recipe=f"{PAPER}/figure-3-probing.toml",
            measure=probed_share(algorithm, 32, share, "parity linear"),
            rule=AtMost(off),
            picture="algorithms-probes",
            ours=off > 0,
            note=OFF_BY_ONE if off else "",
            noted="",
        )
        for algorithm, where, formula, share, off in (
            ("sequential", "§3.1", "l", lambda layer: layer / 32, 1 / 32),
            ("associative", "§3.3", "2ˡ", lambda layer: 2**layer / 32, 0),
        )
    ),
    *(
        Claim(
            name=f"parallel-{name}",
            where="§3.2, Figure 1",
            says=f"The parallel algorithm takes as many layers at any length: {by}",
            paper="“a constant number of layers”",
            recipe=f"{PAPER}/figure-2-patching.toml",
            measure=more_layers("parallel", target),
            rule=Near(0, 0),
            picture="algorithms-probes" if name == "parity" else "compiled",
        )
        for name, by, target in (
            ("layers", "until patching a part has no effect", "patching"),
            ("state", "until a probe knows every state", "state"),
            ("parity", "until a probe knows every parity", "parity linear"),
        )
    ),
    Claim(
        name="paa-parity-layers",
        where="§3.4, Figure 1",
        says="So does the parity-associative algorithm until a probe knows every parity",
        paper="“at a constant depth”",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=more_layers("parity-associative", "parity linear"),
        rule=Near(0, 0),
        picture="algorithms-probes",
    ),
    Claim(
        name="paa-state-probe",
        where="§3.4, Figure 1",
        says=(
            "Behind the layer in which it has parity, its layers double the lengths whose state a "
            "probe knows, as the associative algorithm's do"
        ),
        paper="“improve exponentially with depth”",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=probed_share("parity-associative", 32, lambda layer: 2 ** max(0, layer - 1) / 32),
        rule=AtMost(0),
        picture="algorithms-probes",
    ),
    Claim(
        name="paa-layers",
        where="§3.4, Figure 1",
        says=(
            "The parity-associative algorithm settles pairs of opposite parity at once and then "
            "needs as many layers as the associative one for those of equal parity"
        ),
        paper="“a procedure analogous to AA”: 5 for 32 actions",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=complement_layers(32),
        rule=Near(5, 0),
        picture="algorithms-patching",
    ),
    Claim(
        name="paa-half",
        where="§3.4, Figure 1",
        says="Over all pairs it shows a region in which half of the answer is restored",
        paper="50%",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=plateau_in_theory(32),
        rule=Near(0.5, 0.05),
        note=(
            "Of five other first actions two keep the parity and three change it, so pairs of "
            "equal parity alone would bring two fifths; the rest is what those of opposite parity "
            "keep, if the answer's parity and the rest of it add up in the logits."
        ),
        noted="",
        picture="algorithms-patching",
    ),
    Claim(
        name="paa-whole",
        where="§3.4, Figure 1",
        says=(
            "And a region in which all of it is, shaped like the parallel algorithm's: where pairs "
            "of opposite parity are restored, too"
        ),
        paper="“a 100% restoration in accuracy”",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=plateau_in_theory(32, opposite_too=True),
        rule=Near(1, 0.05),
        picture="algorithms-patching",
    ),
    *(
        Claim(
            name=f"{algorithm}-exists",
            where="§1, §3",
            says=f"A transformer can carry out the {algorithm} algorithm on S3",
            paper="“LMs might, in principle, use”",
            recipe=f"{PAPER}/s3-gpt2.toml",
            measure=compiled_accuracy(algorithm, "S3"),
            rule=AtLeast(0.98),
            picture="compiled",
        )
        for algorithm in ("sequential", "associative", "parity-associative")
    ),
    Claim(
        name="parallel-exists",
        where="§3.2, App. A",
        says="A network of constant depth can solve S3: by counting modulo 2 and 3",
        paper="“A Constant-Depth Algorithm Exists for S₃”",
        recipe=f"{PAPER}/s3-gpt2.toml",
        measure=compiled_accuracy("parallel", "S3"),
        rule=AtLeast(0.98),
        picture="compiled",
    ),
    Claim(
        name="not-solvable",
        where="App. A",
        says="S5 is the smallest symmetric group that is not solvable",
        paper="“S₅ is the smallest non-solvable permutation group”",
        recipe=f"{PAPER}/s5-gpt2.toml",
        measure=smallest_unsolvable,
        rule=Near(5, 0),
        note=(
            "The paper says permutation group. Among all of these the even half of S5 is smaller "
            "and not solvable either."
        ),
        noted="",
        picture="generators",
    ),
    Claim(
        name="s3-is-d3",
        where="App. A",
        says="S3 is D3, the symmetries of a triangle, and (23) and (123) generate it",
        paper="“S₃ is isomorphic to D₃”",
        recipe=f"{PAPER}/s3-gpt2.toml",
        measure=s3_is_d3,
        rule=AtLeast(1),
        picture="tables",
    ),
    Claim(
        name="relation",
        where="App. A",
        says="a = (23) and b = (123) satisfy ab = ba⁻¹",
        paper="ab = ba⁻¹",
        recipe=f"{PAPER}/s3-gpt2.toml",
        measure=printed_relation,
        rule=AtLeast(1),
        note=(
            "A slip: a is its own inverse, so that a and b would commute. What holds is ab = b⁻¹a, "
            "whichever of the two is applied first, and from it follows what the paper uses it "
            "for: parity and a count modulo 3 are enough ([parallel-exists](#parallel-exists))."
        ),
        picture="tables",
    ),
    Claim(
        name="two-generators",
        where="App. D",
        says="Sₙ is generated by a swap of 1 and 2 and the cycle of all n",
        paper="“a 2-cycle and an n-cycle”",
        recipe=f"{PAPER}/figure-4-prism.toml",
        measure=two_generators,
        rule=AtLeast(1),
        picture="generators",
    ),
    Claim(
        name="clusters-by-generators",
        where="App. D",
        says=(
            "In the clusters 123 213, 312 132, 231 321 the swap of 1 and 2 leads to the other "
            "state of a cluster, a 3-cycle to another cluster"
        ),
        paper="“transformed into each other by applying 1↔2”",
        recipe=f"{PAPER}/figure-4-prism.toml",
        measure=printed_clusters,
        rule=AtLeast(1),
        note="The paper reads labels in two ways; this example, as App. E's, is in the second.",
        noted="",
        picture="generators",
    ),
)
