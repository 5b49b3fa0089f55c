#!/bin/sh
# Creates the passwords of compose.yaml in deploy/secrets, each only if it does not exist yet.
# Other users of this machine cannot enter the folder; its files are readable by all, since each container has its own
# user.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets

keep() { # NAME VALUE
    [ -s "secrets/$1" ] || printf '%s\n' "$2" >"secrets/$1"
    chmod 644 "secrets/$1"
}

random() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

keep kafka_password "$(random)"
keep postgres_password "$(random)"
keep ledger_key "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')"
keep poweron_postgres "postgresql://poweron:$(cat secrets/postgres_password)@postgres/poweron"
