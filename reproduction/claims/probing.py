"""Section 4.3 and appendix C: what can be read from each layer."""

from __future__ import annotations

from reproduction.claim import Claim
from reproduction.claims.names import PAPER, ZOO_A, ZOO_P
from reproduction.measures import deviations, evidence, s5
from reproduction.measures import probing as lens
from reproduction.model_selection import A, P
from reproduction.rules import AtLeast, AtMost, Inside, Near

TITLE = "Probes (§4.3, Figures 3 and 10, Table 1, App. C)"

BENDS = (
    "PAA models of the paper's size differ in this: on shorter sequences, earlier in training, "
    "GPT-2 doubles and a second Pythia takes equal steps (results/). The interval, one step of the "
    "lengths tried, is wide."
)

LUCK = (
    "In the zoo larger subsets, tried on more sequences, lower the deviation, not to the paper's "
    "(results/zoo, folders whose names end in -wide; the end of this page says how they were "
    "made). It is largest where there is nothing to read: a probe that guesses is right by luck, "
    "and on as many held-out sequences as the paper has (100,000) that luck alone should deviate "
    "by about 0.001, while the paper gives 0.000004 for such layers. Read as variances, the "
    "paper's numbers would be about as large as that luck."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="paa-parity-probe",
        where="Figure 3, §4.3",
        says="In PAA models parity can be read from intermediate layers, before the state",
        paper="linearly decodable from earlier intermediate layers",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=lens.best_before_last(P, "parity", ahead_of="state"),
        rule=AtLeast(0.98),
        ours=True,
        stand_in=ZOO_P,
        picture="probes",
    ),
    Claim(
        name="aa-parity-probe",
        where="Figure 3, §4.3",
        says="In AA models parity can be read from no layer before the last",
        paper="never linearly encoded in any layer (in other AA models only at the final layer)",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=lens.best_before_last(A, "parity"),
        rule=AtMost(lens.GUESSED),
        ours=True,
        stand_in=ZOO_A,
        picture="probes",
    ),
    Claim(
        name="aa-parity-last",
        where="Figures 3, 11 and 12, App. C.3",
        says="In the last layer of AA models parity is linear in some and not in others",
        paper="sometimes encode parity linearly at the final layer but sometimes do not",
        recipe=f"{PAPER}/figure-11-parity-not-linear.toml",
        measure=lens.parity_kinds,
        rule=AtLeast(2, least=2),
        ours=True,
        stand_in=ZOO_A,
        note=(
            "One model of each kind is asked for. The one in which parity is not linear is small "
            "and of S5, as one of the paper's is; of S3 there is none in results/ in which it is "
            "not: the zoo's lies between the two."
        ),
        noted="",
        general=True,
        picture="last-parity",
    ),
    Claim(
        name="aa-exponential",
        where="Figure 3, §4.3",
        says=(
            "In AA models the state probe improves exponentially with depth: more in the "
            "deeper half"
        ),
        paper="increases roughly exponentially with model depth",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=lens.late_gain(A),
        rule=AtLeast(0.5),
        ours=True,
        stand_in=ZOO_A,
        picture="probes",
    ),
    Claim(
        name="paa-exponential",
        where="Figure 3, §4.3",
        says=(
            "In PAA models the state probe improves exponentially with depth: more in the"
            " deeper half"
        ),
        paper="increases roughly exponentially with model depth",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=lens.late_gain(P),
        rule=AtLeast(0.5),
        ours=True,
        stand_in=ZOO_P,
        picture="probes",
    ),
    Claim(
        name="lenses-agree",
        where="§4.3",
        says="Models that probe as AA also patch as AA, and the other way round",
        paper="always have AA-type patching signatures, and vice versa",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=evidence.lenses_agree,
        rule=Inside(1),
        stand_in=ZOO_A,
        note=(
            "The paper compares by eye; here each lens alone is compared with what both algorithms "
            "predict ([verdict](docs/verdict.md)). Models whose verdict is neither AA nor PAA do "
            "not count, nor do those of which one of the two lenses cannot tell, nearly always the "
            "probes. Where they do not agree it is again the probes that are off, mostly in very "
            "small Pythias: they read parity no earlier than the state although it was learned "
            "earlier, by the log, and settled earlier, by patching. Parity need not be linear "
            "before it is used."
        ),
        picture="lenses",
    ),
    *(
        Claim(
            name=f"table-1-{kind.split()[1].lower()}-{target}",
            where="Table 1, §4.3",
            says=(
                f"The {target} probe's accuracy on {kind} model deviates by less"
                " than 0.001 over 10 training subsets"
            ),
            paper="less than 10⁻³",
            recipe=f"{PAPER}/table-1-probe-deviations.toml",
            measure=deviations.largest_deviation(model, target),
            rule=AtMost(0.001),
            stand_in=recipe,
            note=LUCK,
            general=True,
            picture="table-1",
        )
        for kind, model, recipe in (("a PAA", P, ZOO_P), ("an AA", A, ZOO_A))
        for target in ("state", "parity")
    ),
    Claim(
        name="table-1-cells",
        where="Table 1, App. C.1",
        says="The deviations of all layers, probes and models are as in the table",
        paper="8.97·10⁻⁷ to 5.59·10⁻⁴ (52 numbers)",
        recipe=f"{PAPER}/table-1-probe-deviations.toml",
        measure=deviations.alike_cells,
        rule=AtLeast(0.5),
        ours=True,
        note=LUCK,
        general=True,
        picture="table-1",
    ),
    Claim(
        name="third",
        where="Figure 10, App. C.2",
        says=(
            "Once parity is known and before the state is, a PAA model's state probe "
            "gives the truth a probability of 1/3"
        ),
        paper="1/3",
        recipe=f"{PAPER}/figure-10-probing-by-length.toml",
        measure=lens.once_known(P, "parity", "state"),
        rule=Inside(1 / 3, widest=0.1),
        stand_in=ZOO_P,
        picture="probes-by-length",
    ),
    Claim(
        name="parity-read",
        where="Figure 10, App. C.2",
        says="PAA models have parity from about layer 2 of 12 on",
        paper="at roughly layer 2",
        recipe=f"{PAPER}/figure-10-probing-by-length.toml",
        measure=lens.read_depth(P, "parity"),
        rule=Near(1 / 6, 0.1),
        stand_in=ZOO_P,
        note=(
            "A count of odd actions has to be taken modulo 2 before parity is linear, which takes"
            " this narrow model several layers. By patching it is settled in the first one "
            "([parity-layers](#parity-layers))."
        ),
        note_at_size=(
            "Read at the last token of the longest sequences looked at. One layer brings parity of "
            "all long ones at once (picture), in the deeper half of the network; that of short "
            "ones is there earlier. Of the two other models of this size in results/, looked at on "
            "shorter sequences, GPT-2 has it in the middle and a second Pythia deeper still. None "
            "of the three is at the end of its training."
        ),
        picture="probes-by-length",
    ),
    *(
        Claim(
            name=f"{kind.lower()}-lengths",
            where="Figure 10, §4.3, App. C.2",
            says=(
                f"The layers of {kind} models know the state of exponentially longer sequences: "
                "half-way from the first that knows any to the last, the length is as doubling has "
                "it (1) and not as equal steps have it (0)"
            ),
            paper="states of exponentially longer sequences",
            recipe=f"{PAPER}/figure-10-probing-by-length.toml",
            measure=lens.length_bend(model),
            rule=AtLeast(0.5),
            ours=True,
            stand_in=recipe,
            note=note,
            noted="",
            general=True,
            picture="probes-by-length",
        )
        for kind, model, recipe, note in (
            ("AA", A, ZOO_A, ""),
            ("PAA", P, ZOO_P, BENDS),
        )
    ),
    Claim(
        name="s5-probing",
        where="Figure 3, §4.3",
        says="On S5 there are AA and PAA models as well, by probes",
        paper="on both S3 and S5",
        recipe=f"{PAPER}/figure-3-probing.toml",
        measure=s5.kinds(
            "probing.csv",
            s5.untaught(s5.by_probing),
            lambda p: p <= lens.GUESSED,
            lambda p: p >= lens.READ,
            " that was not taught parity",
        ),
        rule=AtLeast(2, least=2),
        ours=True,
        note=(
            "The one PAA model of S5 in results/ (picture) was taught parity before the state: "
            "that a probe finds parity in it says nothing, so it does not count. The bounds are "
            "those of S3."
        ),
        noted="",
        picture="probes-s5",
    ),
)
