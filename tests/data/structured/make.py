#!/usr/bin/env python3
"""Random schemas and expressions with verdicts of jsonschema and re: make.py schemas|regex SEED COUNT > file.jsonl"""
import json
import random
import re
import signal
import sys
import warnings

KIND, SEED, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
R = random.Random(SEED)
NAMES = ["a", "b", "c", "ab"]


def const(deep=True):
    return R.choice([lambda: None, lambda: True, lambda: False, lambda: R.randint(-3, 12),
                     lambda: R.choice([0.5, 1.5, -2.25, 3.0]), lambda: R.choice(["", "a", "b", "ab", "x1", "é"]),
                     lambda: [R.randint(0, 2)] if deep else 1, lambda: {"a": R.randint(0, 2)} if deep else 2])()


def number():
    s = {"type": R.choice(["integer", "number"])}
    if R.random() < .6:
        s[R.choice(["minimum", "exclusiveMinimum"])] = R.choice([-2, 0, 1, 0.5, -1.5, 3])
    if R.random() < .6:
        s[R.choice(["maximum", "exclusiveMaximum"])] = R.choice([4, 9, 10, 12, 99, 2.5, 7.25])
    if R.random() < .3:
        s["multipleOf"] = R.choice([2, 3, 0.5, 0.25, 5])
    return s


def string():
    s = {"type": "string"}
    if R.random() < .5:
        s["minLength"] = R.randint(0, 2)
    if R.random() < .5:
        s["maxLength"] = R.randint(2, 4)
    if R.random() < .4:
        s["pattern"] = R.choice(["^a", "b$", "^[ab]+$", "a|1", "^.{1,2}$", "é", "^(a|ab)*$", "[^a]"])
    return s


def scalar():
    return R.choice([lambda: {"type": R.choice(["null", "boolean", "integer", "number", "string"])}, number, string,
                     lambda: {"enum": [const() for _ in range(R.randint(1, 4))]}, lambda: {"const": const()},
                     lambda: {"type": [R.choice(["null", "boolean"]), R.choice(["integer", "string"])]},
                     lambda: {"type": "string", "not": {"enum": [R.choice(["a", "b", "ab"])]}},
                     lambda: {"not": {"type": R.choice(["string", "integer", "object", "number"])}},
                     lambda: {"type": "integer", "not": {"enum": [1, 2]}}])()


def obj(d):
    s = {"type": "object", "properties": {n: schema(d - 1) for n in R.sample(NAMES, R.randint(0, 3))}}
    if R.random() < .6:
        s["required"] = R.sample(NAMES, R.randint(0, 2))
    s["additionalProperties"] = R.choice([False, True, schema(d - 1)])
    more = {"minProperties": lambda: R.randint(0, 2), "maxProperties": lambda: R.randint(2, 3),
            "patternProperties": lambda: {R.choice(["^a", "b$", "1"]): schema(d - 1)},
            "propertyNames": lambda: R.choice([{"maxLength": 1}, {"pattern": "^a"}, {"enum": ["a", "b", "c"]}]),
            "dependentRequired": lambda: {"a": ["b"]}}
    for word, value in more.items():
        if R.random() < .15:
            s[word] = value()
    return s


def array(d):
    s = {"type": "array"}
    if R.random() < .7:
        s["items"] = R.choice([schema(d - 1), schema(d - 1), False])
    if R.random() < .4:
        s["prefixItems"] = [schema(d - 1) for _ in range(R.randint(1, 2))]
    if R.random() < .3:
        s["minItems"] = R.randint(0, 2)
    if R.random() < .3:
        s["maxItems"] = R.randint(2, 3)
    if R.random() < .2:
        s["contains"] = schema(0)
    if R.random() < .1:
        s["uniqueItems"] = True
    return s


def schema(d):
    if d <= 0 or R.random() < .35:
        return scalar()
    k = R.randrange(11)
    if k < 6:
        return obj(d) if k < 4 else array(d)
    if k < 9:
        return {["anyOf", "oneOf", "allOf"][k - 6]: [schema(d - 1) for _ in range(R.randint(1, 3))]}
    if k == 9:
        return {"if": schema(d - 1), "then": schema(d - 1), "else": schema(d - 1)}
    return {"type": "object", "additionalProperties": True, "properties": {"a": schema(d - 1), "b": schema(d - 1)},
            "if": {"properties": {"a": {"const": const(False)}}, "required": ["a"]}, "then": {"required": ["b"]}}


def of_type(s, t, d):
    if t == "null":
        return None
    if t == "boolean":
        return R.random() < .5
    if t == "integer":
        return R.randint(-4, 14)
    if t == "number":
        return R.choice([R.randint(-4, 14), R.randint(-16, 60) / 4])
    if t == "string":
        return "".join(R.choice("ab1é\"\n") for _ in range(R.randint(0, 4)))
    if t == "array":
        prefix, items = s.get("prefixItems", []), s.get("items", {})
        return [value(prefix[i] if i < len(prefix) else items, d - 1) for i in range(R.randint(0, 3))]
    o, known, required = {}, s.get("properties", {}), s.get("required", [])
    other = s.get("additionalProperties", {})
    for n in list(known) + [x for x in required if x not in known]:
        if R.random() < (.95 if n in required else .5):
            o[n] = value(known.get(n, other), d - 1)
    if R.random() < .3:
        o["z1"] = value(other, d - 1)
    return o


def value(s, d):
    """Something that the schema is likely, not sure, to allow."""
    if isinstance(s, bool) or R.random() < .12 or d < 0:
        return const()
    if "const" in s:
        return s["const"]
    if "enum" in s:
        return R.choice(s["enum"])
    for word in ("anyOf", "oneOf"):
        if word in s:
            return value(R.choice(s[word]), d - 1)
    if "allOf" in s:
        parts = [value(x, d - 1) for x in s["allOf"]]
        return {k: v for p in parts for k, v in p.items()} if all(isinstance(p, dict) for p in parts) else parts[0]
    if "type" not in s:
        return value(R.choice([s["then"], s["else"], s["if"]]), d - 1) if "if" in s else const()
    return of_type(s, R.choice(s["type"]) if isinstance(s["type"], list) else s["type"], d)


def words(x):
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        if isinstance(k, str):
            yield k
        if k == "properties":
            for y in v.values():
                yield from words(y)
        elif k not in ("const", "enum"):
            yield from words(v)


def whole_real(x):
    if isinstance(x, float):
        return x == int(x)
    return any(map(whole_real, x.values() if isinstance(x, dict) else x if isinstance(x, list) else ()))


def schemas():
    from jsonschema import Draft202012Validator
    partly = {"allOf", "if", "oneOf", "not", "dependentRequired", "patternProperties", "propertyNames", "uniqueItems",
              "contains", "minProperties"}
    while True:
        s = schema(3)
        check, accept, reject = Draft202012Validator(s), [], []
        complete = not set(words(s)) & partly
        for _ in range(40):
            x = value(s, 3)
            t = json.dumps(x, ensure_ascii=R.random() < .3, separators=R.choice([(",", ":"), (", ", ": ")]))
            if not check.is_valid(x):
                reject.append(t)
            elif complete and not whole_real(x) and "\\n" not in t:
                accept.append(t)
        accept, reject = list(dict.fromkeys(accept))[:8], list(dict.fromkeys(reject))[:8]
        if accept or reject:
            yield {"schema": s, "complete": complete and bool(accept), "accept": accept, "reject": reject}


def regex(d, top=False):
    k = R.randrange(14)
    if d <= 0 or k < 4:
        return R.choice(["a", "b", "é", "1", ".", "[ab]", "[^a]", "[a-b1]", "\\d", "\\w", "[^\\d]", "\\.", "a?", "b*"])
    if k < 7:
        return regex(d - 1) + regex(d - 1)
    if k < 9:
        return f"({regex(d - 1)}|{regex(d - 1)})"
    if k < 11:
        return f"(?:{regex(d - 1)})" + R.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{2,3}"])
    if top and k < 13:
        return f"(?{'=!'[k - 11]}{regex(d - 1)}){regex(d - 1)}"
    if top:
        return R.choice(["^{}", "{}$", "^{}$", "^{}|{}$"]).format(regex(d - 1), regex(d - 1))
    return regex(d - 1)


def late(*_):
    raise TimeoutError


def regexes():
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, late)
    while True:
        s = regex(4, True)
        texts = sorted({"".join(R.choice("abé1 ") for _ in range(R.randint(0, 6))) for _ in range(14)})
        try:
            c = re.compile(s, re.A)
            signal.alarm(1)
            full, search = [bool(c.fullmatch(t)) for t in texts], [bool(c.search(t)) for t in texts]
        except (re.error, TimeoutError):
            continue
        finally:
            signal.alarm(0)
        if any(full) and len(s) <= 120:
            yield {"regex": s, "texts": texts, "full": full, "search": search}


rows = schemas() if KIND == "schemas" else regexes()
for _ in range(COUNT):
    print(json.dumps(next(rows), ensure_ascii=False))
