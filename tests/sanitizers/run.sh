#!/usr/bin/env bash
# The engine's C code under the sanitizers; about half a minute. Needs a C compiler ($CC or cc)
# that has them. Exits with 1 at the first report.
#
#   address, undefined   vec.c, level.c, arch/, pool.c, crash.c, stepper.c, flight.c over each environment in
#                        envs/ and over the tests' own (one agent and several, agents that leave,
#                        large states)
#   thread               the pool alone, weights published while they are read, round trips
#                        between CPUs, and the same steps on threads
#   undefined            the pool across forks
set -euo pipefail
cd "$(dirname "$0")/../.."

compiler=${CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1

flags=(-std=c11 -g -O1 -fno-omit-frame-pointer -fopenmp-simd -pthread -Iengine/include -Iengine/core)
address=(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
thread=(-fsanitize=thread)

# TSan's shadow memory does not fit every kernel's address layout unless that is fixed.
fixed=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed=(setarch "$(uname -m)" -R); fi

# objects KIND FLAGS...: what every run of that kind shares, in $scratch/KIND.
objects() {
    local kind=$1 source
    shift
    mkdir "$scratch/$kind"
    for source in engine/core/{vec,level,pool,crash,stepper,flight}.c engine/core/arch/*.c tests/sanitizers/drive.c; do
        $compiler "${flags[@]}" "$@" -c "$source" -o "$scratch/$kind/$(basename "$source" .c).o"
    done
}

# drive KIND NAME FLAGS...: builds and runs drive.c over the environment among the flags.
drive() {
    local kind=$1 name=$2
    shift 2
    $compiler "${flags[@]}" "$@" "$scratch/$kind"/*.o -o "$scratch/$name" -lm
    "${fixed[@]}" "$scratch/$name"
}

objects address "${address[@]}"
objects thread "${thread[@]}"
jobs=()
for env in envs/*.c; do
    drive address "$(basename "$env" .c)" "${address[@]}" "$env" &
    jobs+=($!)
done
drift=tests/engine/core/drift.c
drive address drift "${address[@]}" $drift
drive address drift-leaving "${address[@]}" -DAGENTS=3 -DLEAVING=1 $drift
drive address drift-large "${address[@]}" -DAGENTS=2 -DBULK=200 $drift
drive address drift-single "${address[@]}" -DLEAVING=1 -DBULK=100 $drift
for job in "${jobs[@]}"; do wait "$job"; done

drive thread drift-threads "${thread[@]}" -DAGENTS=2 $drift
$compiler "${flags[@]}" "${thread[@]}" tests/sanitizers/slots.c trainers/csrc/slots.c -o "$scratch/slots"
"${fixed[@]}" "$scratch/slots"
$compiler "${flags[@]}" "${thread[@]}" tests/sanitizers/distance.c engine/core/distance.c -o "$scratch/distance"
"${fixed[@]}" "$scratch/distance"
for futex in "" -DHR_NO_FUTEX; do
    $compiler "${flags[@]}" "${thread[@]}" $futex tests/sanitizers/pool.c engine/core/{pool,crash}.c -o "$scratch/pool"
    "${fixed[@]}" "$scratch/pool"
    # After a fork the allocators of TSan and ASan may be locked for good: UBSan alone
    $compiler "${flags[@]}" -fsanitize=undefined -fno-sanitize-recover $futex tests/sanitizers/pool.c engine/core/{pool,crash}.c -o "$scratch/pool-fork"
    timeout 60 "$scratch/pool-fork" fork
done
