#!/usr/bin/env bash
# fetch_tools.sh DIR: Prometheus, HAProxy and nginx out of their Debian packages into DIR, not installed: tests run
# them, and no service may start on the user's machine for that. Prints DIR/bin; status 1 when they cannot be had.
set -euo pipefail
dir=$1
mkdir -p "$dir/bin"
dir=$(realpath "$dir")
if [ ! -e "$dir/done" ]; then
    mkdir -p "$dir/deb" "$dir/root"
    (cd "$dir/deb" && apt-get download prometheus haproxy nginx-light nginx nginx-common liblua5.3-0) >"$dir/log" 2>&1 || {
        tail -n 3 "$dir/log" >&2
        exit 1
    }
    for deb in "$dir"/deb/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
    for name in usr/bin/prometheus usr/bin/promtool usr/sbin/haproxy usr/sbin/nginx; do
        [ -x "$dir/root/$name" ] || { echo "no $name in the packages" >&2; exit 1; }
        cat >"$dir/bin/$(basename "$name")" <<RUN
#!/bin/sh
LD_LIBRARY_PATH=\$(echo $dir/root/usr/lib/*-linux-gnu) exec $dir/root/$name "\$@"
RUN
        chmod +x "$dir/bin/$(basename "$name")"
    done
    rm -rf "$dir/deb"
    touch "$dir/done"
fi
echo "$dir/bin"
