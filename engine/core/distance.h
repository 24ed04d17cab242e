/* How far CPUs lie from each other. A hypervisor may move those of a virtual machine at any time.
 */
#ifndef HEADRACE_DISTANCE_H
#define HEADRACE_DISTANCE_H

/* Nanoseconds that a cache line takes from one CPU to the other and back, the least of some short
 * bursts: less than a millisecond in all where both CPUs are free. Negative where it is not known:
 * outside Linux, where one of the CPUs may not be used or is the other, where a thread could not be
 * started, and where the CPUs are too busy to answer each other soon. */
double hr_round_trip_ns(int first, int second);

#endif /* HEADRACE_DISTANCE_H */
