#!/usr/bin/env bash
# Make .venv at the project's root hold the package with the extras asked for, and see to it that there is a browser.
# Safe to run again at any time: does nothing when all is in place, goes on where a broken-off run stopped.
#
#   bash scripts/setup.sh [--repair] [EXTRA ...]
#
# The extras are those of pyproject.toml; without any: train. --repair looks at every package again.
#
# PYTHON names the interpreter to make .venv with, SELFSURF_BROWSER a browser to use; pip's own settings are respected.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
unset PYTHONHOME PYTHONPATH PIP_PREFIX PIP_TARGET PIP_USER
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

venv=.venv
python=$venv/bin/python
log=$root/$venv/setup.log
stamp=$venv/setup.stamp         # what was installed: key, extras, browser
unfinished=$venv/setup.unfinished # there while .venv itself is being made: nobody else's, may be removed
pip_version=26.3
pip_sha256=f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13

say() { printf '%s\n' "$*"; }
fail() {
    printf '\nsetup failed: %s\n' "$1" >&2
    exit 1
}

# step TEXT COMMAND...: run it with its output in the log, show how long it took, and the end of the log if it fails.
step() {
    local text=$1 began=$SECONDS ticker=
    shift
    printf '%s' "$text ... "
    if [ -t 1 ]; then
        (while sleep 1 && kill -0 $$ 2>/dev/null; do printf '\r%s ... %d s ' "$text" $((SECONDS - began)); done) &
        ticker=$!
    fi
    local code=0
    { printf '\n## %s\n' "$text" && "$@" </dev/null; } >>"$log" 2>&1 || code=$?
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        printf '\r%s ... ' "$text"
    fi
    if [ "$code" = 0 ]; then
        say "done ($((SECONDS - began)) s)"
    else
        say "failed ($((SECONDS - began)) s)"
    fi
    return "$code"
}

show_log() {
    say "--- the last lines of $log:" >&2
    tail -n 25 "$log" >&2 || true
}

is_root() { [ "$(id -u)" = 0 ]; }
has_apt() { is_root && command -v apt-get >/dev/null; }
apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=120 update
    apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Print the interpreter to make .venv with.
find_python() {
    local name
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || return 1
        command -v "$PYTHON"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11 python3.14; do
        if command -v "$name" >/dev/null && new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

# Put pip into .venv from its wheel: wants neither ensurepip nor curl. The hash vouches for it, whoever sent it.
fetch_pip() {
    "$python" - "$pip_version" "$pip_sha256" "$venv" <<'PYTHON'
import configparser, hashlib, os, pathlib, re, ssl, subprocess, sys, urllib.parse, urllib.request

version, sha256, venv = sys.argv[1:]
settings = configparser.ConfigParser(strict=False, interpolation=None)
home = pathlib.Path.home()
settings.read(["/etc/pip.conf", home / ".pip/pip.conf", home / ".config/pip/pip.conf", os.environ.get("PIP_CONFIG_FILE", "")])
index = os.environ.get("PIP_INDEX_URL") or settings.get("global", "index-url", fallback="https://pypi.org/simple")
page = index.rstrip("/") + "/pip/"
name = f"pip-{version}-py3-none-any.whl"


def get(url, context):
    return urllib.request.urlopen(url, timeout=60, context=context).read()


def fetch(context):
    links = re.findall(r'href="([^"]+)"', get(page, context).decode())
    link = next(link for link in links if name in link)
    return get(urllib.parse.urljoin(page, link), context)


try:
    wheel = fetch(ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None))
except urllib.error.URLError as error:
    if not isinstance(error.reason, ssl.SSLError):
        raise
    print("no certificates to check the server with; the hash is checked all the same")
    wheel = fetch(ssl._create_unverified_context())
if hashlib.sha256(wheel).hexdigest() != sha256:
    sys.exit(f"{name} from {index} is not the file that was expected")
path = pathlib.Path(venv, name)
path.write_bytes(wheel)
subprocess.run([sys.executable, f"{path}/pip", "install", "--no-index", "--no-deps", str(path)], check=True)
path.unlink()
PYTHON
}

make_venv() {
    rm -rf "$venv"
    mkdir "$venv"
    : >"$unfinished"
    "$1" -m venv --without-pip "$venv" || return
    fetch_pip || "$python" -m ensurepip --default-pip
}

# What pip left behind when it was stopped halfway: distributions that it would take for installed.
sweep() {
    "$python" - <<'PYTHON'
import pathlib, shutil, sysconfig

site = pathlib.Path(sysconfig.get_path("purelib"))
for folder in [*site.glob("~*"), *(info for info in site.glob("*.dist-info") if not (info / "RECORD").exists())]:
    print("removing", folder)
    shutil.rmtree(folder, ignore_errors=True)
PYTHON
}

# Say where pip should look for torch besides its own index: PyPI's build for Linux brings gigabytes of CUDA.
torch_index() {
    local url=https://download.pytorch.org/whl/cpu
    [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null && [ ! -e /proc/driver/nvidia/version ] || return 0
    "$python" - "$url/torch/" <<'PYTHON' >/dev/null 2>&1 && printf '%s' "--extra-index-url=$url"
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=5).close()
PYTHON
    return 0
}

# Import the big libraries once: shows that they work here, and leaves their byte code behind, for what pip would
# have to compile takes as long as the whole installation.
try_imports() {
    local modules="gymnasium PIL playwright.async_api pydantic pydantic_settings rich typer"
    case " $extras " in
        *" train "*) modules="$modules datasets gguf llguidance matplotlib.pyplot peft safetensors.torch torch
            transformers.models.llama.modeling_llama trl.experimental.sdft" ;;
    esac
    # shellcheck disable=SC2086
    env -u PYTHONDONTWRITEBYTECODE "$python" -c \
        'import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]' $modules
}

pip_install() { "$python" -m pip install --no-compile --constraint .ci/constraints.txt "$@"; }

# --- what is wanted, and is it all there already?

repair=
if [ "${1:-}" = --repair ]; then
    repair=yes
    shift
fi
case "${1:-}" in
    -*)
        sed -n '5,9s/^# \{0,1\}//p' "$0"
        [ "$1" = -h ] || [ "$1" = --help ] || fail "there is no option $1"
        exit 0
        ;;
esac
[ $# -gt 0 ] || set -- train
key=$(cat pyproject.toml .ci/constraints.txt scripts/setup.sh | cksum)" $root"
old_key='' old_extras='' old_browser=''
if [ -x "$python" ] && [ -f "$stamp" ]; then
    { read -r old_key; read -r old_extras; read -r old_browser; } <"$stamp" || true
fi
extras=$old_extras missing=
for extra in "$@"; do
    case " $extras " in
        *" $extra "*) ;;
        *) extras="$extras $extra" missing=yes ;;
    esac
done
extras=${extras# }
[ -z "$repair" ] || old_key='' old_browser=''
if [ "$old_key" = "$key" ] && [ -z "$missing" ]; then
    if [ "$old_browser" = "given: ${SELFSURF_BROWSER:-}" ] || { [ -z "${SELFSURF_BROWSER:-}" ] && [ -x "$old_browser" ]; }; then
        exit 0
    fi
fi

remember() {
    printf '%s\n' "$key" "$extras" "$1" >"$stamp.new"
    mv "$stamp.new" "$stamp"
}

if command -v flock >/dev/null; then
    exec 9<"$root"
    flock -n 9 || { say "another setup is running here; waiting for it" && flock 9; }
fi

# --- .venv

if [ -e "$unfinished" ] || ! new_enough "$python"; then
    if [ -e "$venv" ] && [ ! -e "$unfinished" ]; then
        old=$("$python" -V 2>/dev/null) && fail "$root/$venv has $old, but 3.11 or newer is needed: remove the folder and try again"
        say "$root/$venv has no working Python: creating it again"
    fi
    base=$(find_python) || {
        if [ -z "${PYTHON:-}" ] && has_apt; then
            log=$(mktemp)
            step "no Python 3.11 or newer: apt-get install python3" apt_install python3 python3-venv ca-certificates || true
        fi
        base=$(find_python) || fail "Python 3.11 or newer is needed, but ${PYTHON:-python3} is $("${PYTHON:-python3}" -V 2>&1 || true)
Install it (Debian, Ubuntu: apt-get install python3 python3-venv; Mac: https://www.python.org/downloads),
or give its path: PYTHON=/path/to/python3.11 bash scripts/setup.sh"
    }
    log=$(mktemp)
    step "$("$base" -V) environment in $venv" make_venv "$base" || {
        has_apt || { show_log; fail "$venv could not be created (on Debian, Ubuntu: apt-get install python3-venv ca-certificates)"; }
        step "apt-get install python3-venv ca-certificates" apt_install python3-venv ca-certificates || true
        step "$("$base" -V) environment in $venv" make_venv "$base" || { show_log; fail "$venv could not be created"; }
    }
    mv "$log" "$root/$venv/setup.log"
    log=$root/$venv/setup.log
    rm -f "$unfinished"
fi

# --- packages

if [ "$old_key" != "$key" ] || [ -n "$missing" ]; then
    rm -f "$stamp"
    "$python" -m pip --version >>"$log" 2>&1 || step "pip" fetch_pip || { show_log; fail "pip could not be fetched"; }
    sweep >>"$log" 2>&1
    case " $extras " in
        *" train "*)
            from=$(torch_index)
            # shellcheck disable=SC2086
            step "torch" pip_install torch $from || { show_log; fail "torch could not be installed"; }
            ;;
    esac
    step "packages (${extras// /, })" pip_install --editable ".[${extras// /,}]" || {
        show_log
        fail "the packages could not be installed"
    }
    step "first import" try_imports || { show_log; fail "the packages do not work here"; }
    remember ''
fi

# --- browser

if ! browser=$("$python" -m selfsurf.scripts.install_browser --check 2>>"$log"); then
    step "browser" "$python" -m selfsurf.scripts.install_browser || { show_log; fail "there is no browser; the lines above say what to do"; }
    browser=$("$python" -m selfsurf.scripts.install_browser --check)
fi

[ -z "${SELFSURF_BROWSER:-}" ] || browser="given: $SELFSURF_BROWSER"
remember "$browser"
