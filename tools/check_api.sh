#!/usr/bin/env bash
# check_api.sh HAYATE SHARED: the shared cases for the API, with the official clients, against a running server.
# HAYATE_SMOLLM2 names the model. The Python and Node packages are kept in build/api.
set -euo pipefail
hayate=$(realpath "$1") shared=$(realpath "$2")
cd "$(dirname "$0")/.."
[ -d "$shared/cases/api" ] || { echo "skipped: no API cases in $shared"; exit 0; }
[ -f "${HAYATE_SMOLLM2:-}" ] || { echo "skipped: HAYATE_SMOLLM2 names no model"; exit 0; }
dir=build/api
mkdir -p "$dir"
packages="pytest httpx openai pydantic anthropic langchain-openai litellm"
if [ "$(cat "$dir/packages" 2>/dev/null)" != "$packages" ]; then
    python3 -m venv "$dir/venv"
    # shellcheck disable=SC2086
    "$dir/venv/bin/pip" install -q --disable-pip-version-check $packages
    echo "$packages" >"$dir/packages"
fi
python=$(realpath "$dir/venv")/bin/python

work=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server"; } || true
    rm -rf "$work"
}
trap stop EXIT
# four requests of 1024 tokens at once, no key
"$hayate" serve "$HAYATE_SMOLLM2" --ctx 1024 --parallel 4 --kv-tokens 4096 --cors '*' --port 0 --port-file "$work/url" \
    >"$work/log" 2>&1 &
server=$!
for _ in $(seq 600); do
    [ -e "$work/url" ] && curl -fs "$(cat "$work/url")/ready" >"$work/ready" 2>/dev/null && break
    kill -0 "$server" 2>/dev/null || { cat "$work/log"; exit 1; }
    sleep 0.2
done
export BASE_URL TIMEOUT=${TIMEOUT:-300} N_CTX=1024 PYTHONDONTWRITEBYTECODE=1
BASE_URL=$(cat "$work/url")
failed=0
"$python" -m pytest -q -p no:cacheprovider --rootdir "$shared/cases/api" "$shared/cases/api" || failed=1
for f in tests/api/test_*.py; do
    [ -e "$f" ] || continue
    "$python" -m pytest -q -p no:cacheprovider "$f" || failed=1
done
if command -v node >/dev/null && command -v npm >/dev/null; then
    [ -d "$dir/node/node_modules/openai" ] || npm install --silent --no-fund --no-audit --prefix "$dir/node" openai >/dev/null
    cp "$shared/cases/api/test_node_client.mjs" "$dir/node/"
    (cd "$dir/node" && node --test test_node_client.mjs) || failed=1
else
    echo "skipped: no node here for the client in JavaScript"
fi
kill "$server"
wait "$server" || failed=1
server=
if grep -E 'AddressSanitizer|runtime error:|ThreadSanitizer' "$work/log"; then failed=1; fi
exit "$failed"
