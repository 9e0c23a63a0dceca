"""Section 4.2 and appendix B: what the answer depends on."""

from __future__ import annotations

from statetrace.reproduction import of_patching as lens
from statetrace.reproduction import of_s5 as s5
from statetrace.reproduction.claim import Claim
from statetrace.reproduction.claims.names import PAPER, ZOO_A, ZOO_P
from statetrace.reproduction.kept import PAA_ZOO, A, P, zoo
from statetrace.reproduction.rules import AtLeast, AtMost, Near

TITLE = "Activation patching (§4.2, Figures 2, 8 and 9, App. B)"

LEAPS = (
    "The zoo's parity-associative models, all of six layers, have one layer that leaps over most "
    "of the sequence, as counting would; those of the paper's size have none (row before these). "
    "Looked at by many lengths, the answer of small ones, too, moves deeper, which is why there is "
    "a depth lens ([lab notes](docs/lab-notes.md)). Six layers may be too few to show a curve; the "
    "associative model shows one with as many."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="aa-patching",
        where="Figure 2, §4.2",
        says="In AA models the prefix that must be restored grows layer by layer, exponentially",
        paper="several layers between one action and all",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=lens.of_grid(A, "prefix", "all", lens.partial_layers, "layers"),
        rule=AtLeast(3),
        ours=True,
        stand_in=ZOO_A,
        picture="patching",
    ),
    Claim(
        name="paa-plateau",
        where="Figure 2, §3.4",
        says=(
            "In PAA models averaged over all pairs there is a region in which half of the"
            " answer is restored"
        ),
        paper="50%",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=lens.plateau(P),
        rule=Near(0.5, 0.05),
        stand_in=ZOO_P,
        note=(
            "The algorithm itself comes to one half ([paa-half](#paa-half)): pairs of equal parity "
            "bring two fifths, those of opposite parity the rest. The zoo's models restore pairs "
            "of equal parity in part alone."
        ),
        note_at_size=(
            "The algorithm itself comes to one half ([paa-half](#paa-half)): pairs of equal parity "
            "bring two fifths, those of opposite parity the rest. This model keeps less of both, "
            "and its pairs happen to be of equal parity less often. The two others of this size in "
            "results/ (GPT-2, a second Pythia), earlier in training and on shorter sequences, keep "
            "more of those of opposite parity and lie inside the rule."
        ),
        picture="patching",
    ),
    *(
        Claim(
            name=f"leap-{model.removeprefix('s3-')}",
            where="Figures 2 and 8A, App. B" if model == A else "Figure 8A, App. B",
            says=(
                f"On same-parity pairs {kind} models show an exponential pattern: as in doubling, "
                "no layer adds more than half of the sequence"
                + ("" if model in (A, P) else f" (zoo: {model})")
            ),
            paper="≤ 50%",
            recipe=f"{PAPER}/figure-8-patching-kinds.toml",
            measure=lens.of_grid(
                model if model in (A, P) else zoo(model),
                "prefix",
                "same parity",
                lens.largest_leap,
                "share",
            ),
            rule=AtMost(0.5),
            ours=True,
            stand_in=f"recipes/zoo/{model}.toml",
            note="" if model == A else LEAPS,
            picture="patching" if model in (A, P) else "patching-zoo",
        )
        for kind, model in (("AA", A), *(("PAA", model) for model in PAA_ZOO))
    ),
    Claim(
        name="same-parity-depth",
        where="Figure 8A, App. B",
        says=(
            "PAA models compute the parity complement by association: longer sequences "
            "need more layers"
        ),
        paper="a layer per doubling: at least 3 from length 2 to 24",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.depth_needed(P, "same parity"),
        rule=AtLeast(3),
        ours=True,
        stand_in=ZOO_P,
        picture="depth",
    ),
    Claim(
        name="opposite-parity-paa",
        where="Figure 8B, App. B",
        says=(
            "On opposite-parity pairs the pattern of PAA models is parallel: no layer "
            "depends on a part of the sequence"
        ),
        paper="none",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(P, "prefix", "opposite parity", lens.partial_layers, "layers"),
        rule=AtMost(0),
        stand_in=ZOO_P,
        note_at_size=(
            "Parity of long sequences is settled by one layer for all lengths at once, as the "
            "paper says (Figure 10's picture has the same edge), but in the deeper half. Before it "
            "the maps show an upright edge, at the length up to which probes read parity earlier: "
            "short prefixes are worked out first, and pairs that differ there depend on them. In "
            "a second model (GPT-2, in results/), earlier in training, parity spreads over the "
            "first few layers. Neither is at the end of its training."
        ),
        picture="patching",
    ),
    Claim(
        name="parity-layers",
        where="App. B",
        says="In PAA models parity is computed in layers 3 to 5 of 12",
        paper="25 to 42% of the depth",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(P, "prefix", "opposite parity", lens.settled_depth, "share"),
        rule=Near(0.335, 0.085),
        stand_in=ZOO_P,
        note=(
            "By patching, parity has left the first action's position after the first layer; by "
            "probes it is readable only several layers later (Figure 10's row). Between the two "
            "lies counting odd actions modulo 2, which does not depend on single positions any "
            "more."
        ),
        note_at_size=(
            "One layer settles parity of all long sequences, deeper than the paper's; short "
            "prefixes are done with before (picture). A second model (GPT-2, in results/), earlier "
            "in its training and looked at up to a third of the length, has it where the paper "
            "says."
        ),
        picture="patching",
    ),
    Claim(
        name="aa-splits",
        where="Figure 8A and B, App. B",
        says="In AA models the maps of same- and opposite-parity pairs are alike",
        paper="no difference",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.apart(A),
        rule=AtMost(0.1),
        ours=True,
        stand_in=ZOO_A,
        picture="patching",
    ),
    Claim(
        name="paa-splits",
        where="Figure 8A and B, App. B",
        says="In PAA models the two maps differ drastically",
        paper="a clear difference",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.apart(P),
        rule=AtLeast(0.3),
        ours=True,
        stand_in=ZOO_P,
        picture="patching",
    ),
    Claim(
        name="aa-suffix",
        where="Figure 8C, App. B",
        says="In AA models exponentially longer suffixes can be deleted",
        paper="half of the sequence one layer before the last",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(A, "suffix", "all", lens.ignored_suffix, "share"),
        rule=AtLeast(0.4),
        ours=True,
        stand_in=ZOO_A,
        note=(
            "Judged by medians: deletion divides by how clear an answer was, and single pairs "
            "rule the means. By substitution, what the last but one layer still needs of the "
            "first action lies in the last few positions, so deleting just those loses it: this "
            "model takes its short steps last, where the paper's algorithm takes them first."
        ),
        note_at_size=(
            "Over the deeper half the suffixes do grow with every layer, the last two times more "
            "than doubling (picture). One layer before the last they stop short of the bound, "
            "since the last step is longer than a doubling: by substitution, too, more than half "
            "of the prefix has to be restored there (Figure 2's row)."
        ),
        picture="deletions",
    ),
    Claim(
        name="paa-suffix",
        where="Figure 8C, App. B",
        says="In PAA models exponentially longer suffixes can be deleted",
        paper="half of the sequence one layer before the last",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(P, "suffix", "all", lens.ignored_suffix, "share"),
        rule=AtLeast(0.4),
        ours=True,
        stand_in=ZOO_P,
        note=(
            "Judged by medians over pairs, which one layer before the last are not far below the "
            "bound of one half."
        ),
        noted="",
        note_at_size=(
            "In its deeper half this model's front moves on by about as many actions in every "
            "layer (Figure 8A's row), not by more and more, so its last step is short, and what "
            "can be deleted is what lies behind the front. Its reach still grew when it was looked "
            "at. A second model (GPT-2, in results/) on shorter sequences keeps about half of the "
            "answer in its deeper layers whatever is deleted."
        ),
        picture="deletions",
    ),
    Claim(
        name="aa-window",
        where="Figure 8D, App. B",
        says="In AA models the single actions that count get fewer with every layer",
        paper="never more than before",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(A, "window", "all", lens.rising_windows, "layers"),
        rule=AtMost(0),
        stand_in=ZOO_A,
        picture="deletions",
    ),
    Claim(
        name="paa-window",
        where="Figure 8D, App. B",
        says="In PAA models the single actions that count get fewer with every layer",
        paper="never more than before",
        recipe=f"{PAPER}/figure-8-patching-kinds.toml",
        measure=lens.of_grid(P, "window", "all", lens.rising_windows, "layers"),
        rule=AtMost(0),
        stand_in=ZOO_P,
        picture="deletions",
    ),
    Claim(
        name="aa-deviation",
        where="Figure 9A, App. B",
        says="Patching of AA models deviates little over 200 pairs",
        paper="low (no number): at most 0.25 on average",
        recipe=f"{PAPER}/figure-9-patching-deviations.toml",
        measure=lens.deviation(A, "all"),
        rule=AtMost(0.25),
        ours=True,
        stand_in=ZOO_A,
        picture="deviations",
    ),
    Claim(
        name="paa-same-deviation",
        where="Figure 9B, App. B",
        says="So does that of PAA models on same-parity pairs",
        paper="low (no number): at most 0.25 on average",
        recipe=f"{PAPER}/figure-9-patching-deviations.toml",
        measure=lens.deviation(P, "same parity"),
        rule=AtMost(0.25),
        ours=True,
        stand_in=ZOO_P,
        picture="deviations",
    ),
    Claim(
        name="paa-opposite-deviation",
        where="Figure 9C, App. B",
        says="And that of PAA models on opposite-parity pairs",
        paper="low (no number): at most 0.25 on average",
        recipe=f"{PAPER}/figure-9-patching-deviations.toml",
        measure=lens.deviation(P, "opposite parity"),
        rule=AtMost(0.25),
        ours=True,
        stand_in=ZOO_P,
        picture="deviations",
    ),
    Claim(
        name="s5-patching",
        where="Figure 2, §4.2",
        says="On S5 there are AA and PAA models as well, by patching",
        paper="both",
        recipe=f"{PAPER}/figure-2-patching.toml",
        measure=s5.kinds(
            "patching.csv", s5.by_patching, lambda d: d <= s5.ALIKE, lambda d: d >= s5.UNLIKE
        ),
        rule=AtLeast(2, least=2),
        ours=True,
        note=(
            "The bounds are those of S3. The AA model is as the paper says. In the PAA model the "
            "front of same-parity pairs leaps over most of the ten actions in the first layer, "
            "since of four different actions whole pieces can be looked up ([lab "
            "notes](docs/lab-notes.md)); that of opposite-parity pairs leaps over all, and nothing "
            "is left in which the maps could differ. By probes (Figure 3's row) it is PAA. More "
            "actions or longer sequences were not tried."
        ),
        picture="patching-s5",
    ),
)
