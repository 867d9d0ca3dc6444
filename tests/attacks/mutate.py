"""Makes bytes and JSON values wrong in ways that a random generator chooses. Standard library only.
"""
import copy
import json
import random

HOSTILE = (None, True, False, 0, -1, 1.5, 1e308, -1e308, 1e-30, 2**31, 2**63, -2**63, "", "x", "\x1b[2J", "x" * 5000, "${env:HOME}", "../../x",
           [], [[]], {}, {"type": 3}, [None] * 100, "NaN", "\u202e", 4611686018427387904)


def places(value, path=()) -> list:
    """Returns the path of every value in a JSON value."""
    found = [path]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        found += places(member, (*path, key))
    return found


def json_mutated(value, rng: random.Random):
    """Replaces, removes, renames or doubles one value."""
    value = copy.deepcopy(value)
    path = rng.choice(places(value)[1:] or [()])
    if not path:
        return rng.choice(HOSTILE)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    kind, key = rng.random(), path[-1]
    if kind < 0.7:
        holder[key] = copy.deepcopy(rng.choice(HOSTILE))
    elif kind < 0.85:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[str(key) + rng.choice(("x", "_", ".a", ""))] = holder.pop(key)
    return value


def bytes_mutated(content: bytes, rng: random.Random) -> bytes:
    """Flips a bit, changes a digit, or zeroes, cuts, doubles or inserts a range."""
    if not content:
        return b"x"
    at, kind = rng.randrange(len(content)), rng.randrange(6)
    end = min(len(content), at + rng.choice((1, 4, 64, 4096)))
    if kind == 0:
        return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1:]
    if kind == 1:
        digits = [i for i, byte in enumerate(content[:200000]) if 48 <= byte <= 57]
        at = rng.choice(digits) if digits else at
        return content[:at] + bytes([48 + (content[at] + 1 + rng.randrange(9)) % 10]) + content[at + 1:]
    if kind == 2:
        return content[:at] + bytes(end - at) + content[end:]
    if kind == 3:
        return content[:at]
    if kind == 4:
        return content[:end] + content[at:end] + content[end:]
    return content[:at] + rng.randbytes(rng.choice((1, 16))) + content[at:]


def text_mutated(value, rng: random.Random) -> bytes:
    """Returns a JSON text that is wrong in its values, sometimes in its bytes."""
    text = json.dumps(json_mutated(value, rng)).encode()
    return bytes_mutated(text, rng) if rng.random() < 0.25 else text
