#!/usr/bin/env bash
# Installs Hermes for the user who runs it. Needs no root and no terminal, and may be run again at any time.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: install.sh [OPTION]...

  --hermes-home PATH  the home to prepare: settings, memory, conversations   (default: $HERMES_HOME or ~/.hermes)
  --dir PATH          where the program is installed   (default: $HERMES_INSTALL_DIR or the home's hermes-agent)
  --branch REF        branch or tag to install
  --update            bring the source up to date first; what hermes update does
  --check             with --update: tell whether there is an update, and change nothing
  --yes               with --update: migrate the configuration without asking
  --allow-unsigned    install releases without a signature, checked by their checksums alone, now and with updates
  --skip-setup        ask nothing
  --no-venv           accepted, no effect
  -h, --help          this text

The program comes from the first of these that there is:
  HERMES_RELEASE_URL  a place with releases: $HERMES_RELEASE_URL/REF/hermes-OS-MACHINE and the same with .sha256;
                      with HERMES_RELEASE_KEY, a minisign public key, also with .minisig, which is checked
  --dir               when it holds the source
  HERMES_SOURCE       a folder with the source
  this script's tree  when no other branch is asked for
  HERMES_REPO         a git repository with the source, cloned into --dir

HERMES_BUILD_PROFILE and CARGO_TARGET_DIR are passed to cargo. Files of yours that exist are kept.
USAGE
}

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
value() { [ "$2" -gt 1 ] || fail "$1 needs a value"; }

branch='' dir='' home='' ask=yes update=no check=no stage=no unsigned='' yes='' source=''
while [ $# -gt 0 ]; do
    case "$1" in
        --skip-setup) ask=no ;;
        --update) update=yes ask=no ;;
        --check) check=yes ;;
        --stage) stage=yes ;;
        --allow-unsigned) unsigned=--allow-unsigned ;;
        --yes) yes=--yes ;;
        --no-venv) ;;
        --branch) value "$1" $#; branch=$2; shift ;;
        --dir) value "$1" $#; dir=$2; shift ;;
        --hermes-home) value "$1" $#; home=$2; shift ;;
        -h | --help) usage; exit 0 ;;
        *) echo "Unknown option: $1" >&2; exit 1 ;;
    esac
    shift
done

: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
[ -d "$HOME" ] || fail "HOME is not a folder; set it to the folder of the user who shall run Hermes"
export HOME
absolute() { case "$1" in /*) printf %s "$1" ;; *) printf %s "$PWD/$1" ;; esac; }
home=$(absolute "${home:-${HERMES_HOME:-$HOME/.hermes}}")
dir=$(absolute "${dir:-${HERMES_INSTALL_DIR:-$home/hermes-agent}}")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

# --- the home -------------------------------------------------------------------------------------------------------

prepare_home() (
    umask 077
    mkdir -p "$home" && chmod 700 "$home"
    for name in cron sessions logs pairing hooks image_cache audio_cache memories skills whatsapp whatsapp/session; do
        mkdir -p "$home/$name" && chmod 700 "$home/$name"
    done
    [ -e "$home/.env" ] || : >"$home/.env"
    chmod 600 "$home/.env"
)

# --- the program ----------------------------------------------------------------------------------------------------

is_source() { [ -f "$1/Cargo.toml" ] && [ -d "$1/crates/hermes" ]; }

# What the folder holds must be ours before anything is put into it.
check_dir() {
    [ ! -e "$dir" ] || [ -d "$dir" ] || fail "$dir is not a folder; choose another with --dir"
    if [ -d "$dir" ] && [ -n "$(ls -A "$dir")" ] && [ ! -e "$dir/.hermes-install" ] && ! is_source "$dir"; then
        fail "$dir holds something else; nothing was changed. Choose another folder with --dir"
    fi
    if [ -e "$dir/venv" ] && [ ! -L "$dir/venv/bin/hermes" ]; then
        fail "$dir/venv belongs to another program; nothing was changed. Choose another folder with --dir"
    fi
}

download() {
    case "$1" in
        https://* | http://127.0.0.1[:/]* | http://localhost[:/]* | file://*) ;;
        *) fail "HERMES_RELEASE_URL must begin with https:// (or file://)" ;;
    esac
    if have curl; then
        curl -fsSL --proto-redir '=https' --retry 3 -o "$2" "$1"
    elif have wget; then
        fetch_with_wget "$1" "$2"
    else
        fail "neither curl nor wget is installed"
    fi || fail "$1 could not be fetched; a redirect must lead to https://"
}

# Follows redirects to https alone, which wget itself cannot be told.
fetch_with_wget() {
    local url=$1 answer
    for _ in 1 2 3 4 5; do
        answer=$(wget -q -S --max-redirect=0 -O "$2" "$url" 2>&1) && return 0
        url=$(tr -d '\r' <<<"$answer" | sed -n 's/^ *[Ll]ocation: *\([^ ]*\).*/\1/p' | tail -n 1)
        case "$url" in https://*) ;; *) return 1 ;; esac
    done
    return 1
}

# Whether git may follow this address to plain http: only if it is that itself.
plain_http() { case "$1" in https://*) echo never ;; *) echo always ;; esac; }

sum_of() { if have sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

from_release() {
    local file url
    file="hermes-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)"
    url="${HERMES_RELEASE_URL%/}/${branch:-main}/$file"
    say "Fetching $url"
    download "$url" "$work/hermes"
    download "$url.sha256" "$work/sum"
    [ "$(sum_of "$work/hermes")" = "$(cut -d' ' -f1 "$work/sum")" ] ||
        fail "$url is not what its checksum says; nothing was installed"
    if [ -n "${HERMES_RELEASE_KEY:-}" ] && [ -z "$unsigned" ]; then
        download "$url.minisig" "$work/hermes.minisig"
        # An update leaves this check to the program that is installed.
        [ "$stage" = yes ] || check_signature
    elif [ "$stage" = yes ] && [ -z "$unsigned" ]; then
        # The program may have a key of its own.
        (download "$url.minisig" "$work/hermes.minisig") 2>/dev/null || rm -f "$work/hermes.minisig"
    fi
    built="$work/hermes"
}

# Checks the signature of a release with minisign or with openssl.
check_signature() {
    if have minisign; then
        minisign -Vqm "$work/hermes" -x "$work/hermes.minisig" -P "$HERMES_RELEASE_KEY" >/dev/null 2>&1
    elif have openssl && have base64; then
        signed_by_openssl
    else
        fail "HERMES_RELEASE_KEY is set, and neither minisign nor openssl is installed to check the signature with"
    fi || fail "the signature of $url does not belong to it, or was made with another key; nothing was installed"
}

# A key is 2 bytes of name, 8 of id and 32 of key; a signature is the same with 64, made over the BLAKE2b sum of the file.
signed_by_openssl() {
    local at="$work/signature"
    mkdir -p "$at"
    printf %s "$HERMES_RELEASE_KEY" | base64 -d >"$at/key" 2>/dev/null || return 1
    sed -n 2p "$work/hermes.minisig" | base64 -d >"$at/signed" 2>/dev/null || return 1
    [ "$(head -c 2 "$at/signed")" = ED ] || return 1
    [ "$(head -c 10 "$at/key" | tail -c 8 | od -An -tx1)" = "$(head -c 10 "$at/signed" | tail -c 8 | od -An -tx1)" ] || return 1
    # The head of an Ed25519 key in the form that openssl reads.
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000'; tail -c 32 "$at/key"; } >"$at/key.der"
    tail -c 64 "$at/signed" >"$at/signature"
    openssl dgst -blake2b512 -binary -out "$at/sum" "$work/hermes" &&
        openssl pkeyutl -verify -pubin -keyform DER -inkey "$at/key.der" -rawin -in "$at/sum" -sigfile "$at/signature" >/dev/null 2>&1
}

find_cargo() {
    if ! have cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then PATH="$HOME/.cargo/bin:$PATH"; fi
    have cargo || fail "Hermes is built from source here, and cargo is not installed.
  Get it with rustup (https://rustup.rs) as this user, without root, and run this again;
  or set HERMES_RELEASE_URL to a place with releases"
    have cc || fail "a C compiler is needed to build (Debian: apt-get install build-essential; macOS: xcode-select --install)"
}

fetch_source() {
    local own=''
    if [ -n "${BASH_SOURCE[0]:-}" ] && [ -f "${BASH_SOURCE[0]}" ]; then
        own=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    fi
    if is_source "$dir"; then
        source=$dir
        [ -z "$branch" ] || check_out
    elif [ -n "${HERMES_SOURCE:-}" ]; then
        is_source "$HERMES_SOURCE" || fail "HERMES_SOURCE ($HERMES_SOURCE) does not hold the source"
        source=$HERMES_SOURCE
    elif [ -n "$own" ] && is_source "$own" && [ -z "$branch" ]; then
        source=$own
    elif [ -n "${HERMES_REPO:-}" ]; then
        have git || fail "git is needed to fetch the source"
        say "Cloning $HERMES_REPO"
        git -c advice.detachedHead=false -c protocol.http.allow="$(plain_http "$HERMES_REPO")" clone -q --depth 1 --branch "${branch:-main}" -- "$HERMES_REPO" "$dir" || fail "$HERMES_REPO could not be cloned"
        source=$dir
    else
        fail "there is no source to build: set HERMES_REPO to its git repository, or HERMES_RELEASE_URL to a place with releases"
    fi
}

# Brings the source in --dir to another branch or tag; changes of the user are never thrown away.
check_out() {
    have git || fail "git is needed to change to $branch"
    [ -e "$dir/.git" ] || fail "$dir is not a git repository, so --branch cannot choose what to install"
    [ -z "$(git -C "$dir" status --porcelain --untracked-files=no)" ] || fail "$dir has changes of your own; commit or undo them first"
    git -C "$dir" -c protocol.http.allow="$(plain_http "$(git -C "$dir" remote get-url origin 2>/dev/null)")" \
        fetch -q --depth 1 origin "$branch" 2>/dev/null && git -C "$dir" checkout -q --detach FETCH_HEAD && return
    git -C "$dir" checkout -q --detach "$branch" -- 2>/dev/null || fail "there is no branch or tag $branch in $dir"
}

# Brings a branch to what its origin has. Changes of the user are put aside where git keeps them, and that is said.
bring_up_to_date() {
    local label
    { [ -e "$source/.git" ] && have git; } || { say "$source is not a git repository; it is built as it is"; return; }
    git -C "$source" symbolic-ref -q HEAD >/dev/null || { say "$source is at a fixed state; it is built as it is"; return; }
    git -C "$source" rev-parse -q --verify '@{upstream}' >/dev/null || { say "the branch in $source follows no other; it is built as it is"; return; }
    git -C "$source" -c protocol.http.allow="$(plain_http "$(git -C "$source" remote get-url origin 2>/dev/null)")" fetch -q || fail "the newest state could not be fetched; nothing was changed"
    if [ -n "$(git -C "$source" status --porcelain --untracked-files=no)" ]; then
        label="before hermes update, $(date '+%Y-%m-%d %H:%M')"
        git -C "$source" stash push -q -m "$label" || fail "your changes in $source could not be put aside; nothing was changed"
        say "Your changes in $source were put aside; git stash pop brings them back ($label)"
    fi
    git -C "$source" merge -q --ff-only '@{upstream}' || fail "the branch in $source has commits of its own; bring it up to date by hand"
}

from_source() {
    local profile=${HERMES_BUILD_PROFILE:-release} target folder
    find_cargo
    fetch_source
    [ "$update" = no ] || [ -n "$branch" ] || bring_up_to_date
    say "Building in $source (this takes some minutes the first time)"
    (cd "$source" && cargo build --quiet --locked --profile "$profile" -p hermes) || fail "the build failed; nothing was installed"
    target=${CARGO_TARGET_DIR:-$source/target}
    case "$profile" in dev | test) folder=debug ;; bench) folder=release ;; *) folder=$profile ;; esac
    built="$target/$folder/hermes"
    [ -x "$built" ] || fail "$built was not built"
}

# Puts the new program beside the old one.
stage_program() {
    mkdir -p "$dir/bin" "$dir/venv/bin"
    printf '%s\n' "home=$home" "branch=$branch" "source=$source" "release=${HERMES_RELEASE_URL:-}" "key=${HERMES_RELEASE_KEY:-}" "unsigned=$unsigned" \
        "repository=${HERMES_REPO:-}" "profile=${HERMES_BUILD_PROFILE:-}" "target=${CARGO_TARGET_DIR:-}" >"$dir/.hermes-install.new"
    cp "$built" "$dir/bin/.hermes.new"
    chmod 755 "$dir/bin/.hermes.new"
    rm -f "$dir/bin/.hermes.new.minisig"
    [ ! -f "$work/hermes.minisig" ] || cp "$work/hermes.minisig" "$dir/bin/.hermes.new.minisig"
}

# The new program takes the place of the old one in one step; one that runs goes on with the old. The old one stays beside it.
place_program() {
    "$dir/bin/.hermes.new" --version >/dev/null || fail "the program does not run on this machine; the old one, if any, is still there"
    if [ -f "$dir/bin/hermes" ] && ! cmp -s "$dir/bin/.hermes.new" "$dir/bin/hermes"; then
        ln -f "$dir/bin/hermes" "$dir/bin/hermes.previous" 2>/dev/null || cp -p "$dir/bin/hermes" "$dir/bin/hermes.previous"
    fi
    mv -f "$dir/bin/.hermes.new" "$dir/bin/hermes"
    mv -f "$dir/.hermes-install.new" "$dir/.hermes-install"
    rm -f "$dir/bin/.hermes.new.minisig"
    ln -sfn ../../bin/hermes "$dir/venv/bin/hermes"
}

# --- the shell ------------------------------------------------------------------------------------------------------

link_command() {
    local link="$HOME/.local/bin/hermes"
    mkdir -p "$HOME/.local/bin"
    if [ -e "$link" ] && [ ! -L "$link" ]; then
        say "note: $link is a program of yours and was kept; this one is $dir/bin/hermes"
        return
    fi
    if [ -L "$link" ] && [ "$(readlink "$link")" != "$dir/bin/hermes" ]; then
        say "note: $link pointed to $(readlink "$link") and now points here"
    fi
    ln -sfn "$dir/bin/hermes" "$link"
    case ":$PATH:" in *":$HOME/.local/bin:"*) ;; *) extend_path ;; esac
}

extend_path() {
    local file added=no
    for file in "$HOME/.bashrc" "$HOME/.zshrc" "$HOME/.profile"; do
        [ -w "$file" ] || continue
        added=yes
        grep -qF -e '# Hermes Agent' -e '.local/bin' "$file" && continue
        # shellcheck disable=SC2016
        printf '\n# Hermes Agent\nexport PATH="$HOME/.local/bin:$PATH"\n' >>"$file"
    done
    if [ "$added" = yes ]; then
        say "Open a new shell, or: export PATH=\"\$HOME/.local/bin:\$PATH\""
    else
        say "Add $HOME/.local/bin to PATH to call hermes by its name."
    fi
}

offer_service() {
    local answer
    if [ "$ask" = no ] || [ ! -t 0 ] || [ ! -t 1 ]; then return 0; fi
    if ! grep -qE '^(export )?([A-Z_]*_TOKEN|API_SERVER_KEY)=.' "$home/.env"; then
        say "hermes gateway setup  chooses how Hermes can be reached"
        return 0
    fi
    read -r -p 'Install the gateway as a service? [y/N] ' answer || return 0
    case "$answer" in [yY]*) HERMES_HOME="$home" "$dir/bin/hermes" gateway install ;; esac
}

# Tells whether there is an update. Fetches at most what git needs to compare.
check_for_update() {
    local url own behind
    if [ -n "${HERMES_RELEASE_URL:-}" ]; then
        url="${HERMES_RELEASE_URL%/}/${branch:-main}/hermes-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)"
        download "$url.sha256" "$work/sum"
        if [ "$(sum_of "$dir/bin/hermes")" = "$(cut -d' ' -f1 "$work/sum")" ]; then
            say "Up to date."
        else
            say "An update is available: hermes update"
        fi
        return
    fi
    own=${HERMES_SOURCE:-$dir}
    { is_source "$own" && [ -e "$own/.git" ] && have git; } || fail "$own is not a git repository, so there is nothing to compare with"
    git -C "$own" rev-parse -q --verify '@{upstream}' >/dev/null || fail "the branch in $own follows no other, so there is nothing to compare with"
    git -C "$own" -c protocol.http.allow="$(plain_http "$(git -C "$own" remote get-url origin 2>/dev/null)")" fetch -q || fail "the newest state could not be fetched"
    behind=$(git -C "$own" rev-list --count 'HEAD..@{upstream}')
    if [ "$behind" -eq 0 ]; then say "Up to date."; else say "An update is available ($behind commits): hermes update"; fi
}

check_dir
if [ "$check" = yes ]; then check_for_update; exit 0; fi
prepare_home
if [ -n "${HERMES_RELEASE_URL:-}" ]; then from_release; else from_source; fi
stage_program
if [ "$stage" = yes ]; then
    # The installed program checks the new one and puts it in place. No trap runs after exec.
    rm -rf "$work"
    # shellcheck disable=SC2086
    HERMES_HOME="$home" exec "$dir/bin/hermes" update --staged $yes $unsigned ${branch:+--branch "$branch"}
fi
place_program
link_command
say "✓ $("$dir/bin/hermes" --version) is installed: $dir/bin/hermes"
# What is left to do, the new program knows.
if [ "$update" = yes ]; then
    rm -rf "$work"
    # shellcheck disable=SC2086
    HERMES_HOME="$home" exec "$dir/bin/hermes" update --installed $yes
fi
say "  Home: $home"
[ "$home" = "$HOME/.hermes" ] || say "  Set HERMES_HOME=$home for every use of it."
offer_service
