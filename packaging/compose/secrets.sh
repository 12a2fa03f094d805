#!/bin/sh
# packaging/compose/secrets.sh
#
# Makes what compose.yaml asks for in ./secrets, once. The container's user, 65532, must be able to read kek and dsn, so it needs root.
set -eu
umask 077
cd -- "$(dirname -- "$0")"
mkdir secrets
openssl rand -base64 32 >secrets/kek
openssl rand -hex 24 | tr -d '\n' >secrets/postgres_password
printf 'postgres://gatehouse:%s@postgres/gatehouse?sslmode=disable' "$(cat secrets/postgres_password)" >secrets/dsn
chown 65532:65532 secrets/kek secrets/dsn
chmod 0755 secrets
