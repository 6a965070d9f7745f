"""Checksums of the pieces of a checkpoint.

A checksum covers the content of a piece and its identity: the query, the operator, the shard, the
epoch, the attempt. So a piece that was altered, cut or swapped with another piece is found. It
finds accidents, not attacks: XXH3 is as fast as memory and not cryptographic.
"""

from __future__ import annotations

import xxhash


def checksum(content: bytes, *identity: object) -> str:
    """Return the checksum of `content` with its length and its `identity`, as 32 hex digits.

    >>> checksum(b"rows", "query", 7) == checksum(b"rows", "query", 8)
    False
    """
    digest = xxhash.xxh3_128(f"{len(content)}|{'|'.join(map(str, identity))}|".encode())
    digest.update(content)
    return digest.hexdigest()
