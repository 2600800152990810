/* A wall clock that differs by SKEW seconds, for a program that this is loaded into with LD_PRELOAD. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    const char *skew = getenv("SKEW");
    if (!failed && clock == CLOCK_REALTIME && skew)
        time->tv_sec += atol(skew);
    return failed;
}
