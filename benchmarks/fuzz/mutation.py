"""Changes of bytes and texts that find mistakes: limits of numbers, pieces that are lost, doubled, moved or foreign."""

import random
import struct
from collections.abc import Callable, Sequence

#: At the limits of what fields of one to eight bytes hold.
WHOLE = (0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 1000, 2**15 - 1, 2**15, 2**16 - 1, 2**16, 2**24, 2**31 - 1, 2**31,
         2**32 - 2, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
#: Numbers and texts as people, programs and attackers write them.
TEXTS = (
    "", "0", "-0", "1", "-1", "0.5", ".5", "1e3", "1e308", "1e999", "-1e-999", "nan", "NaN", "inf", "-Infinity", "1,5",
    "1.000,5", "0x10", "1_000", "99999999999999999999", "9" * 5000, "²", "١٢", "１", "true", "null", "None", "[]", "{}",
    "mix", "unknown", "silence", "a or b?", "é", "小鳥", "\u202e", "\ufeff", "\x00", "\x1b[31m", "\x7f", "\u2028", "\r",
    "\n", "\t", " ", "'", '"', '""', ";", ",", "|", "=1+1", "@SUM(A1)", "<b>", "%00", "%2e%2e%2f", "..", ".", "-", "--",
    "~", "*", "?", "\\", "$HOME", "a" * 300, "\udce9", "𝒳", "12:34", "1:23.5", "2023-10-24T12:34:56+99:99",
)  # fmt: skip


def changed_bytes(data: bytes, rng: random.Random, within: int | None = None) -> bytes:
    """One change, at any place or within the first bytes."""
    end = len(data) if within is None else min(within, len(data))
    at = rng.randrange(end + 1)
    return rng.choice(_BYTES)(data, at, rng)


def _overwrite(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _flip(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + bytes(b ^ (1 << rng.randrange(8)) for b in data[at : at + 1]) + data[at + 1 :]


def _number(data: bytes, at: int, rng: random.Random) -> bytes:
    size, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
    value = rng.choice(WHOLE) % 2 ** (8 * size)
    return data[:at] + value.to_bytes(size, order) + data[at + size :]  # type: ignore[arg-type]


def _float(data: bytes, at: int, rng: random.Random) -> bytes:
    code, size = rng.choice((("f", 4), ("d", 8)))
    value = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), -float("inf"), 1e-40))
    return data[:at] + struct.pack(rng.choice("<>") + code, value) + data[at + size :]


def _cut(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at]


def _lose(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + data[at + rng.randrange(1, 40) :]


def _double(data: bytes, at: int, rng: random.Random) -> bytes:
    piece = data[at : at + rng.randrange(1, 64)]
    return data[:at] + piece * rng.choice((2, 2, 3, 20)) + data[at + len(piece) :]


def _insert(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + odd_text(rng).encode("utf-8", "surrogateescape") + data[at:]


def _move(data: bytes, at: int, rng: random.Random) -> bytes:
    piece, rest = data[at : at + 16], data[:at] + data[at + 16 :]
    to = rng.randrange(len(rest) + 1)
    return rest[:to] + piece + rest[to:]


_BYTES: Sequence[Callable[[bytes, int, random.Random], bytes]] = (
    _overwrite, _overwrite, _flip, _flip, _number, _number, _float, _cut, _lose, _double, _insert, _move,
)  # fmt: skip


def odd_text(rng: random.Random) -> str:
    """A text or number that is unlikely, or none at all."""
    kind = rng.random()
    if kind < 0.7:
        return rng.choice(TEXTS)
    if kind < 0.85:
        return str(rng.choice(WHOLE) * rng.choice((1, -1)))
    return "".join(
        chr(rng.choice((rng.randrange(32, 127), rng.randrange(256), rng.randrange(0xD7FF)))) for _ in range(8)
    )


def changed_list(items: Sequence[bytes], rng: random.Random, other: Callable[[bytes], bytes]) -> list[bytes]:
    """Items, one of which is lost, doubled, moved or replaced by `other`."""
    found = list(items)
    if not found:
        return [other(b"")]
    at, to = rng.randrange(len(found)), rng.randrange(len(found))
    how = rng.randrange(8)
    if how == 0:
        del found[at]
    elif how == 1:
        found.insert(to, found[at])
    elif how == 2:
        found[at], found[to] = found[to], found[at]
    else:
        found[at] = other(found[at])
    return found


def changed_value(value: object, rng: random.Random) -> object:
    """A JSON value with one change somewhere within."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        how = rng.random()
        if how < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if how < 0.15:
            return {**value, odd_text(rng): value[key]}
        return {**value, key: changed_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        how = rng.random()
        if how < 0.1:
            return value[:at] + value[at + 1 :]
        if how < 0.2:
            return value[:at] + [value[at]] * rng.choice((2, 3, 50)) + value[at + 1 :]
        return [*value[:at], changed_value(value[at], rng), *value[at + 1 :]]
    return odd_value(value, rng)


def odd_value(value: object, rng: random.Random) -> object:
    """Another value: near the old one, at a limit, or of another type."""
    if isinstance(value, int | float) and abs(value) < 1e300 and rng.random() < 0.5:
        return rng.choice((value + 1, value - 1, -value, value * 2, value / 2, value * 1e6, value * 1e-6, int(value)))
    return rng.choice((
        None, True, False, 0, 1, -1, 0.5, 1e-300, 1e300, 1e18, 2**31, 2**53, 2**63, 2**64, 10**30, [], {}, [[]],
        [0] * 9, {"a": 1}, odd_text(rng), odd_text(rng),
    ))  # fmt: skip
