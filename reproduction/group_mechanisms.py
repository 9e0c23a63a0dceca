"""Which group, which mechanism? docs/findings/groups.md.

    python -m reproduction.group_mechanisms --measure runs/groups
    python -m reproduction.group_mechanisms

The first tabulates a trained study. The second computes the tests and draws the figure from
results/groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from calibration.measuring import group_of
from reproduction.findings import Count, holm
from reproduction.judged import Judged, run
from reproduction.lens_model import AA
from reproduction.statistics import exact_two_sided, spearman
from statetrace.groups import Group
from statetrace.mechanisms.sentences import EVEN, LEAD
from statetrace.reports.figures.chart import Chart, Dots, Edges, Mark, Panel, ReferenceLine
from statetrace.reports.figures.study_shares import STYLES, order

RESULTS, FIGURE = "results/groups", "docs/findings/groups.png"
LENGTH = 8
SAME_CHAIN = (("D4", "Q8"), ("D6", "Dic3"))
SECTIONS = {1: "abelian", 2: "derived length 2", 3: "derived length 3", None: "not solvable"}
"""By derived length."""
UNDECIDED, STATE = "undecided", "state"
KINDS = {
    "abelianization": ("ink", "circle"),
    "smaller abelian quotient": ("fifth", "triangle-down"),
    "nonabelian quotient": ("fourth", "triangle-up"),
    "no quotient": ("faint", "circle"),
    STATE: ("ink", "diamond"),
}
"""Of the links of a chain, with colour and mark."""
NAMES = {"SL23": "SL(2,3)"}


@dataclass(frozen=True)
class GroupModels:
    """The models of a group, learned or not."""

    group: Group
    models: Sequence[Judged]

    @property
    def learned(self) -> list[Judged]:
        return [model for model in self.models if model.map is not None]

    @property
    def derived_length(self) -> int | None:
        """None for a group that is not solvable."""
        return len(self.group.derived_series()) - 1 if self.group.is_solvable() else None

    @property
    def links(self) -> tuple[str, ...]:
        """The chain of quotients, from the coarsest, and the state."""
        return (*(quotient.name for quotient in self.group.chain()), STATE)

    def mechanisms(self, name: Callable[[Judged], str]) -> Counter[str]:
        """Of the learned models."""
        return Counter(map(name, self.learned))

    def own(self) -> list[list[str]]:
        """The quotients of the chain that each learned model computes on its own."""
        maps = [model.map for model in self.learned if model.map is not None]
        return [
            [link.name for link, own in zip(m.links[:-1], m.own, strict=True) if own >= EVEN]
            for m in maps
        ]

    def on_its_own(self, quotients: Sequence[str]) -> list[bool]:
        """Whether each learned model computes one of these quotients on its own."""
        return [not {*own}.isdisjoint(quotients) for own in self.own()]

    def leads(self, over: str = STATE) -> list[float | None]:
        """Of the coarsest quotient over another link, in the training of each learned model."""
        return [model.leads.get((self.links[0], over)) for model in self.learned]

    @property
    def abelianization(self) -> str | None:
        """The link of the chain that is the largest abelian quotient; None if no link is."""
        return next((link for link in self.links if self.kind(link) == "abelianization"), None)

    def kind(self, link: str) -> str:
        """The key of KINDS for a link of the chain."""
        if link == STATE:
            return STATE
        kernel, commutators = ({*of} for of in (self.group.quotient(link).kernel,
                                                self.group.commutator_subgroup()))  # fmt: skip
        if kernel == commutators:
            return "abelianization"
        return "smaller abelian quotient" if kernel > commutators else "nonabelian quotient"

    def largest(self) -> list[str]:
        """The kind of the largest quotient that each learned model computes on its own."""
        return [self.kind(own[-1]) if own else "no quotient" for own in self.own()]

    def counts_abelianization(self) -> list[bool]:
        """Whether that is the abelianization and needs no more layers for longer sequences."""
        composed = self.composed(self.abelianization or STATE)
        pairs = zip(self.largest(), composed, strict=True)
        return [kind == "abelianization" and grows < EVEN for kind, grows in pairs]

    def composed_links(self) -> Counter[str]:
        """How many learned models compose which links."""
        shares = zip(*map(self.composed, self.links), strict=True)
        return Counter(
            ", ".join(link for link, grows in zip(self.links, each, strict=True) if grows >= EVEN)
            for each in shares
        )

    def first_learned(self) -> Counter[str]:
        """The quotient that was learned before the others with an image of its order, or "none";
        for groups with several as coarse as the first of the chain."""
        quotients = self.group.quotients()
        coarsest = [q.name for q in quotients if q.image.order == quotients[0].image.order]
        logged = [
            sorted((model.leads[name, STATE], name) for name in coarsest)
            for model in self.learned
            if len(coarsest) > 1 and all((name, STATE) in model.leads for name in coarsest)
        ]
        return Counter(
            first if lead - second > LEAD else "none" for *_, (second, _), (lead, first) in logged
        )

    def needed(self, link: str) -> list[float]:
        """The layers that it needs at LENGTH, in each learned model that solves it."""
        return [
            float(each.needed[each.lengths == LENGTH][0])
            for model in self.learned
            for each in model.links
            if each.name == link and LENGTH in each.lengths
        ]

    def composed(self, link: str) -> list[float]:
        """The probability that it needs more layers for longer sequences, in each learned model."""
        maps = [model.map for model in self.learned if model.map is not None]
        return [
            grows
            for each in maps
            for of, grows in zip(each.links, each.grows, strict=True)
            if of.name == link
        ]


def by_group(models: Sequence[Judged]) -> dict[str, GroupModels]:
    """In the order of SECTIONS, small groups first."""
    found: dict[str, list[Judged]] = {}
    for model in models:
        found.setdefault(model["group"], []).append(model)
    groups = [GroupModels(group_of(mine[0].row), mine) for mine in found.values()]
    sections = [*SECTIONS]
    groups.sort(key=lambda each: (sections.index(each.derived_length), each.group.order))
    return {each.group.name: each for each in groups}


def verdict(model: Judged) -> str:
    """Its mechanism, "undecided" or "unlearned"."""
    return model.mechanism if model.decided else UNDECIDED


def likeliest(model: Judged) -> str:
    return model.mechanism


Claim = Mapping[str, Sequence[bool]]
"""By group, whether it holds for each learned model."""


def claims(groups: Mapping[str, GroupModels]) -> dict[str, Claim]:
    """Of hypotheses 1 to 3."""
    abelian = {name: each for name, each in groups.items() if each.group.is_abelian()}
    others = {name: each for name, each in groups.items() if name not in abelian}
    chains = {name: each for name, each in others.items() if each.group.chain()}
    simple = {name: each for name, each in others.items() if name not in chains}
    known = {name: each for name, each in chains.items() if each.abelianization}

    def named(some: Mapping[str, GroupModels], mechanism: str) -> Claim:
        return {name: [verdict(m) == mechanism for m in g.learned] for name, g in some.items()}

    own = {name: each.on_its_own(each.links[:1]) for name, each in chains.items()}
    some = {name: each.on_its_own(each.links[:-1]) for name, each in chains.items()}
    leads = {name: each.leads() for name, each in chains.items()}
    before = {name: [x > LEAD for x in mine if x is not None] for name, mine in leads.items()}
    both = {
        name: [o and x > LEAD for o, x in zip(own[name], mine, strict=True) if x is not None]
        for name, mine in leads.items()
    }
    return {
        "1. abelian groups: parallel": named(abelian, "parallel"),
        "2. nonabelian groups with a chain: coarsest quotient on its own": own,
        "2. nonabelian groups with a chain: coarsest quotient before the state": before,
        "2. nonabelian groups with a chain: both": both,
        "not planned: any quotient on its own": some,
        "not planned: the largest quotient on its own is the abelianization": {
            name: [kind == "abelianization" for kind in g.largest()] for name, g in known.items()
        },
        "not planned: and it is counted": {
            name: g.counts_abelianization() for name, g in known.items()
        },
        "not planned: coarsest quotient before a larger abelianization": {
            name: [lead > LEAD for lead in g.leads(g.abelianization or STATE) if lead is not None]
            for name, g in known.items()
            if g.abelianization != g.links[0]
        },
        "3. groups without a quotient: associative": named(simple, AA),
    }


def over_models(claim: Claim) -> Count:
    return Count(sum(map(sum, claim.values())), sum(map(len, claim.values())))


def over_groups(claim: Claim) -> Count:
    """In how many groups it holds for most models."""
    shares = [sum(flags) / len(flags) for flags in claim.values() if flags]
    return Count(sum(share > 0.5 for share in shares), len(shares))


def by_derived_length(groups: Mapping[str, GroupModels]) -> dict[str, tuple[int, float]]:
    """Of solvable groups: the derived length, and the median of the layers that the state needs."""
    return {
        name: (each.derived_length, median(needed))
        for name, each in groups.items()
        if each.derived_length is not None and (needed := each.needed(STATE))
    }


def same_mechanisms(
    groups: Mapping[str, GroupModels], name: Callable[[Judged], str] = verdict
) -> dict[str, float]:
    """p of each pair of groups with the same chain."""
    tests = {}
    for first, second in SAME_CHAIN:
        if {first, second} <= groups.keys():
            counts = [groups[each].mechanisms(name) for each in (first, second)]
            if not all(counts):
                continue
            names = sorted(counts[0] | counts[1])
            table = [[count[each] for each in names] for count in counts]
            tests[f"{first} against {second}"] = exact_two_sided(*table)
    return tests


def planned_tests(groups: Mapping[str, GroupModels]) -> dict[str, tuple[float, float]]:
    """p, and p after Holm's correction."""
    raw = same_mechanisms(groups)
    if known := by_derived_length(groups):
        raw["layers by derived length"] = spearman(*zip(*known.values(), strict=True))[1]
    return {test: (raw[test], p) for test, p in holm(raw).items()}


def figure(models: Sequence[Judged]) -> Chart:
    """A row per group: the mechanism of each model, the largest quotient that it computes on its
    own, and the layers that each link needs."""
    groups = by_group(models)
    rows: dict[str, int] = {}
    lines, row = [], 0
    for length, title in SECTIONS.items():
        members = [name for name, each in groups.items() if each.derived_length == length]
        lines += [ReferenceLine("y", row + 0.45, title, "faint", "solid")] if members else []
        rows |= {name: row + i for i, name in enumerate(members, start=1)}
        row += len(members) + bool(members)
    plain = tuple(ReferenceLine("y", line.at, "", "faint", "solid") for line in lines)
    size = max(len(each.models) for each in groups.values())
    about: dict[str, Any] = {"y_range": (-0.4, row - 0.3), "down": True, "tall": 0.4 + row / 15}

    def chain(name: str) -> str:
        return ", ".join(_name(q.image.name) for q in groups[name].group.chain()) or "none"

    def abelianization(name: str) -> str:
        group = groups[name].group
        shown = () if group.is_abelian() else group.abelian_invariants()
        return "×".join(f"Z{n}" for n in shown)

    def ticks(text: Callable[[str], str]) -> tuple[tuple[float, str], ...]:
        return tuple((float(at), text(name)) for name, at in rows.items())

    about |= {"x_range": (0.2, size + 0.8)}
    panels = (
        Panel("models", "", (*lines, *_mechanisms(groups, rows)), "mechanism",
              y_ticks=ticks(_name), **about),
        Panel("models", "", (*plain, *_largest(groups, rows)), "largest quotient on its own",
              y_ticks=ticks(abelianization), **about),
        Panel("layers (median, quartiles)", "", (*plain, *_layers(groups, rows)),
              f"layers needed at length {LENGTH}", y_ticks=ticks(chain),
              **about | {"x_range": (0.5, 5.2)}),
    )  # fmt: skip
    return Chart("groups", "Mechanisms by group", panels, columns=len(panels))


def _name(name: str) -> str:
    return NAMES.get(name, name).replace("x", "×")


Places = dict[str, list[tuple[float, float, str]]]
"""Mechanism or kind of quotient -> x, y and text of each of its models."""


def _mechanisms(groups: Mapping[str, GroupModels], rows: Mapping[str, float]) -> list[Dots]:
    """A dot per model, those with the same mechanism side by side."""
    places: Places = {}
    for name, each in groups.items():
        ranked = sorted(each.models, key=lambda model: order(verdict(model)))
        for x, model in enumerate(ranked, start=1):
            places.setdefault(verdict(model), []).append((x, rows[name], model["cell"]))
    return _dots(places, STYLES)


def _largest(groups: Mapping[str, GroupModels], rows: Mapping[str, float]) -> list[Dots]:
    """A dot per model of the nonabelian groups with a chain."""
    places: Places = {}
    for name, each in groups.items():
        if each.group.chain() and not each.group.is_abelian():
            ranked = sorted(each.largest(), key=[*KINDS].index)
            for x, kind in enumerate(ranked, start=1):
                places.setdefault(kind, []).append((x, rows[name], name))
    return _dots(places, KINDS)


def _dots(places: Places, styles: Mapping[str, tuple[str, str]]) -> list[Dots]:
    dots = []
    for name in sorted(places, key=[*styles].index):
        x, y, texts = zip(*places[name], strict=True)
        dots.append(Dots(name, x, y, texts, *styles[name], 8))
    return dots


def _layers(groups: Mapping[str, GroupModels], rows: Mapping[str, float]) -> list[Mark]:
    """Median and quartiles of each link."""
    marks: list[Mark] = [Dots(STATE, [], [], (), *KINDS[STATE])]
    for name, each in groups.items():
        links = [link for link in each.links if len(each.needed(link)) > 1]
        for number, link in enumerate(links):
            y = rows[name] + 0.22 * (number - (len(links) - 1) / 2)
            low, x, high = quantiles(each.needed(link), n=4, method="inclusive")
            colour, mark = KINDS[each.kind(link)]
            marks.append(Edges("", [((low, y), (high, y))], colour=colour))
            marks.append(Dots("", [x], [y], [f"{name}: {link}"], colour, mark, 6))
    return marks


def report(models: Sequence[Judged]) -> None:
    groups = by_group(models)
    for name, each in groups.items():
        print(f"{name}: {len(each.learned)} of {len(each.models)} learned")
        print(f"  {dict(each.mechanisms(verdict))}, likeliest {dict(each.mechanisms(likeliest))}")
        for link in each.links:
            layers, grows = each.needed(link), each.composed(link)
            composed = f"composed in {sum(share >= EVEN for share in grows)} of {len(grows)}"
            print(f"  {link}: {composed}, layers {median(layers) if layers else float('nan'):.2f}")
        print(f"  learned first among equally coarse quotients: {dict(each.first_learned())}")
        print(f"  largest quotient on its own: {dict(Counter(each.largest()))}")
        print(f"  composed links: {dict(each.composed_links())}")
    for claim, flags in claims(groups).items():
        print(claim)
        for what, count in (("models", over_models(flags)), ("groups", over_groups(flags))):
            low, high = count.interval()
            print(f"  {count.count} of {count.n} {what} ({low:.0%} to {high:.0%})")
        print("  by group:", {name: f"{sum(each)} of {len(each)}" for name, each in flags.items()})
    known = by_derived_length(groups)
    print(f"layers of the state at length {LENGTH}, by derived length")
    longer = {name: pair for name, pair in known.items() if pair[0] > 1}
    for what, pairs in (("all", known), ("nonabelian", longer)):
        if pairs:
            value, p = spearman(*zip(*pairs.values(), strict=True))
            print(f"  rank correlation, {what}: {value:.2f}, p {p:.3g}")
    for test, (p, corrected) in planned_tests(groups).items():
        print(f"{test}: p {p:.3g}, corrected {corrected:.3g}")
    print("with the likeliest mechanisms instead:", same_mechanisms(groups, likeliest))


if __name__ == "__main__":
    run(__doc__, RESULTS, FIGURE, report, figure)
