# Shell functions of tools/setup, try, test and gpu-bundle. Sourced with the repository's root as $root.
# shellcheck shell=bash
: "${root:?}"
# shellcheck source=tools/versions
. "$root/tools/versions"

say() { printf '%s\n' "$*" >&2; }
title() { printf '\n== %s\n' "$*" >&2; }
die() {
    say "$(basename "$0"): $1"
    exit "${2:-1}"
}

# Jobs for builds and tests: SMLA_JOBS, else the cores there are, at most 8.
jobs_count() {
    local cores
    cores=$(nproc)
    printf '%s\n' "${SMLA_JOBS:-$((cores < 8 ? cores : 8))}"
}

# True when version $1 >= $2.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Prints the rows of pinned wheels whose version begins with $1: 12.8 or 12.8.93; all without it.
nvrtc_wheels() {
    local wheel
    for wheel in "${SMLA_NVRTC_WHEELS[@]}"; do
        [[ -n "${1:-}" && "$wheel" != "$1"[.\ ]* ]] || printf '%s\n' "$wheel"
    done
}

# Prints the path of a pinned wheel's libnvrtc, unpacked or not; $1 as above.
wheel_nvrtc() {
    local version package folder
    read -r version package _ < <(nvrtc_wheels "$1")
    folder=cu${version%%.*}
    [ "$package" != nvidia-cuda-nvrtc-cu12 ] || folder=cuda_nvrtc
    printf '%s/build/nvrtc/%s/nvidia/%s/lib/libnvrtc.so.%s\n' "$root" "$version" "$folder" "${version%%.*}"
}

# Prints the newest libnvrtc of a toolkit on this system that is new enough; nothing when there is none.
# The version is read off the builtins library beside it, whose name carries major.minor.
system_nvrtc() {
    local builtins version best='' best_version=0 library
    while IFS= read -r builtins; do
        version=${builtins##*libnvrtc-builtins.so.}
        library=$(dirname "$builtins")/libnvrtc.so.${version%%.*}
        [ -e "$library" ] || continue
        if version_at_least "$version" "$SMLA_NVRTC_OLDEST" && version_at_least "$version" "$best_version"; then
            best=$library
            best_version=$version
        fi
    done < <(
        ldconfig -p 2>/dev/null | sed -n 's/.* => \(.*libnvrtc-builtins\.so\.[0-9.]*\)$/\1/p'
        for builtins in /usr/local/cuda*/lib64/libnvrtc-builtins.so.* /opt/cuda/lib64/libnvrtc-builtins.so.*; do
            [ -e "$builtins" ] && printf '%s\n' "$builtins"
        done
    )
    [ -z "$best" ] || printf '%s\n' "$best"
}

# Prints the NVRTC that `setup` made available for $1, try or test. Golden tables hold for one NVRTC alone, so the
# tests use the pinned wheel even where a toolkit is installed.
nvrtc_for() {
    local system=''
    [ "$1" != try ] || system=$(system_nvrtc)
    printf '%s\n' "${system:-$(wheel_nvrtc "$SMLA_NVRTC_VERSION")}"
}
