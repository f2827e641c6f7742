#!/usr/bin/env bash
# fetch_tools.sh DIR: Prometheus, HAProxy and nginx out of their Debian packages into DIR, not installed: tests run
# them, and no service may start on the user's machine for that. Prints DIR/bin; status 1 when they cannot be had, 2 when
# one of them does not start.
set -euo pipefail
dir=$1
mkdir -p "$dir/bin"
dir=$(realpath "$dir")
if [ ! -e "$dir/done" ]; then
    mkdir -p "$dir/deb" "$dir/root"
    packages="prometheus haproxy nginx-light nginx"
    # shellcheck disable=SC2086  # libraries that they want and that are not there: an update of one may want another
    libs=$(apt-get -s --no-install-recommends install $packages 2>/dev/null | sed -n 's/^Inst \(lib[^ ]*\) .*/\1/p' | grep -v '^libjs-' || true)
    # shellcheck disable=SC2086
    (cd "$dir/deb" && apt-get download $packages nginx-common $libs) >"$dir/log" 2>&1 || {
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
    for start in 'prometheus --version' 'promtool --version' 'haproxy -v' 'nginx -v'; do
        "$dir/bin/"$start >"$dir/log" 2>&1 || { echo "$start: $(tail -n 1 "$dir/log")" >&2; exit 2; }
    done
    rm -rf "$dir/deb"
    touch "$dir/done"
fi
echo "$dir/bin"
