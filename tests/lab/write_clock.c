/*
 * Times O_DSYNC writes one after the other with the monotonic clock; nothing of fio, nothing of the kit.
 *
 * USAGE: write_clock FILE BLOCK_BYTES FILE_BYTES SECONDS direct|buffered
 *
 * Writes blocks in order, from the start again at the end of the file. Prints a line per write: the time of its
 * end and its latency, in ns. Memory is touched before the first write, and nothing is printed before the last.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST 1000000L

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	long block = atol(argv[2]), size = atol(argv[3]), end_ns, count = 0;
	int fd = open(argv[1], O_WRONLY | O_DSYNC | (strcmp(argv[5], "direct") ? 0 : O_DIRECT));
	long (*taken)[2] = calloc(MOST, sizeof(*taken));
	void *data;

	if (fd < 0 || !taken || posix_memalign(&data, 4096, block))
		return 3;
	memset(taken, 1, MOST * sizeof(*taken));
	for (long at = 0; at < block; at++)
		((unsigned char *)data)[at] = (unsigned char)(at * 131 + (at >> 7));
	end_ns = now_ns() + (long)(atof(argv[4]) * 1e9);
	for (long at = 0; count < MOST && now_ns() < end_ns; at = (at + block) % size, count++) {
		long begin = now_ns();

		if (pwrite(fd, data, block, at) != block)
			return 4;
		taken[count][0] = now_ns();
		taken[count][1] = taken[count][0] - begin;
	}
	for (long n = 0; n < count; n++)
		printf("%ld %ld\n", taken[n][0], taken[n][1]);
	return 0;
}
