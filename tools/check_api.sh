#!/usr/bin/env bash
# check_api.sh HAYATE SHARED: the shared cases for the API, with the official clients, against a running server.
# HAYATE_SMOLLM2 names the model. The Node package is kept in build/api.
set -euo pipefail
hayate=$(realpath "$1") shared=$(realpath "$2")
cd "$(dirname "$0")/.."
[ -d "$shared/cases/api" ] || { echo "skipped: no API cases in $shared"; exit 0; }
[ -f "${HAYATE_SMOLLM2:-}" ] || { echo "skipped: HAYATE_SMOLLM2 names no model"; exit 0; }
dir=build/api
mkdir -p "$dir"
python=$(tools/venv.sh api pytest==9.2.0 httpx==0.28.1 pydantic==2.14.4 openai==3.57.0 anthropic==2.14.0 langchain-openai==1.7.4 \
    litellm==1.110.2) || { echo "skipped: the API with the official clients: they cannot be had"; exit 0; }

work=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server"; } || true
    rm -rf "$work"
}
trap stop EXIT

# serve MODEL: four requests of 1024 tokens at once, no key; sets BASE_URL.
serve() {
    rm -f "$work/url"
    "$hayate" serve "$1" --ctx 1024 --parallel 4 --kv-tokens 4096 --cors '*' --port 0 --port-file "$work/url" >>"$work/log" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        [ -e "$work/url" ] && curl -fs "$(cat "$work/url")/ready" >"$work/ready" 2>/dev/null && break
        kill -0 "$server" 2>/dev/null || { cat "$work/log"; exit 1; }
        sleep 0.2
    done
    BASE_URL=$(cat "$work/url")
}
# halt: as an operator would; it must end well.
halt() {
    kill "$server"
    wait "$server" || failed=1
    server=
}
run_cases() { "$python" -m pytest -q -p no:cacheprovider "$@"; }
cases() { run_cases "$@" || failed=1; }

export LITELLM_LOCAL_MODEL_COST_MAP=True # or it asks the network for prices
export BASE_URL TIMEOUT=${TIMEOUT:-300} N_CTX=1024 PYTHONDONTWRITEBYTECODE=1
failed=0

# The cases about connections with a tiny model: they close their sockets while a file object still holds them,
# so that thousands of tokens must be made for clients that have not left, in ten seconds.
PYTHONPATH=tests/e2e python3 - "$work/tiny.gguf" <<'EOF'
import sys
import common
template = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")
common.Gguf(common.MODEL).set("tokenizer.chat_template", common.STR, template).write(sys.argv[1])
EOF
serve "$work/tiny.gguf"
cases --rootdir "$shared/cases/api" "$shared/cases/api/test_connections.py" -k 'not frees_slot'
# two of them want an answer within ten seconds: a machine that was elsewhere then is asked again
for try in 1 2 3 4 5; do
    ! run_cases --rootdir "$shared/cases/api" "$shared/cases/api/test_connections.py" -k frees_slot || break
    [ "$try" -lt 5 ] || failed=1
done
halt

serve "$HAYATE_SMOLLM2"
cases --rootdir "$shared/cases/api" "$shared/cases/api" --ignore "$shared/cases/api/test_connections.py"
cases -W ignore tests/clients
if command -v node >/dev/null && command -v npm >/dev/null; then
    if [ -d "$dir/node/node_modules/openai" ] || npm install --silent --no-fund --no-audit --prefix "$dir/node" openai@6.49.0 >/dev/null; then
        cp "$shared/cases/api/test_node_client.mjs" "$dir/node/"
        (cd "$dir/node" && node --test --test-reporter=dot test_node_client.mjs) || failed=1
    else
        echo "skipped: the client in JavaScript cannot be had"
    fi
else
    echo "skipped: no node here for the client in JavaScript"
fi
halt
if grep -E 'AddressSanitizer|runtime error:|ThreadSanitizer' "$work/log"; then failed=1; fi
exit "$failed"
