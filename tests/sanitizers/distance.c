/* Round trips between CPUs, those that are not there included. */
#include "distance.h"

#include <stdio.h>

int main(void) {
    for (int turn = 0; turn < 20; turn++) {
        const double there = hr_round_trip_ns(0, 1), back = hr_round_trip_ns(1, 0);
        if (there == 0.0 || back == 0.0) return 1;
    }
    if (hr_round_trip_ns(0, 0) >= 0.0 || hr_round_trip_ns(-1, 0) >= 0.0) return 1;
    if (hr_round_trip_ns(0, 1 << 20) >= 0.0) return 1;
    printf("distance: measured\n");
    return 0;
}
