# What the scripts in this folder share. Sourced, never run; the sourcing script has `set -euo pipefail`.
# shellcheck shell=bash disable=SC2034

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
SELF=${0##*/}

say() { printf '%s\n' "$*"; }

fail() {
    printf '%s: %s\n' "$SELF" "$*" >&2
    exit 1
}

# need_root WHY
need_root() { [ "$(id -u)" = 0 ] || fail "must be run as root: $1"; }
MAKES_PODS="it talks to containerd, mounts and makes network namespaces"

# help_if_asked ARGUMENT...: with --help anywhere among them, prints the head of the script, and that is all that happens.
help_if_asked() {
    local argument
    for argument in "$@"; do
        case $argument in -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit ;; esac
    done
}

unknown_option() { fail "unknown option '$1' (see scripts/$SELF --help)"; }

# quietly WHAT COMMAND...: says WHAT and runs COMMAND with its output kept in a log, which is shown only when it fails.
quietly() {
    local what=$1 log
    shift
    log=$(mktemp "${TMPDIR:-/tmp}/minikubelet-$SELF.XXXXXX.log")
    say "  $what ..."
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 40 "$log" | sed 's/^/    | /' >&2
        fail "failed: $what (the whole output: $log)"
    fi
    rm -f "$log"
}

# A NEED is a command, an absolute path, or import=MODULE for a module of the system's Python.
have() {
    case $1 in
        import=*) /usr/bin/python3 -c "import ${1#import=}" 2>/dev/null ;;
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] ;;
    esac
}

# apt_get_missing NEED:PACKAGE...: installs the packages whose NEED is not there; their names are in APT_INSTALLED afterwards.
# What is there stays: Docker's containerd.io, say, is never exchanged for Debian's containerd.
apt_get_missing() {
    local pair
    APT_INSTALLED=()
    for pair in "$@"; do
        have "${pair%%:*}" || APT_INSTALLED+=("${pair#*:}")
    done
    [ ${#APT_INSTALLED[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "there is no apt-get here; install by hand what these Debian packages hold: ${APT_INSTALLED[*]}"
    quietly "apt-get update" apt-get update
    quietly "apt-get install ${APT_INSTALLED[*]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${APT_INSTALLED[@]}"
    hash -r
}

PYTHON_PACKAGES=(/usr/bin/python3:python3 import=ensurepip:python3-venv)
RUNTIME_PACKAGES=(containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins iptables:iptables ip:iproute2)

# unpack_deb PACKAGE FOLDER [APT-OPTION...]: the package's content in FOLDER, nothing installed.
unpack_deb() {
    local package=$1 folder=$2
    shift 2
    rm -rf "$folder" "$folder.new"
    mkdir -p "$folder.new"
    (cd "$folder.new" && apt-get "$@" download "$package" && dpkg -x ./*.deb . && rm ./*.deb) && mv "$folder.new" "$folder"
}

# Images for the demo and the tests are made of a static busybox. Installing Debian's would push out its dynamic sister that a host
# may use, so it is only unpacked, and put on PATH.
static_busybox() {
    local folder=$ROOT/build/busybox
    if [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1; then return; fi
    if [ ! -x "$folder/usr/bin/busybox" ] && [ ! -x "$folder/bin/busybox" ]; then
        quietly "apt-get update" apt-get update
        quietly "unpacking Debian's busybox-static into build/" unpack_deb busybox-static "$folder"
    fi
    PATH=$folder/usr/bin:$folder/bin:$PATH
}

# containerd_2: sets CONTAINERD_2 to a containerd 2.x of Debian's coming release, unpacked into build/, or leaves it empty.
# The mirror is the one that this machine's own apt uses.
containerd_2() {
    local folder=$ROOT/build/containerd-2 apt=$ROOT/build/apt-forky mirror options
    CONTAINERD_2=''
    if [ ! -x "$folder/usr/bin/containerd" ]; then
        mirror=$(debian_mirror)
        if [ -z "$mirror" ]; then # apt's lists may never have been fetched here
            apt-get update >/dev/null 2>&1 || return 0
            mirror=$(debian_mirror)
        fi
        [ -n "$mirror" ] || return 0
        mkdir -p "$apt/lists/partial"
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror forky main" >"$apt/sources.list"
        options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::Lists=$apt/lists"
            -o APT::Sandbox::User=root)
        say "  unpacking Debian forky's containerd into build/ ..."
        { apt-get "${options[@]}" update && unpack_deb containerd "$folder" "${options[@]}"; } >"$apt/log" 2>&1 || return 0
    fi
    if "$folder/usr/bin/containerd" --version >/dev/null 2>&1; then CONTAINERD_2=$folder/usr/bin/containerd; fi
}

debian_mirror() {
    # shellcheck disable=SC2016 # these are apt's own variables
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sed -n 's/^Debian //p' | sort -u | head -n 1 || true
}

# The interpreter of a venv is the system's own, which stays when somebody's version manager goes.
system_python() {
    /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "/usr/bin/python3 must be Python 3.11 or newer, as in Debian 12 and later"
    echo /usr/bin/python3
}

# make_venv [EXTRA]: .venv with the package (editable) and one of its extras, made anew only when its ingredients changed.
make_venv() {
    local extra=${1:-} stamp=$VENV/.minikubelet-stamp ingredients
    ingredients=$(cd "$ROOT" && find pyproject.toml hatch_build.py protos -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
    if [ -x "$VENV/bin/minikubelet" ] && "$VENV/bin/python" -c 'import minikubelet' 2>/dev/null; then
        grep -qsxF -e "$ingredients dev" -e "$ingredients $extra" "$stamp" && return
        ! grep -qs ' dev$' "$stamp" || extra=dev # whole again, not half upgraded
    fi
    "$VENV/bin/python" -m pip --version >/dev/null 2>&1 ||
        quietly "python3 -m venv .venv" "$(system_python)" -m venv --clear "$VENV"
    quietly "pip install: the package${extra:+ and its $extra tools} into .venv" \
        "$VENV/bin/python" -m pip install --disable-pip-version-check -e "$ROOT${extra:+[$extra]}"
    printf '%s %s\n' "$ingredients" "$extra" >"$stamp"
}
