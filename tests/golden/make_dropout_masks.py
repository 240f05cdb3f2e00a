#!/usr/bin/env python3
"""Writes dropout_masks.json beside this file: keep decisions by the rule of docs/metrics.md ("Random numbers", "Dropout"), plain Python.

usage: make_dropout_masks.py
Philox4x32-10 is held to Random123's known answers before anything is written.
"""
import json
import pathlib

MASK = 0xFFFFFFFF


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        product0, product1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(product1 >> 32) ^ counter[1] ^ key[0], product1 & MASK, (product0 >> 32) ^ counter[3] ^ key[1], product0 & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return counter


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([MASK] * 4, [MASK] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def keeps(case, block, word):
    sample = case["sample"]
    third = (case["layer"] << 20) | (case["site"] << 16) | case["head"]
    counter = [sample & MASK, sample >> 32, third, (case["position"] << 16) | block]
    random = philox(counter, [case["seed"] & MASK, case["seed"] >> 32])
    value = (random[word // 2] >> (16 * (word % 2))) & 0xFFFF
    return value >= round(case["rate"] * 65536)


def bits(case):
    """'1' where column c is kept, from column 0 on."""
    text = ""
    for column in range(case["columns"]):
        if case["site"] == 1:  # attention: call t holds columns {2t, 2t + 1} + 8 j of a block of 32
            block, word = column // 32 * 4 + column % 8 // 2, column % 32 // 8 * 2 + column % 2
        else:
            block, word = column // 8, column % 8
        text += "1" if keeps(case, block, word) else "0"
    return text


cases = []
for seed in (1, (7 << 32) + 3):
    for site, layer, heads in ((0, 0, (0,)), (1, 0, (0, 3)), (1, 5, (0, 3)), (2, 5, (0,)), (3, 23, (0,))):
        for head in heads:
            for sample, position in ((0, 0), ((1 << 33) + 5, 130)):
                case = {"rate": 0.1 if sample == 0 else 0.5, "seed": seed, "layer": layer, "site": site, "head": head, "sample": sample,
                        "position": position, "columns": 72}
                cases.append(case | {"kept": bits(case)})
path = pathlib.Path(__file__).with_name("dropout_masks.json")
path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
