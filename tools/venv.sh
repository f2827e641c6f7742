#!/usr/bin/env bash
# venv.sh NAME PACKAGE...: a Python environment with these packages in build/venv/NAME, made once; prints its python.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$PWD/build/venv/$1
shift
want="$*"
if [ "$(cat "$dir/packages" 2>/dev/null)" != "$want" ]; then
    rm -rf "$dir"
    mkdir -p "$(dirname "$dir")"
    { python3 -m venv "$dir" && "$dir/bin/pip" install -q "$@"; } >"$dir.log" 2>&1 || {
        tail -n 5 "$dir.log" >&2
        rm -rf "$dir"
        exit 1
    }
    echo "$want" >"$dir/packages"
fi
echo "$dir/bin/python"
