#!/usr/bin/env bash
# Builds ./caddy: Caddy with Gatehouse in it, from this checkout.
#
#   ./xcaddy.sh               build
#   ./xcaddy.sh run [args]    build, then ./caddy run --config Caddyfile.example [args]
#
# OUTPUT names another file than ./caddy, and GOARCH another processor.
#
# It needs Go, and the network once, for the dependencies. The versions of Caddy
# and of xcaddy stand in go.mod and tools/xcaddy/go.mod, and nowhere else.
set -euo pipefail

case "${1-build}" in
build | run) ;;
*)
	echo "usage: ./xcaddy.sh [build | run [caddy run arguments]]" >&2
	exit 2
	;;
esac

output=$(realpath -m -- "${OUTPUT:-$(dirname -- "${BASH_SOURCE[0]}")/caddy}")

# Everything below is relative to the checkout, wherever the caller stands.
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

module=github.com/gatehouse-auth/gatehouse

# pin prints the version that the module file $1 requires of the module $2.
pin() {
	sed -nE "s|^(require)?[[:space:]]*$2 (v[^[:space:]]+).*|\\2|p" "$1"
}
caddy_version=$(pin go.mod github.com/caddyserver/caddy/v2)
xcaddy_version=$(pin tools/xcaddy/go.mod github.com/caddyserver/xcaddy)

# A static binary runs in any container; nothing in Gatehouse needs C.
export CGO_ENABLED=${CGO_ENABLED:-0}
# A workspace around the checkout would change which code is built.
export GOWORK=off

# The name of this build, for `caddy version` and `caddy build-info`. A checkout
# without git or without history still builds.
GATEHOUSE_VERSION=v0.0.0
label=devel
if [[ -e .git ]] && label=$(git describe --tags --always --dirty 2>/dev/null); then
	GATEHOUSE_VERSION=$(TZ=UTC git log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=v0.0.0-%cd-%h)
else
	label=devel
fi
GATEHOUSE_CHECKOUT=$PWD
export GATEHOUSE_VERSION GATEHOUSE_CHECKOUT
export XCADDY_WHICH_GO=$PWD/tools/xcaddy/go-in-checkout

# xcaddy's own flags, spelled out because setting any drops them all, and the name.
# shellcheck disable=SC2089 # the quotes are for xcaddy, which splits as a shell does
if [[ -z "${XCADDY_GO_BUILD_FLAGS-}" ]]; then
	name=github.com/caddyserver/caddy/v2.CustomVersion=$caddy_version+gatehouse.$label
	XCADDY_GO_BUILD_FLAGS="-trimpath -tags=nobadger,nomysql,nopgx -ldflags='-w -s -X $name'"
fi
# shellcheck disable=SC2090 # as above
export XCADDY_GO_BUILD_FLAGS

# The pinned xcaddy: the one on PATH if it is that version, else through the
# modfile, which also holds its checksum.
if [[ "$(xcaddy version 2>/dev/null) " == "$xcaddy_version "* ]]; then
	xcaddy=(xcaddy)
else
	xcaddy=("$(env -u GOOS -u GOARCH go tool -modfile=tools/xcaddy/go.mod -n xcaddy)") # for this machine, whatever it builds for
fi
"${xcaddy[@]}" build "$caddy_version" --output "$output" \
	--with "$module/caddymodule" --replace "$module=$PWD"

if [[ "${1-}" == run ]]; then
	exec "$output" run --config Caddyfile.example "${@:2}"
fi
