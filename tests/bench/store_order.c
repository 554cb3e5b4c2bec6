/*
 * store_order FILE SECONDS: the host's side of the test of tests/bench/test_store_order.py.
 *
 * FILE is the guest's memory. Prints the rounds, and those in which both sides read the other's old value.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* Each in a line of the cache of its own. */
enum { GUEST = 0x8000, HOST = 0x8040, BEGIN = 0x8080, FOUND = 0x80c0, END = 0x8100, READY = 0x8140 };
enum { BYTES = 16 << 20, READY_VALUE = 0xfeed, ROUNDS = 100, MOST_TURNS = 120, PATIENCE = 1000000 };

static volatile uint8_t *memory;

static volatile uint32_t *word(unsigned address)
{
	return (volatile uint32_t *)(memory + address);
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void await(unsigned address, uint32_t value, double end_s)
{
	for (unsigned turns = 0; *word(address) != value && now_s() < end_s;)
		if (++turns > PATIENCE / ROUNDS)
			sched_yield();
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	double end_s = now_s() + atof(words[2]);
	unsigned seed = 1, rounds = 0, both = 0;
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, open(words[1], O_RDWR), 0);
	if (memory == MAP_FAILED)
		return 1;
	await(READY, READY_VALUE, end_s);
	while (now_s() < end_s) {
		uint32_t round = ++rounds;
		*word(BEGIN) = round;
		for (volatile int turn = rand_r(&seed) % MOST_TURNS; turn > 0; turn--)
			;
		*word(HOST) = round;
		__sync_synchronize();
		int old = *word(GUEST) != round;
		await(END, round, end_s);
		both += old && *word(END) == round && *word(FOUND) != round;
	}
	printf("%u %u\n", rounds, both);
	return 0;
}
