#!/usr/bin/env python3
"""Holds the source tree to its own rules (docs/architecture.md, CONTRIBUTING.md):

  - a room includes only `room/room.h` of the rooms it may use, and of its own room anything;
  - files are at most 800 lines, functions at most 120 (tables may be long);
  - no note about future work without an issue number;
  - objects outside kern/x86 and probe/x86.c use no ymm or zmm register (--build; x86-64 only).

check_layers.py SOURCE [--build BUILD]    prints what is wrong; exit status 1 if anything is.
"""
import argparse
import pathlib
import platform
import re
import shutil
import subprocess
import sys

FILE_LINES = 800
FUNCTION_LINES = 120

# What each room may include beside itself. The order is that of the layers.
ROOMS = {
    "base": "",
    "text": "base",
    "gram": "base text",
    "cpu": "base",
    "quant": "base",
    "kern": "base cpu quant",
    "probe": "base cpu",
    "file": "base quant",
    "tok": "base text file",
    "arch": "base quant file",
    "kv": "base",
    "plan": "base cpu quant kern file arch kv",
    "sample": "base text",
    "sched": "base kv sample",
    "spec": "base sample",
    "engine": "base text gram cpu quant kern probe file tok arch kv plan sample sched spec",
    "serve": "base text",
    "cli": "base text serve",
}
# <hayate/status.h> is base's; the rest of the public header is for those above and below it.
PUBLIC_ROOMS = {"engine", "serve", "cli"}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(hayate/[^>]+)>)')
NOTE = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b(?!\s*\(?#\d+)")
WIDE = re.compile(r"%[yz]mm\d")
MEMBER = re.compile(r"^(\S+\.o):\s+file format")


def check_include(root, room, path, number, line, rooms):
    match = INCLUDE.match(line)
    if not match:
        return
    where = f"{path}:{number}"
    if match[2]:
        if match[2] != "hayate/status.h" and room not in PUBLIC_ROOMS:
            yield f"{where}: {room}/ may not include <{match[2]}>"
        return
    parts = match[1].split("/")
    if ".." in parts:
        yield f'{where}: "{match[1]}" leaves its folder by ".."'
        return
    if len(parts) == 1:
        if not (root / path).with_name(parts[0]).is_file():
            yield f'{where}: "{match[1]}" is neither beside the file nor written as "room/file.h"'
        return
    other = parts[0]
    if other == room:
        return
    if other not in rooms:
        yield f'{where}: "{match[1]}": no room of that name'
    elif other not in rooms[room].split():
        yield f"{where}: {room}/ may not include {other}/"
    elif parts[1:] != [other + ".h"]:
        yield f'{where}: "{match[1]}" is private to {other}/'


def check_lengths(path, lines):
    if len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines, the limit is {FILE_LINES}"
    first = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":  # a function's brace stands alone; a table's follows its "="
            first = number
        elif line.startswith("}") and first:
            if number - first + 1 > FUNCTION_LINES:
                yield (f"{path}:{first}: a function of {number - first + 1} lines, "
                       f"the limit is {FUNCTION_LINES}")
            first = None


def check_notes(path, lines):
    for number, line in enumerate(lines, 1):
        match = NOTE.search(line)
        if match:
            yield f"{path}:{number}: {match[1]} without an issue number, as in {match[1]}(#12)"


def sources(root, *patterns):
    for pattern in patterns:
        yield from sorted(p for p in root.glob(pattern) if p.is_file())


def check_source(root, rooms=ROOMS):
    problems = []
    for path in sources(root, "src/**/*.[ch]", "src/**/*.def"):
        name = path.relative_to(root)
        lines = path.read_text(encoding="utf-8").splitlines()
        room = name.parts[1] if len(name.parts) > 2 else ""
        if room not in rooms:
            problems.append(f"{name}: src/{room} is not a room")
            continue
        for number, line in enumerate(lines, 1):
            problems += check_include(root, room, name, number, line, rooms)
    everything = sources(root, "src/**/*.[ch]", "include/**/*.h", "tests/**/*.[ch]", "bench/**/*.[ch]",
                         "tools/**/*.[ch]")
    for path in everything:
        lines = path.read_text(encoding="utf-8").splitlines()
        problems += check_lengths(path.relative_to(root), lines)
    for path in sources(root, "src/**/*", "include/**/*", "tests/**/*.[ch]", "tests/**/*.py", "bench/**/*.[chp]*",
                        "tools/**/*.[chps]*", "web/*.*", "CMakeLists.txt", "tests/*.cmake"):
        if "node_modules" in path.parts or "data" in path.relative_to(root).parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        problems += check_notes(path.relative_to(root), text.splitlines())
    return problems


def wide_members(listing):
    """Members of an archive, as objdump lists them, that use wide registers."""
    member, found = "", {}
    for line in listing:
        match = MEMBER.match(line)
        if match:
            member = match[1]
        elif member not in found and WIDE.search(line):
            found[member] = line.strip()
    return found


def check_objects(root, build):
    problems = []
    # libhy_kern.a: what stands in kern/x86; libhy_probe.a: the loops that measure each instruction set
    may = {"libhy_kern.a": {p.name + ".o" for p in (root / "src/kern/x86").glob("*.c")},
           "libhy_probe.a": {"x86.c.o"}}
    for archive in sorted(build.glob("libhy_*.a")):
        with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", str(archive)], text=True,
                              stdout=subprocess.PIPE, errors="replace") as run:
            found = wide_members(run.stdout)
        if run.returncode:
            problems.append(f"{archive.name}: objdump failed")
        for member, line in found.items():
            if member not in may.get(archive.name, ()):
                problems.append(f"{archive.name}({member}): wide registers outside kern/x86 and probe/x86.c: {line}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    problems = check_source(args.source)
    done = "includes, lengths, notes"
    if args.build and platform.machine() in ("x86_64", "AMD64") and shutil.which("objdump"):
        problems += check_objects(args.source, args.build)
        done += ", registers"
    for line in problems:
        print(line)
    print(f"checked: {done}; {len(problems)} problem(s)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
