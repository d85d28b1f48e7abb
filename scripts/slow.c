// Put in front of a server (LD_PRELOAD), this computes for SLOW_NS nanoseconds after each message that the server sent, and takes GROW_OCTETS
// octets of memory at its start: a server that is slower or larger by a known share. Built by scripts that say how well that is found.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((constructor)) static void grow(void) {
    const char *octets = getenv("GROW_OCTETS");
    if (!octets) return;
    char *memory = malloc(atoll(octets));
    for (long long at = 0; memory && at < atoll(octets); at += 4096) ((volatile char *)memory)[at] = 1;
}

static void spend(unsigned messages) {
    static long long each = -1;
    if (each < 0) each = getenv("SLOW_NS") ? atoll(getenv("SLOW_NS")) : 0;
    for (long long until = now() + each * messages; now() < until;) {}
}

ssize_t sendto(int fd, const void *data, size_t length, int flags, const struct sockaddr *to, socklen_t size) {
    static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    if (!real) real = dlsym(RTLD_NEXT, "sendto");
    ssize_t sent = real(fd, data, length, flags, to, size);
    if (sent >= 0) spend(1);
    return sent;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static ssize_t (*real)(int, const struct msghdr *, int);
    if (!real) real = dlsym(RTLD_NEXT, "sendmsg");
    ssize_t sent = real(fd, message, flags);
    if (sent >= 0) spend(1);
    return sent;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
    static int (*real)(int, struct mmsghdr *, unsigned, int);
    if (!real) real = dlsym(RTLD_NEXT, "sendmmsg");
    int sent = real(fd, messages, count, flags);
    if (sent > 0) spend(sent);
    return sent;
}

// libuv, and so BIND, makes this system call itself.
long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (!real) real = dlsym(RTLD_NEXT, "syscall");
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_sendmmsg && result > 0) spend(result);
    return result;
}
