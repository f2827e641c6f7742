# Sourced by quickstart and check: messages, and the packages that each needs. Bash.

bold='' dim='' off=''
if [ -t 2 ]; then bold=$'\033[1m' dim=$'\033[2m' off=$'\033[0m'; fi
say() { echo "${bold}==>${off} $*" >&2; }
note() { echo "${dim}    $*${off}" >&2; }
die() { echo "${bold}error:${off} $*" >&2; exit 1; }

build_packages="gcc g++ cmake ninja-build pkg-config python3 python3-pip libpcre2-dev libutf8proc-dev libjansson-dev
libmicrohttpd-dev libgnutls28-dev libhwloc-dev libcurl4-openssl-dev libedit-dev libzstd-dev libcmocka-dev"
check_packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libsimde-dev binutils file
python3-venv chromium fonts-dejavu-core openssl curl"

# install_packages NAME...: those that are missing, with apt, as root or through sudo.
install_packages() {
    local missing=() p root=()
    command -v dpkg-query >/dev/null || die "this script installs packages on Debian and its relatives; on another system install
    what README.md lists under \"Needs\" and build with: cmake --preset release && cmake --build --preset release"
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "these packages are missing and sudo is too: ${missing[*]}
    run as root: apt-get install ${missing[*]}"
        root=(sudo)
    fi
    say "installing ${#missing[@]} packages: ${missing[*]}"
    mkdir -p build
    { "${root[@]}" apt-get update -q &&
      "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } \
        >build/apt.log 2>&1 || { tail -n 15 build/apt.log >&2
        die "apt-get could not install them (above; whole log: build/apt.log). Look at the network and the package sources, then run this again."; }
}

# build_preset NAME [CMAKE_ARGS...]: configure (once) and build; on failure the log's end is shown.
build_preset() {
    local name=$1; shift
    mkdir -p build
    cmake --preset "$name" "$@" >"build/$name.configure.log" 2>&1 || { tail -n 20 "build/$name.configure.log" >&2
        die "cmake could not configure preset $name (log: build/$name.configure.log)"; }
    if [ -t 2 ]; then
        cmake --build --preset "$name" -j "$(nproc)" 2>&1 | tee "build/$name.build.log" |
            while IFS= read -r line; do
                case $line in '['*) printf '\r\033[K    %.76s' "$line" >&2 ;; esac
            done
        printf '\r\033[K' >&2
    else
        cmake --build --preset "$name" -j "$(nproc)" >"build/$name.build.log" 2>&1
    fi
    [ "${PIPESTATUS[0]}" = 0 ] && ! grep -q '^ninja: build stopped' "build/$name.build.log" || {
        grep -E 'error|FAILED' "build/$name.build.log" | head -n 20 >&2
        die "preset $name did not build (log: build/$name.build.log)"; }
}
