#!/usr/bin/env bash
# nightly.sh [MODEL]: builds this commit (preset nightly), measures the quickstart's model and compares with the nights before.
# Status 1 where something became slower beyond noise, each shape named; the results are kept either way. The same by hand:
#   cmake --preset nightly && cmake --build --preset nightly && ctest --preset nightly
# nightly.sh --measure HAYATE [MODEL [BENCH OPTIONS]]: only the second part, with a program that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/common.sh

case ${1:-} in -h | --help)
    sed -n '2,5s/^# //p' "$0"
    exit 0 ;;
--measure)
    [ $# -ge 2 ] || die "nightly.sh --measure HAYATE [MODEL [BENCH OPTIONS]]"
    hayate=$2
    shift 2 ;;
*)
    build_preset nightly
    hayate=build/nightly/hayate ;;
esac
model=${1:-}
[ $# -eq 0 ] || shift
[ -n "$model" ] || model=$(tools/fetch_model.sh smollm2) || die "the model could not be fetched (above)"
# defaults of the program, whatever was tuned here: nights must be comparable
exec "$hayate" bench "$model" --no-tuned -p 512 -n 64 -d 0,1024 -b 1,8 -r 7 --compare --save "$@"
