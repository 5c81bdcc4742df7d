#!/bin/sh
# Installs the proxies that tests of the doors run, nginx and HAProxy with Lua, a Redis that speaks
# TLS, which the wheel's server does not, and faketime, which sets a store's clock. Where it may not,
# it says what is missing, and those tests are skipped. With BUILD_PROXIES it builds those that are no
# packages, too.
set -u
[ -z "${BUILD_PROXIES:-}" ] || "$(dirname "$0")/proxies.sh"
missing=''
for server in nginx haproxy redis-server faketime; do
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$server" >/dev/null || missing="$missing $server"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing$missing"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # The packages start their servers, which nobody asked for: a policy of one line forbids it.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
        trap 'rm -f "$policy" "$log"' EXIT
    fi
    packages=$(echo "$missing" | sed 's/nginx/nginx-light/')
    # shellcheck disable=SC2086  # words
    if { apt-get update && apt-get install -y --no-install-recommends $packages; } >"$log" 2>&1; then
        exit 0
    fi
    tail -n 5 "$log"
fi
echo "not found:$missing; the tests that run them are skipped" >&2
