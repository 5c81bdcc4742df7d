#!/bin/sh
# Builds Caddy, which no distribution's stable packages have, from Go's module proxy into a cache, for
# the tests of its door: minutes on two cores, so only where somebody asks for it. What is there
# already is not built again. Without Go those tests are skipped.
set -eu
CADDY=v2.11.9
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tidegate/proxies
[ ! -x "$cache/caddy-$CADDY" ] || exit 0
PATH="$PATH:/usr/local/go/bin"
if ! command -v go >/dev/null; then
    echo 'no Go on this machine (https://go.dev/dl): the tests of Caddy are skipped' >&2
    exit 0
fi
mkdir -p "$cache"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "building Caddy $CADDY"
CGO_ENABLED=0 GOBIN="$scratch" \
    go install -trimpath "github.com/caddyserver/caddy/v2/cmd/caddy@$CADDY"
mv "$scratch/caddy" "$cache/caddy-$CADDY"
