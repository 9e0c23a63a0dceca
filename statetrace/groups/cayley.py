"""Group: a finite group as its Cayley table, and Quotient: a map from it onto a smaller one.

Elements are indices 0 .. order-1; `table[a][b]` is a then b. Elements may also be given by label,
several separated by commas. Structure (classes, normal subgroups, quotients, ...) is computed from
the table on first use and cached.

Cost: the table has order squared entries, 51 MB for S7; `quotients()` builds the table of every
image too. See structure.py for the rest.
Caveat: tables and maps have the smallest unsigned dtype that fits, so widen before arithmetic
(`table.astype(np.int64)`): uint8 wraps around in numpy and means a mask as an index in torch.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups import construct, files, structure
from statetrace.groups.axioms import check_group, check_labels, check_parity, listed, table_entries
from statetrace.groups.construct import MAX_ORDER, Generators
from statetrace.groups.elements import Element, Elements, chosen_actions, indices
from statetrace.groups.notation import check_notation
from statetrace.groups.recognise import abelian_invariants, recognise

Subset = tuple[int, ...]  # sorted

_NAMES_SHOWN = 40  # in error messages


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group: `group("S5")` for the named ones, `Group.from_table`,
    `Group.from_permutations`, `Group.from_matrices` or `Group.load` for any other.

    Attributes:
        name: canonical, such as "S5" or "A4xZ5"; for the image of a quotient the family it
            belongs to, or "order-48".
        notation: how one-line labels are read, "moves" or "receives"; see notation.py.
        labels: one per element, without spaces and commas.
        table: [order, order], read-only; the group takes ownership of the array.
        parity: [order] of 0 (even) and 1 (odd), read-only, or None where there is no parity or
            more than one; see structure.unique_parity.
        trusted: skips the check of the group axioms, for tables that are groups by construction.
    """

    name: str
    notation: str
    labels: tuple[str, ...] = field(repr=False)
    table: NDArray[Any] = field(repr=False)
    parity: NDArray[np.int8] | None = field(repr=False)
    trusted: InitVar[bool] = False

    def __post_init__(self, trusted: bool) -> None:
        if self.table.shape != (self.order, self.order) or len(set(self.labels)) != self.order:
            raise StatetraceError(
                f"the group {self.name!r} has {self.order} labels, {len(set(self.labels))} of them "
                f"different, and a table of shape {self.table.shape}; use different labels, one "
                "for each row and column"
            )
        if not trusted:
            check_group(self.name, self.labels, self.table)
            if self.parity is not None:
                check_parity(self.name, self.table, self.parity)
        self.table.setflags(write=False)
        if self.parity is not None:
            self.parity.setflags(write=False)

    @staticmethod
    def from_table(
        table: Sequence[Sequence[Element]] | NDArray[Any],
        name: str | None = None,
        labels: Sequence[str] | None = None,
        notation: str = "moves",
        parity: Sequence[int] | None = None,
    ) -> "Group":
        """A group from its Cayley table, refused in one sentence where an axiom does not hold.

        Args:
            table: [order, order] of element numbers or labels; row a, column b is a then b.
            name: by default "order-N".
            labels: by default 0, 1, 2, ...
            parity: by default the map onto Z2, where there is exactly one.
        """
        check_notation(notation)
        try:
            len(table), [len(row) for row in table]
        except TypeError:
            raise StatetraceError(
                f"{table!r} is not a Cayley table; use one row of element numbers or labels for "
                "each element, such as [[0, 1], [1, 0]]"
            ) from None
        labels = tuple(map(str, range(len(table)) if labels is None else labels))
        name = str(name or f"order-{len(labels)}")
        check_labels(name, labels)
        entries = table_entries(name, labels, table)
        signs = None if parity is None else np.array(parity, dtype=np.int8)
        if signs is None:
            signs = structure.unique_parity(entries)
        else:
            check_parity(name, entries, signs)
        return Group(name, notation, labels, entries, signs, trusted=True)

    @staticmethod
    def from_permutations(
        generators: Generators,
        name: str | None = None,
        labels: Sequence[str] | None = None,
        notation: str = "moves",
        limit: int = MAX_ORDER,
    ) -> "Group":
        """The group that some permutations generate, each in one-line notation: "213", (2, 1, 3)
        or (1, 0, 2). Elements are in lexicographic order."""
        check_notation(notation)
        labelled = construct.generated_by_permutations(generators, notation, limit)
        return Group._generated(labelled, name, labels, notation)

    @staticmethod
    def from_matrices(
        generators: Generators,
        modulus: int | None = None,
        name: str | None = None,
        labels: Sequence[str] | None = None,
        limit: int = MAX_ORDER,
    ) -> "Group":
        """The group that some invertible matrices generate, of whole numbers modulo `modulus`, or
        of any numbers. `a then b` is the matrix product a b. Elements are labelled by words in the
        generators (e, a, b, aa, ...), which take the names of a mapping."""
        labelled = construct.generated_by_matrices(generators, modulus, limit)
        return Group._generated(labelled, name, labels, "moves")

    @staticmethod
    def from_generators(
        generators: Generators, modulus: int | None = None, **settings: Any
    ) -> "Group":
        """`from_matrices` where the generators are matrices, else `from_permutations`."""
        values = list(generators.values() if isinstance(generators, Mapping) else generators)
        first = values[0] if values else ()
        rows = isinstance(first, np.ndarray | list | tuple) and any(
            isinstance(row, np.ndarray | list | tuple) for row in first
        )
        if modulus is not None or rows:
            return Group.from_matrices(generators, modulus, **settings)
        return Group.from_permutations(generators, **settings)

    @staticmethod
    def _generated(
        labelled: construct.Labelled, name: str | None, labels: Sequence[str] | None, notation: str
    ) -> "Group":
        labels = labelled.labels if labels is None else tuple(map(str, labels))
        name = str(name or f"order-{len(labelled.labels)}")
        check_labels(name, labels)
        parity = structure.unique_parity(labelled.table)
        return Group(name, notation, labels, labelled.table, parity, trusted=True)

    def save(self, path: Path | str) -> None:
        """Write the group as JSON; see files.py."""
        content: dict[str, Any] = {"name": self.name, "notation": self.notation}
        content |= {"labels": list(self.labels), "table": self.table.tolist()}
        if self.parity is not None and structure.unique_parity(self.table) is None:
            content["parity"] = self.parity.tolist()  # a choice among several
        files.write(Path(path), content)

    @staticmethod
    def load(path: Path | str) -> "Group":
        """Read a group file, written by `save` or by hand."""
        content = files.read(Path(path))
        try:
            if "table" in content:
                return Group.from_table(**content)
            return Group.from_generators(**content)
        except TypeError as error:
            raise StatetraceError(f"the group file '{path}' cannot be used: {error}") from None
        except StatetraceError as error:
            raise StatetraceError(f"{error} (in '{path}')") from None

    def __eq__(self, other: object) -> bool:
        """The same labels and the same table; isomorphic groups may differ."""
        if not isinstance(other, Group):
            return NotImplemented
        return self is other or (
            (self.name, self.notation, self.labels) == (other.name, other.notation, other.labels)
            and np.array_equal(self.table, other.table)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.notation, self.order))

    @property
    def order(self) -> int:
        return len(self.labels)

    @cached_property
    def identity(self) -> int:
        return structure.identity(self.table)

    @cached_property
    def inverse(self) -> NDArray[Any]:
        """Element -> its inverse: [order], read-only."""
        return _frozen(structure.inverses(self.table))

    # Elements by name

    def index(self, label: str) -> int:
        """The element with this label."""
        if label not in self._index:
            raise StatetraceError(
                f"{self.name} has no element {label!r}; its elements are {listed(self.labels)}"
            )
        return self._index[label]

    def product(self, sequence: Elements) -> int:
        """The product of the elements, the first one applied first; the identity for none."""
        result = self.identity
        for element in indices(self, sequence):
            result = int(self.table[result, element])
        return result

    def generators(self, kind: Elements) -> tuple[int, ...]:
        """The actions meant by "all", "transpositions" (S_n only) or some labels, in that order.

        They need not generate the group; `generates` tests that.
        """
        return chosen_actions(self, kind)

    def generates(self, elements: Elements) -> bool:
        """Whether every element is a product of these."""
        return len(self.subgroup(elements)) == self.order

    # Structure

    def subgroup(self, elements: Elements) -> Subset:
        """The subgroup that these elements generate."""
        chosen = np.array(indices(self, elements), dtype=np.int64)
        return _members(structure.generate(self.table, chosen)[0])

    def conjugacy_classes(self) -> tuple[Subset, ...]:
        """In the order of their first members."""
        return self._conjugacy_classes

    def normal_subgroups(self) -> tuple[Subset, ...]:
        """All of them, smallest first, with the trivial one and the whole group."""
        return self._normal_subgroups

    def commutator_subgroup(self) -> Subset:
        everything = np.arange(self.order)
        return _members(structure.commutator_subgroup(self.table, self.inverse, everything))

    def derived_series(self) -> tuple[Subset, ...]:
        """The group, its commutator subgroup, that one's, ... until it no longer shrinks."""
        series = [np.arange(self.order)]
        while True:
            mask = structure.commutator_subgroup(self.table, self.inverse, series[-1])
            if mask.sum() == len(series[-1]):
                return tuple(tuple(members.tolist()) for members in series)
            series.append(np.flatnonzero(mask))

    def is_abelian(self) -> bool:
        return structure.is_abelian(self.table)

    def is_solvable(self) -> bool:
        return len(self.derived_series()[-1]) == 1

    # Quotients

    def quotients(self) -> tuple["Quotient", ...]:
        """The maps onto smaller nontrivial groups: "parity" first where there is one, then by the
        order of the image."""
        return self._quotients

    def chain(self) -> tuple["Quotient", ...]:
        """A chain of quotients, each determined by the next: the first one (parity, where there is
        one), then the smallest that refines it, and so on. Empty for simple groups."""
        try:
            quotients = self.quotients()
        except StatetraceError:  # too many to list
            quotients = () if self._parity is None else (self._parity,)
        chain: list[Quotient] = []
        for quotient in quotients:
            if not chain or set(quotient.kernel) < set(chain[-1].kernel):
                chain.append(quotient)
        return tuple(chain)

    def quotient(self, name: str) -> "Quotient":
        """One of `quotients()` by its name."""
        if name == "parity" and self._parity is not None:  # even if the others are too many
            return self._parity
        for quotient in self.quotients():
            if quotient.name == name:
                return quotient
        names = listed([quotient.name for quotient in self.quotients()], _NAMES_SHOWN)
        has = f"its quotients are {names}" if names else "it has none besides itself and Z1"
        raise StatetraceError(f"{self.name} has no quotient {name!r}; {has}")

    def quotient_by(self, kernel: Elements, name: str | None = None) -> "Quotient":
        """The quotient by a normal subgroup, named after its image by default."""
        mask = np.zeros(self.order, dtype=np.bool_)
        mask[indices(self, kernel)] = True
        if not structure.is_normal_subgroup(self.table, self.inverse, mask):
            members = listed([self.labels[i] for i in _members(mask)])
            raise StatetraceError(
                f"the elements {members or 'of the empty set'} are not a normal subgroup of "
                f"{self.name}; use one of normal_subgroups()"
            )
        return self._quotient(_members(mask), name)

    def abelianization(self) -> "Quotient":
        """The largest abelian image; for an abelian group all of it, for A5 the trivial group."""
        return self._quotient(self.commutator_subgroup(), "abelianization")

    def abelian_invariants(self) -> tuple[int, ...]:
        """The abelianization as a product of cyclic groups whose orders divide one another:
        (2,) for S5, () for A5, (2, 2) for D4, (12,) for Z12."""
        return abelian_invariants(structure.element_orders(self.abelianization().image.table))

    # Cached structure

    @cached_property
    def _index(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}

    @cached_property
    def _conjugacy_classes(self) -> tuple[Subset, ...]:
        classes = structure.conjugacy_classes(self.table, self.inverse)
        return tuple(tuple(members.tolist()) for members in classes)

    @cached_property
    def _normal_subgroups(self) -> tuple[Subset, ...]:
        masks = structure.normal_subgroups(self.table, self.inverse, self.name)
        return tuple(_members(mask) for mask in masks)

    @cached_property
    def _parity(self) -> "Quotient | None":
        if self.parity is None or self.order == 2:  # of two elements, parity is the state
            return None
        return self._quotient(_members(self.parity == 0), "parity", ("even", "odd"))

    @cached_property
    def _quotients(self) -> tuple["Quotient", ...]:
        named = [] if self._parity is None else [self._parity]
        even = [quotient.kernel for quotient in named]
        proper = self.normal_subgroups()[1:-1]
        others = [self._quotient(kernel) for kernel in proper if kernel not in even]
        others.sort(key=lambda quotient: (quotient.image.order, quotient.kernel))
        total = Counter(quotient.name for quotient in others)
        so_far: Counter[str] = Counter()
        for quotient in others:
            so_far[quotient.name] += 1
            suffix = f".{so_far[quotient.name]}" if total[quotient.name] > 1 else ""
            named.append(replace(quotient, name=quotient.name + suffix))
        return tuple(named)

    def _quotient(
        self, kernel: Subset, name: str | None = None, labels: tuple[str, ...] | None = None
    ) -> "Quotient":
        """`kernel` is known to be a normal subgroup; cosets are labelled [first member]."""
        coset_of = _frozen(structure.coset_map(self.table, np.array(kernel)))
        _, first = np.unique(coset_of, return_index=True)
        table = coset_of[self.table[np.ix_(first, first)]]
        family = recognise(table) or f"order-{len(first)}"
        labels = labels or tuple(f"[{self.labels[i]}]" for i in first)
        parity = structure.unique_parity(table)
        image = Group(family, self.notation, labels, table, parity, trusted=True)
        return Quotient(name or family, kernel, image, coset_of)


@dataclass(frozen=True)
class Quotient:
    """A map from a group onto a smaller one that respects products.

    Attributes:
        name: "parity", or the family of the image ("S3"; "Z2.1", "Z2.2" where several have it;
            "order-48" where it has no name), unique within the group.
        kernel: the elements that are mapped to the identity, sorted.
        image: the smaller group; its elements are the cosets of the kernel, labelled by their
            first members ("[123]"), for parity "even" and "odd".
        map: [order], element -> element of the image, read-only.
    """

    name: str
    kernel: Subset = field(repr=False)
    image: Group
    map: NDArray[Any] = field(repr=False, compare=False)  # determined by kernel and image


def _members(mask: NDArray[np.bool_]) -> Subset:
    return tuple(np.flatnonzero(mask).tolist())


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
