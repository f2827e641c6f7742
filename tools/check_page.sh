#!/usr/bin/env bash
# check_page.sh HAYATE MODEL: the page in Chromium, driven by playwright. Screenshots: build/shots.
set -euo pipefail
cd "$(dirname "$0")/.."
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "skipped: the page in a browser: there is no Chromium here"
    exit 0
}
python=$(tools/venv.sh page playwright==1.65.2) || { echo "skipped: the page in a browser: playwright cannot be had"; exit 0; }
mkdir -p build/shots
"$python" tests/e2e/test_page.py "$1" "$2" "$chromium" build/shots
