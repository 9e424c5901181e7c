#!/usr/bin/env bash
# Judge swasim by real SGLang releases: run.sh [RELEASE...]
#
# Each release is downloaded once, without its dependencies, into .venv-sglang/RELEASE, and is
# tested in a process of its own. Offline, a release that was never downloaded is skipped with a
# message; where CI is set that is a failure. SGLANG_SEEDS sets the length of the random part.
set -euo pipefail
cd "$(dirname "$0")/../.."

python="${VENV:-.venv}/bin/python"
cache="${SGLANG_CACHE:-.venv-sglang}"
if [ $# -eq 0 ]; then
    set -- 0.5.12 0.5.14 0.5.18 0.5.23
fi

# fetch RELEASE: make $cache/RELEASE; an unfinished download is never left under that name.
# 0 it is there, 1 the package index cannot be reached, 2 the index has no such release.
fetch() {
    local release="$1" partial log
    [ -d "$cache/$release/sglang" ] && return 0
    mkdir -p "$cache"
    partial="$(mktemp -d "$cache/partial.XXXXXX")"
    if log="$("$python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --no-compile --target "$partial" "sglang==$release" 2>&1)"; then
        rm -rf "${cache:?}/$release"
        mv "$partial" "$cache/$release"
        chmod 755 "$cache/$release"
        return 0
    fi
    rm -rf "$partial"
    printf '%s\n' "$log" | grep '^ERROR' | tail -n 1 | cut -c 1-200 >&2
    case "$log" in
        *"(from versions: none)"*) return 1 ;;
        *"No matching distribution"*) return 2 ;;
        *) return 1 ;;
    esac
}

failed=() skipped=()
for release in "$@"; do
    status=0
    fetch "$release" || status=$?
    case $status in
        0) ;;
        1) skipped+=("$release"); echo "sglang $release: could not be downloaded" >&2; continue ;;
        *) failed+=("$release"); echo "sglang $release: there is no such release" >&2; continue ;;
    esac
    echo "sglang $release"
    SGLANG_RELEASE="$release" PYTHONPATH="$cache/$release:$PWD" PYTHONDONTWRITEBYTECODE=1 \
        "$python" -m pytest tests/sglang -q -p no:cacheprovider -W default || failed+=("$release")
done

if [ ${#skipped[@]} -gt 0 ]; then
    if [ -n "${CI:-}" ]; then
        echo "failed: not downloaded: ${skipped[*]}" >&2
        exit 1
    fi
    echo "SKIPPED, not downloaded: ${skipped[*]} (needs pip's package index once)" >&2
fi
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: sglang ${failed[*]}" >&2
    exit 1
fi
