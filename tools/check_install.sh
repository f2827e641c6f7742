#!/usr/bin/env bash
# check_install.sh BUILD: install into a scratch folder, build the example against it through pkg-config, run it.
set -euo pipefail
build=$(realpath "$1") top=$(realpath "$(dirname "$0")/..")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/usr" >/dev/null
pc=$(dirname "$(find "$dir/usr" -name hayate.pc)")
# shellcheck disable=SC2046
cc -std=c17 -Wall -Werror "$top/examples/complete.c" -o "$dir/complete" \
    $(PKG_CONFIG_PATH=$pc pkg-config --define-variable=prefix="$dir/usr" --cflags --libs hayate)
out=$(LD_LIBRARY_PATH=$(dirname "$pc") "$dir/complete" "${HAYATE_SMOLLM2:?path of the model}" "The capital of France is")
echo "$out"
case $out in *Paris*) ;; *) echo "the example did not answer as expected" >&2; exit 1 ;; esac
"$dir/usr/bin/hayate" version
