#!/usr/bin/env bash
# check_shared.sh HAYATE SHARED: the program against the larger case sets in SHARED.
set -uo pipefail
hayate=$(realpath "$1") shared=$(realpath "$2") bad=0
smollm2=${HAYATE_SMOLLM2:?path of the model} gemma3=${HAYATE_GEMMA3:?path of the model}
cases=$shared/cases

judge() { # judge KIND PROGRAM FILES...
    local kind=$1 cmd=$2; shift 2
    echo "--- $kind $*"
    python3 "$cases/run_cases.py" "$kind" "$@" --cmd "$cmd" || bad=1
}
vocab_of() { # the vocabulary of a case file, or nothing
    case $1 in
    smollm2) echo "$smollm2" ;;
    gemma-3-270m) echo "$gemma3" ;;
    *) local f=$cases/tokenizers/vocabs/ggml-vocab-$1.gguf; [ ! -f "$f" ] || echo "$f" ;;
    esac
}
for kind in ids stream; do
    for f in "$cases/tokenizers/$kind"/*.jsonl; do
        v=$(vocab_of "$(basename "$f" .jsonl)")
        if [ -n "$v" ]; then judge $kind "'$hayate' pipe '$v'" "$f"
        else echo "skipped: $kind $(basename "$f"): its vocabulary is not there"; fi
    done
done
judge chat "'$hayate' pipe" "$cases"/chat_templates/expected/*.jsonl
judge jinja "'$hayate' pipe" "$cases/chat_templates/jinja_snippets.jsonl"
judge schemas "'$hayate' pipe" "$cases/structured/schemas.jsonl"
judge unsupported "'$hayate' pipe" "$cases/structured/unsupported_keywords.jsonl"
judge invalid "'$hayate' pipe" "$cases/structured/invalid_schemas.jsonl" "$cases/structured/invalid_grammars.jsonl"
judge grammars "'$hayate' pipe" "$cases/structured/grammars.jsonl"
echo "--- dequantize"
python3 - "$hayate" "$shared/golden/quants" <<'PY' || bad=1
import json, subprocess, sys, os
hayate, d = sys.argv[1:]
bad = 0
for name in "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split():
    if not os.path.exists(f"{d}/{name}.bin"): continue
    raw = open(f"{d}/{name}.bin", "rb").read()
    got = subprocess.run([hayate, "dequantize", name], input=raw, capture_output=True)
    good = got.returncode == 0 and got.stdout == open(f"{d}/{name}.f32", "rb").read()
    bad += not good
    print("ok  " if good else "FAIL", name, got.stderr.decode())
sys.exit(bad > 0)
PY
exit $bad
