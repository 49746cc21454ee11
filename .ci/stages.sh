# Stages of a run, with their seconds. Sourced by .ci/run and .ci/everything.

failed=0
stages=$(mktemp -d)
trap 'rm -rf "$stages"' EXIT

# Runs a command and notes its time; ends the run if it fails.
stage() {
    local began=$SECONDS code=0
    bash -c "$1" || code=$?
    note "$1" "$code" $((SECONDS - began))
    ((code == 0)) || finish "$code"
}

# Runs commands side by side, three at a time, and prints the output of each in one piece. The run goes on if one fails.
beside() {
    printf '%s\0' "$@" | xargs -0 -P 3 -I{} bash -c 'of_many "$1"' - {} || failed=1
}

of_many() {
    local began=$SECONDS code=0 output
    output=$(bash -c "$1" 2>&1) || code=$?
    printf '%s\n%s: exit code %s\n' "$output" "$1" "$code"
    note "$1" "$code" $((SECONDS - began))
    return "$code"
}

# Runs the tests last: the table of stages and then pytest's summary are the last things that are printed.
tests() {
    local began=$SECONDS code=0
    bash -c "set -o pipefail; { $1; } 2>&1 | tee '$stages/tests.log'" || code=$?
    note "$1" "$code" $((SECONDS - began))
    ((code == 0)) || failed=$code
    finish "$failed"
}

note() {
    printf '%6s s  exit code %s  %s\n' "$3" "$2" "$1" >>"$stages/table"
}

finish() {
    printf '\nseconds by stage, %s in all:\n' "$SECONDS"
    cat "$stages/table"
    [ ! -f "$stages/tests.log" ] || grep -E '^(=+ )?[0-9]+ (passed|failed|error|unsteady).* in [0-9.]+s' "$stages/tests.log" | tail -n 1
    exit "$1"
}

# What the tests need from the system. Each program only widens what is tested; a test that misses one says so when it skips.
install_programs() {
    local packages=()
    command -v make >/dev/null || packages+=(make)
    command -v git >/dev/null || packages+=(git)
    command -v cc >/dev/null || packages+=(gcc libc6-dev)
    command -v javac >/dev/null || packages+=(default-jdk-headless)
    command -v mvn >/dev/null || packages+=(maven)
    command -v node >/dev/null || packages+=(nodejs)
    command -v npm >/dev/null || packages+=(npm)
    command -v go >/dev/null || [ -x /usr/local/go/bin/go ] || packages+=(golang-go)
    command -v curl >/dev/null || packages+=(curl)
    command -v chromium >/dev/null || packages+=(chromium)
    command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || packages+=(postgresql)
    if ((${#packages[@]})) && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -q -y --no-install-recommends "${packages[@]}"
    fi
}

has_postgres() { command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
has_kafka() { command -v mvn >/dev/null && command -v java >/dev/null; }

export stages
export -f of_many note install_programs
