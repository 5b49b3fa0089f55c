#!/usr/bin/env bash
# Starts the broker of compose.yaml. At the first start it creates the user `poweron` with the password in
# /run/secrets/kafka_password; later starts leave the data and the user as they are.
set -euo pipefail
umask 077

kafka=${KAFKA_HOME:-/opt/kafka}
file=${KAFKA_PASSWORD_FILE:-/run/secrets/kafka_password}
password=$(cat "$file")
if [[ ! $password =~ ^[A-Za-z0-9_-]{16,}$ ]]; then
    echo "The password in $file cannot be used: write at least 16 letters, digits, _ and - of ASCII." >&2
    exit 1
fi

properties=${KAFKA_RUN_FOLDER:-/tmp}/server.properties
{
    cat "${KAFKA_PROPERTIES:-/etc/poweron/server.properties}"
    echo "listener.name.broker.scram-sha-512.sasl.jaas.config=\
        org.apache.kafka.common.security.scram.ScramLoginModule required username=\"poweron\" password=\"$password\";"
} >"$properties"

# The output of `format` contains the verifiers of the password.
"$kafka/bin/kafka-storage.sh" format --ignore-formatted --cluster-id "$CLUSTER_ID" --config "$properties" \
    --add-scram "SCRAM-SHA-512=[name=poweron,password=$password]" >/dev/null
exec "$kafka/bin/kafka-server-start.sh" "$properties"
