#!/usr/bin/env bash
# How steady are this machine's caches? A chain of dependent loads walks through 16 KB, 512 KB and 8 MB, 20 turns of 0.25 s each, and
# the script prints the time of one load in nanoseconds: least, median and most of the turns. Where the last line varies by far and
# the others do not, other guests of the host use the same last-level cache, and the capacities of name servers vary with it.
# Needs cc, and nothing else at work. Usage: scripts/memory-latency.sh [CORE]
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/chase.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE = 64, TURNS = 20 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static const size_t sizes[] = {16 << 10, 512 << 10, 8 << 20};
    for (int s = 0; s < 3; s++) {
        size_t lines = sizes[s] / LINE;
        char *memory = aligned_alloc(LINE, sizes[s]);
        size_t *order = malloc(lines * sizeof *order);
        for (size_t i = 0; i < lines; i++) order[i] = i;
        srand(1);
        /* One cycle through all lines, in an order that no prefetcher guesses. */
        for (size_t i = lines - 1; i > 0; i--) {
            size_t j = (((size_t)rand() << 15) ^ (size_t)rand()) % i, kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        for (size_t i = 0; i < lines; i++) *(void **)(memory + order[i] * LINE) = memory + order[(i + 1) % lines] * LINE;
        void *volatile end;
        void *at = memory;
        double turns[TURNS];
        for (int turn = 0; turn < TURNS; turn++) {
            double began = now(), passed;
            size_t loads = 0;
            do {
                for (int i = 0; i < 10000; i++) at = *(void **)at;
                loads += 10000;
            } while ((passed = now() - began) < 0.25);
            turns[turn] = passed / loads * 1e9;
        }
        end = at;
        (void)end;
        qsort(turns, TURNS, sizeof *turns, by_value);
        printf("%5zu KB: %6.1f %6.1f %6.1f ns\n", sizes[s] >> 10, turns[0], turns[TURNS / 2], turns[TURNS - 1]);
        free(order);
        free(memory);
    }
    return 0;
}
C
cc -O2 -o "$work/chase" "$work/chase.c"
echo "            least median   most"
taskset -c "${1:-0}" "$work/chase"
