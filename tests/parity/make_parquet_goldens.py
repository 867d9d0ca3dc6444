"""Parquet files of every shape that forge reads, and the rows that pyarrow reads in them.

    python3 tests/parity/make_parquet_goldens.py     # with pyarrow; writes tests/data/goldens/parquet

NAME.jsonl beside NAME.parquet has to_pylist() of the columns that JSON can express, with maps as
objects and NaN and infinities as null. bad_text.parquet has none: its third row is not UTF-8.
"""
import datetime
import decimal
import json
import math
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "goldens", "parquet")
random.seed(5)


def plain(value, kind):
    if value is None or isinstance(value, float) and not math.isfinite(value):
        return None
    if pa.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_dictionary(kind):
        return plain(value, kind.value_type)
    return value


def write(name, table, left_out=(), **options):
    path = os.path.join(FOLDER, name)
    pq.write_table(table, path + ".parquet", **options)
    table = pq.read_table(path + ".parquet").drop_columns(list(left_out))
    with open(path + ".jsonl", "w", encoding="utf-8") as out:
        for row in table.to_pylist():
            plain_row = {field.name: plain(row[field.name], field.type) for field in table.schema}
            out.write(json.dumps(plain_row, ensure_ascii=False, allow_nan=False) + "\n")


def chat(count):
    call = {"name": "f", "arguments": "{\"x\": 1}"}
    return [{"id": i, "messages": [
        {"role": "user", "content": f"question {i} é 😀 \u0000\n\"", "tool_calls": None, "train": None},
        {"role": "assistant", "content": None if i % 7 == 0 else "word " * (i % 9), "train": i % 2 == 0,
         "tool_calls": [call] * (i % 3)}][: i % 4 + 1]} for i in range(count)]


def types():
    """Returns a table with a column of every type; most are null in one row of three."""
    def column(kind, *values):
        return pa.array([None if i % 3 == 2 else values[i % len(values)] for i in range(50)], kind)
    point = pa.struct([("x", pa.float64()), ("name", pa.string())])
    words = pa.array([None if i % 11 == 0 else f"word {i % 5}" for i in range(50)])
    return pa.table({
        "bool": column(pa.bool_(), True, False),
        "int8": column(pa.int8(), -128, 127), "int16": column(pa.int16(), -32768, 5),
        "int32": column(pa.int32(), -2**31, 2**31 - 1), "int64": column(pa.int64(), -2**63, 2**63 - 1, 0),
        "uint8": column(pa.uint8(), 255), "uint16": column(pa.uint16(), 65535),
        "uint32": column(pa.uint32(), 2**32 - 1), "uint64": column(pa.uint64(), 2**64 - 1, 1),
        "float": column(pa.float32(), 0.1, -1e30, math.nan),
        "double": column(pa.float64(), 0.1, 1e308, 5e-324, math.inf, 1 / 3),
        "text": column(pa.string(), "", "ä", "\u2028 \\ / \t"), "large_text": column(pa.large_string(), "x" * 300, "y"),
        "nothing": pa.nulls(50),
        "words": words.dictionary_encode(),
        "list": column(pa.list_(pa.int64()), [], [1, None, 3]),
        "large_list": column(pa.large_list(pa.string()), ["a", None], []),
        "pair": column(pa.list_(pa.float32(), 2), [1.5, 2.5], [None, 0.25]),
        "nested": column(pa.list_(pa.list_(pa.string())), [["a"], None, []], [[], ["b", None]]),
        "point": column(point, {"x": 1.5, "name": None}, {"x": None, "name": "n"}),
        "points": column(pa.list_(point), [{"x": 2.0, "name": "a"}, None], []),
        "map": column(pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], []),
        "when": column(pa.timestamp("us"), datetime.datetime(2020, 1, 2)),
        "day": column(pa.date32(), datetime.date(2020, 1, 2)),
        "bytes": column(pa.binary(), b"\xff"),
        "money": column(pa.decimal128(9, 2), decimal.Decimal("1.25")),
        "image": column(pa.struct([("bytes", pa.binary()), ("path", pa.string())]), {"bytes": b"\0", "path": "a"}),
        "numbered": column(pa.map_(pa.int32(), pa.string()), [(1, "a")]),
    })


os.makedirs(FOLDER, exist_ok=True)
write("types", types(), ["when", "day", "bytes", "money", "image", "numbered"], row_group_size=17)
for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
    write(f"chat_{codec}", pa.Table.from_pylist(chat(60)), compression=codec, row_group_size=25, data_page_size=256)
write("chat_v2", pa.Table.from_pylist(chat(60)), data_page_version="2.0", version="2.4", use_dictionary=False)
write("chat_old", pa.Table.from_pylist(chat(60)), version="1.0", use_compliant_nested_type=False, store_schema=False)
write("empty", pa.table({"text": pa.array([], pa.string())}))
write("long", pa.table({"text": ["ab" * random.randrange(8000) for _ in range(12)]}), compression="zstd")
bad = pa.array([b"good", b"good", b"caf\xe9", b"good"]).view(pa.string())
pq.write_table(pa.table({"text": bad}), os.path.join(FOLDER, "bad_text.parquet"))
