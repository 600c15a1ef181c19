#!/usr/bin/env bash
# Builds deploy/Dockerfile and runs the image's commands as deploy/compose.yaml has them run: as user 7373, with a read-only root, without
# capabilities, and with only /data and /tmp to write to. It creates a key, serves, adds a note, searches for it, and stops by SIGTERM.
#
#     bench/image.sh [ROOT_FOLDER]
#
# Needs root and buildah, and no container engine. Where no base image can be fetched, give a folder with Debian 12 and Python 3.11, made by
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
[ "${SKIP_BUILD:-}" ] || buildah bud --layers --format docker --network host --pull-never -f deploy/Dockerfile -t gristmill .

container=$(buildah from --pull-never localhost/gristmill)
image=$(buildah mount "$container") data=$(mktemp -d)
trap 'kill ${server:-} 2> /dev/null || true; buildah rm "$container" > /dev/null; rm -rf "$data"' EXIT
chown 7373 "$data"
buildah inspect --format 'user {{.Docker.Config.User}}, command {{.Docker.Config.Cmd}}, health check {{.Docker.Config.Healthcheck.Test}}' "$container"
echo "size: $(du -sm "$image" | cut -f 1) MB"

# What a container runtime does for `--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --user 7373 -v DATA:/data`.
inside() {
    unshare --mount sh -c '
        image=$1 data=$2; shift 2
        mount --bind "$image" "$image" && mount -o remount,bind,ro "$image" && mount --bind "$data" "$image/data"
        mount -t tmpfs tmpfs "$image/tmp" && mount -t proc proc "$image/proc" && mount --rbind /dev "$image/dev"
        exec chroot "$image" setpriv --reuid 7373 --regid 7373 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
            env -i HOME=/data PATH=/opt/gristmill/bin:/usr/local/bin:/usr/bin:/bin GRISTMILL_DATA_DIR=/data \
            GRISTMILL_CACHE_DIR=/data/cache GRISTMILL_LOG_FORMAT=json "$@"' sh "$image" "$data" "$@"
}
inside id
inside sh -c 'touch /opt/gristmill/x 2> /dev/null || echo "the root is read-only"; grep CapEff /proc/self/status'
key=$(inside gristmill keys create check --role admin | grep -o 'gm_[A-Za-z0-9_-]*' | head -1)
inside gristmill serve --host 0.0.0.0 --port 17373 2> /dev/null &
server=$!
for _ in $(seq 180); do curl -fs http://127.0.0.1:17373/readyz > /dev/null && break || sleep 1; done
inside python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:17373/healthz', timeout=2)" && echo "the health check passes"
client=(env "GRISTMILL_API_KEY=$key" GRISTMILL_URL=http://127.0.0.1:17373)
inside "${client[@]}" gristmill add check --note 'The mill wheel turns.' --wait
inside "${client[@]}" gristmill search check 'what turns'
kill -TERM "$(pgrep -f 'gristmill serve --host 0.0.0.0 --port 17373' | head -1)"
code=0; wait "$server" || code=$?
echo "stopped by SIGTERM with exit code $code"
