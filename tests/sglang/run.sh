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

fetch() { # RELEASE: make $cache/RELEASE; an unfinished download is never left under that name
    local release="$1" partial
    [ -d "$cache/$release/sglang" ] && return 0
    mkdir -p "$cache"
    partial="$(mktemp -d "$cache/partial.XXXXXX")"
    if "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
        --target "$partial" "sglang==$release"; then
        rm -rf "${cache:?}/$release"
        mv "$partial" "$cache/$release"
        chmod 755 "$cache/$release"
    else
        rm -rf "$partial"
        return 1
    fi
}

failed=() skipped=()
for release in "$@"; do
    if ! fetch "$release"; then
        skipped+=("$release")
        echo "sglang $release: could not be downloaded" >&2
        continue
    fi
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
