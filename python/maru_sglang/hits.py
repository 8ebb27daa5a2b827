"""How much of a prefix can be used, by what of it is there."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["all_pages", "block_groups", "trailing_pages"]


def all_pages(there: Sequence[bool]) -> list[int]:
    """The lengths of prefixes, in pages, of which every page is there."""
    length = next((i for i, one in enumerate(there) if not one), len(there))
    return list(range(1, length + 1))


def trailing_pages(there: Sequence[bool], tail: int) -> list[int]:
    """The lengths of prefixes whose last TAIL pages are there, or all if they have fewer."""
    lengths, run = [], 0
    for length, one in enumerate(there, start=1):
        run = run + 1 if one else 0
        if run >= min(tail, length):
            lengths.append(length)
    return lengths


def block_groups(there: Sequence[bool], block_pages: int, group_pages: int) -> int:
    """How many pages the leading whole groups cover: each group of keys stands for a block."""
    if block_pages <= 0 or group_pages <= 0:
        return 0
    return len(all_pages(there)) // group_pages * block_pages
