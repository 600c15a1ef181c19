#!/usr/bin/env bash
# Builds deploy/Dockerfile and runs the image as deploy/compose.yaml does: as a user without rights, with a read-only root, without
# capabilities, and with only /data and /tmp to write to. Then it adds a note, searches for it, and stops the container by SIGTERM.
#
#     bench/image.sh [ROOT_FOLDER]
#
# Needs root, buildah and podman. Where no base image can be fetched, give a folder with Debian 12 and Python 3.11, made by
#     debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,python3-pip bookworm ROOT_FOLDER
# It becomes the image python:3.11-slim of this build, with this machine's certificates.
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}"
if [ $# -gt 0 ]; then
    root=$1
    ln -sf python3 "$root/usr/bin/python"
    rm -f "$root"/usr/lib/python3.*/EXTERNALLY-MANAGED
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    base=$(buildah from scratch)
    buildah add -q "$base" "$root" / > /dev/null
    for name in SSL_CERT_FILE PIP_CERT; do buildah config --env "$name=/etc/ssl/certs/ca-certificates.crt" "$base"; done
    buildah commit -q "$base" docker.io/library/python:3.11-slim > /dev/null
    buildah rm "$base" > /dev/null
fi
buildah bud --layers --format docker --network host --pull-never -f deploy/Dockerfile -t gristmill .
podman image inspect gristmill --format 'size: {{.Size}} user: {{.Config.User}} health: {{.HealthCheck.Test}}'

run=(podman run --network host --cgroups disabled --read-only --read-only-tmpfs=false --tmpfs /tmp --cap-drop ALL
    --security-opt no-new-privileges -v gristmill-check:/data -e GRISTMILL_PORT=17373)
trap 'podman rm -f gristmill-check > /dev/null 2>&1 || true; podman volume rm -f gristmill-check > /dev/null 2>&1 || true' EXIT
podman volume rm -f gristmill-check > /dev/null 2>&1 || true
key=$("${run[@]}" --rm gristmill gristmill keys create check --role admin | grep -o 'gm_[A-Za-z0-9_-]*' | head -1)
"${run[@]}" -d --name gristmill-check gristmill gristmill serve --host 0.0.0.0 --port 17373 > /dev/null
inside=(podman exec -e "GRISTMILL_API_KEY=$key" -e GRISTMILL_URL=http://127.0.0.1:17373 gristmill-check)
for _ in $(seq 120); do curl -fs http://127.0.0.1:17373/readyz > /dev/null && break || sleep 1; done
"${inside[@]}" id
"${inside[@]}" sh -c 'touch /opt/gristmill/x 2>&1 || echo "the root is read-only"'
"${inside[@]}" gristmill add check --note 'The mill wheel turns.' --wait
"${inside[@]}" gristmill search check 'what turns'
"${inside[@]}" gristmill doctor || true
podman stop -t 30 gristmill-check
podman inspect gristmill-check --format 'exit code {{.State.ExitCode}}'
