"""The irreducible characters of a finite group, from its Cayley table alone.

Purpose: any function on the group, such as "the mean activation in state g", is a sum of parts,
one per irreducible representation; the share of variance in each characterises the function (the
sign part is parity, "4a" of S5 is "where is object k", ...).

Method: Burnside and Dixon. The class sums act on the centre of the group algebra by commuting
matrices whose common eigenvectors are the characters; one random Hermitian combination of them has
orthonormal eigenvectors and separates them all. Every value is then refined to rounding error:
restricted to the powers of an element g, a character is a sum of characters of a cyclic group with
whole-number multiplicities, which a Fourier transform gives and which are rounded. A result that
violates the orthogonality relations is drawn again.

Cost: one eigendecomposition of a [classes, classes] matrix: a millisecond for S5, 0.2 s for S7
(most of it finding the classes). `isotypic_shares` costs a Gram matrix, order² times D.
Caveat: only characters are computed, not the representing matrices; which of two conjugate complex
ones comes first is an arbitrary but stable choice.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from statetrace.errors import StatetraceError
from statetrace.groups.cayley import Group, Subset

MAX_CLASSES = 1000
"""Larger tables would take minutes and a gigabyte; only groups with a large centre have them."""

_TRIES = 8  # draws; the first one almost always succeeds
_ROUNDING = 1e-3  # how far a whole number may be from one before rounding
_ROWS = 512  # of the Gram matrix at once

Complex = NDArray[np.complex128]


class Component(NamedTuple):
    """A part of the *real* functions on a group: one irreducible representation, or two complex
    ones that are conjugate and of which real data always has equal shares.

    Attributes:
        name: "sign", "4a", or "1a+1a*" for two.
        irreps: rows of the character table.
        dimension: of the space of functions: degree², or twice that.
    """

    name: str
    irreps: tuple[int, ...]
    dimension: int


@dataclass(frozen=True, eq=False)
class CharacterTable:
    """Attributes:
    classes: the conjugacy classes, as `Group.conjugacy_classes()` has them.
    table: [irreps, classes], the value of each character on each class; read-only.
    degrees: of the representations: the values at the identity.
    names: "trivial"; "sign" for the one that is 1 on even and -1 on odd elements, where the
        group has a parity; otherwise the degree and a letter, "4a", with a star for the
        conjugate of the one before. Rows are sorted by degree, trivial and sign first.
    """

    classes: tuple[Subset, ...]
    table: Complex
    degrees: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def class_of(self) -> NDArray[np.int64]:
        """Element -> number of its class: [order]."""
        return _class_of(self.classes)

    def components(self) -> tuple[Component, ...]:
        """The parts of real functions, without the trivial one, which is their mean."""
        parts = []
        for row in range(1, len(self.names)):
            name, dimension = self.names[row], self.degrees[row] ** 2
            if name.endswith("*"):
                continue
            if row + 1 < len(self.names) and self.names[row + 1] == f"{name}*":
                parts.append(Component(f"{name}+{name}*", (row, row + 1), 2 * dimension))
            else:
                parts.append(Component(name, (row,), dimension))
        return tuple(parts)


@lru_cache(maxsize=16)
def characters(group: Group) -> CharacterTable:
    """The character table of a group with at most MAX_CLASSES conjugacy classes."""
    classes = group.conjugacy_classes()
    if len(classes) > MAX_CLASSES:
        raise StatetraceError(
            f"{group.name} has {len(classes)} conjugacy classes; character tables are computed for "
            f"groups with at most {MAX_CLASSES}"
        )
    for seed in range(_TRIES):
        table = _exact(group, classes, _approximate(group, classes, seed))
        if table is not None:
            return _named(group, classes, table)
    raise StatetraceError(
        f"no character table was found for {group.name}: its {len(classes)} characters stayed "
        f"mixed in {_TRIES} attempts; is its Cayley table that of a group?"
    )


def isotypic_shares(group: Group, vectors: NDArray[Any]) -> NDArray[np.float64]:
    """How the variance of a function on the group, `vectors` [order, D], is divided among
    `characters(group).components()`: [components], adding up to 1.

    The part in the representation with character chi is the projection
    (P f)(g) = degree / order * sum_h conj(chi(h)) f(h^-1 g), the same whether h acts from the
    left or from the right; its squared length is computed from the inner products of the vectors,
    summed over pairs (g, g') with g g'^-1 in one class. The mean is subtracted first, so the
    trivial representation has no share and is left out. For a constant function all shares are NaN.
    Vectors without structure (isotropic noise) have the share dimension / (order - 1).
    """
    values = np.asarray(vectors, dtype=np.float64)
    if values.ndim != 2 or len(values) != group.order:
        raise StatetraceError(
            f"vectors of shape {values.shape} are not a function on {group.name}; "
            f"give one vector for each of its {group.order} elements, [{group.order}, D]"
        )
    irreps = characters(group)
    parts = irreps.components()
    values = values - values.mean(axis=0)
    total = float((values**2).sum())
    if total <= np.finfo(np.float64).tiny:
        return np.full(len(parts), np.nan)
    correlation = np.zeros(len(irreps.classes))  # per class: sum of <f(g), f(g')>
    class_of = irreps.class_of
    for start in range(0, group.order, _ROWS):
        rows = slice(start, start + _ROWS)
        gram = values[rows] @ values.T
        quotient = class_of[group.table[rows][:, group.inverse]]  # class of g g'^-1
        correlation += np.bincount(quotient.ravel(), gram.ravel(), len(correlation))
    weights = np.array(irreps.degrees) / group.order
    lengths = weights * (irreps.table.conj() @ correlation).real  # [irreps], squared lengths
    shares = np.array([lengths[list(part.irreps)].sum() for part in parts]) / total
    return np.clip(shares, 0.0, 1.0)  # rounding leaves -1e-17


def _class_of(classes: tuple[Subset, ...]) -> NDArray[np.int64]:
    class_of = np.empty(sum(map(len, classes)), dtype=np.int64)
    for number, members in enumerate(classes):
        class_of[list(members)] = number
    return class_of


def _approximate(group: Group, classes: tuple[Subset, ...], seed: int) -> Complex:
    """Characters to about ten digits, unsorted: [irreps, classes].

    With omega(k) = |C_k| chi(k) / chi(1) and any class function c, the matrix
    M[j, k] = sum over y in C_j of c(z_k y^-1), z_k in C_k, has M omega = (sum_i c_i omega_i) omega.
    Divided by the roots of the class sizes, the eigenvectors sqrt|C_k| chi(k) are orthogonal; and
    with c(g^-1) = conj(c(g)) the matrix is Hermitian.
    """
    rng = np.random.default_rng(seed)
    class_of = _class_of(classes)
    roots = np.sqrt([len(members) for members in classes])
    first = np.array([members[0] for members in classes])
    draws = rng.standard_normal((2, len(classes)))
    combination = (draws[0] + 1j * draws[1]) / roots
    inverse_class = class_of[group.inverse[first]]
    combination = combination + combination[inverse_class].conj()
    by_class = np.concatenate([np.array(members) for members in classes])  # elements y
    starts = np.concatenate([[0], np.cumsum(roots**2)[:-1]]).round().astype(np.int64)
    products = group.table[np.ix_(first, group.inverse[by_class])]  # z_k y^-1, [classes, order]
    sums = np.add.reduceat(combination[class_of[products]], starts, axis=1)  # [k, j]
    matrix = sums.T * roots[None, :] / roots[:, None]
    _, vectors = np.linalg.eigh((matrix + matrix.conj().T) / 2)
    values = vectors.T / roots  # proportional to chi
    neutral = class_of[group.identity]
    phase = values[:, neutral] / np.abs(values[:, neutral])
    return np.sqrt(group.order) * values / phase[:, None]


def _exact(group: Group, classes: tuple[Subset, ...], table: Complex) -> Complex | None:
    """The same with every value exact to rounding, or None if it is not a character table."""
    class_of = _class_of(classes)
    exact = np.zeros_like(table)
    done = np.zeros(len(classes), dtype=np.bool_)
    # elements of high order first: their powers settle other classes at the same time
    chains = [_powers(group, members[0]) for members in classes]
    for chain in sorted(chains, key=len, reverse=True):
        along = class_of[chain]
        if done[along[1 % len(along)]]:
            continue
        multiplicities = np.fft.fft(table[:, along], axis=1) / len(chain)
        whole = multiplicities.real.round()
        if np.abs(multiplicities - whole).max() > _ROUNDING or whole.min() < 0:
            return None
        exact[:, along] = np.fft.ifft(whole, axis=1) * len(chain)
        done[along] = True
    # Fourier sums of whole numbers: values that are nearly whole are whole
    for part in (exact.real, exact.imag):
        part[:] = np.where(np.abs(part - part.round()) < 1e-9, part.round() + 0.0, part)
    sizes = np.array([len(members) for members in classes])
    orthogonal = (exact * sizes) @ exact.conj().T / group.order
    return exact if np.allclose(orthogonal, np.eye(len(classes)), atol=1e-8) else None


def _powers(group: Group, element: int) -> NDArray[np.int64]:
    """1, g, g², ... up to the last one that is new."""
    powers = [group.identity]
    while (power := int(group.table[powers[-1], element])) != group.identity:
        powers.append(power)
    return np.array(powers)


def _named(group: Group, classes: tuple[Subset, ...], table: Complex) -> CharacterTable:
    """Rows in a stable order, with their names."""
    neutral = _class_of(classes)[group.identity]
    degrees = table[:, neutral].real.round().astype(np.int64)
    trivial = np.ones(len(classes))
    sign = None
    if group.parity is not None:
        sign = 1.0 - 2.0 * group.parity[[members[0] for members in classes]]

    def key(row: int) -> tuple[Any, ...]:
        values = table[row].round(6)
        is_sign = sign is not None and np.allclose(values, sign)
        first = 0 if np.allclose(values, trivial) else 1 if is_sign else 2
        pairs = zip((-values.real).tolist(), (-values.imag).tolist(), strict=True)
        return int(degrees[row]), first, tuple(pairs)

    rows: list[int] = []
    names: list[str] = []
    letters: dict[int, int] = {}  # degree -> how many names it has so far
    for row in sorted(range(len(table)), key=key):
        if row in rows:
            continue
        degree, first, _ = key(row)
        if first < 2:
            name = ("trivial", "sign")[first]
        else:
            name = f"{degree}{_letters(letters.get(degree, 0))}"
            letters[degree] = letters.get(degree, 0) + 1
        rows.append(row)
        names.append(name)
        if np.abs(table[row].imag).max() > 1e-8:
            rows.append(int(np.abs(table - table[row].conj()).sum(axis=1).argmin()))
            names.append(f"{name}*")
    ordered = table[rows]
    ordered.setflags(write=False)
    return CharacterTable(classes, ordered, tuple(degrees[rows].tolist()), tuple(names))


def _letters(number: int) -> str:
    """0, 1, ... -> a, b, ..., z, aa, ab, ..."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text
