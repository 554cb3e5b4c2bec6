/* What the programs of forced writes share: forces.c (tests of a device), force_load.c (the load of a phase). */
#ifndef HSP_FORCES_H
#define HSP_FORCES_H

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#ifndef BLKGETDISKSEQ
#define BLKGETDISKSEQ _IOR(0x12, 128, uint64_t)
#endif

#define SECTOR 512
#define ALIGNMENT 4096

enum { WRITE, FORCE, BOTH, KINDS };

static inline void __attribute__((noreturn)) die(const char *what, const char *why)
{
	fprintf(stderr, "forces: %s: %s\n", what, why);
	exit(1);
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* xorshift64* (Vigna 2016) */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

/* 2^`bits` bins an octave; below twice as many each integer is a bin. */
static inline unsigned bin_of(uint64_t ns, unsigned bits)
{
	unsigned shift;

	if (ns < 1u << bits)
		return (unsigned)ns;
	shift = 63 - bits - (unsigned)__builtin_clzll(ns);
	return (shift << bits) + (unsigned)(ns >> shift);
}

static inline uint64_t number_of(const char *word, const char *whole)
{
	uint64_t value;
	char *end;

	if (!word || *word < '0' || *word > '9')
		die(whole, "a number is missing");
	errno = 0;
	value = strtoull(word, &end, 10);
	if (errno || *end)
		die(whole, "not a number");
	return value;
}

/* Memory for direct I/O. */
static inline unsigned char *buffer_of(uint64_t bytes)
{
	void *memory;

	if (posix_memalign(&memory, ALIGNMENT, bytes))
		die("memory", strerror(ENOMEM));
	return memory;
}

/* Content that does not compress. */
static inline void fill_random(unsigned char *buffer, uint64_t bytes, uint64_t *state)
{
	for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		uint64_t value = next_random(state);

		memcpy(buffer + at, &value, bytes - at < sizeof(value) ? bytes - at : sizeof(value));
	}
}

/* What a name leads to, looked up once: all is opened through `path`, and a name that moves changes nothing.
 * O_PATH does not use a device: its last close does more than others.
 */
struct held {
	char path[32];
	int is_device;
	dev_t number;
	uint64_t sequence; /* 0: not known */
};

/* `device` is MAJOR:MINOR:SEQUENCE, without a sequence before Linux 5.15, or - for a file. */
static inline struct held hold(const char *path, const char *device)
{
	int handle = open(path, O_PATH | O_CLOEXEC);
	unsigned long long sequence = 0;
	unsigned major, minor;
	struct held held = { 0 };

	if (handle < 0)
		die(path, strerror(errno));
	snprintf(held.path, sizeof(held.path), "/proc/self/fd/%d", handle);
	if (!strcmp(device, "-"))
		return held;
	if (sscanf(device, "%u:%u:%llu", &major, &minor, &sequence) < 2)
		die(device, "not a device");
	held.is_device = 1;
	held.number = makedev(major, minor);
	held.sequence = sequence;
	return held;
}

/* Opens what is held; -1 with ENODEV if it is another device than the one that was asked for. */
static inline int open_held(const struct held *held, int flags)
{
	int file = open(held->path, flags | O_CLOEXEC);
	uint64_t sequence = 0;
	struct stat status;

	if (file < 0 || !held->is_device)
		return file;
	if (fstat(file, &status) || !S_ISBLK(status.st_mode) || status.st_rdev != held->number ||
	    (held->sequence && (ioctl(file, BLKGETDISKSEQ, &sequence) || sequence != held->sequence))) {
		close(file);
		errno = ENODEV;
		return -1;
	}
	return file;
}

/* The program and its directory, so that nothing is left of it when it is killed. */
static inline void remove_itself(void)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length <= 0)
		return;
	self[length] = 0;
	if (!unlink(self))
		rmdir(dirname(self));
}

#endif
