/* Writes and forces them, and counts the latency of each write, of each force, and of both together.
 *
 *     forces PATH DEVICE DILATION SEED TEST...
 *
 * DEVICE is MAJOR:MINOR:SEQUENCE of the device that PATH must lead to, or - for a file. PATH is looked up once.
 * A TEST is METHOD:BYTES:COUNT:THREADS:ORDER:FIRST:SPAN. Each of THREADS threads makes COUNT writes of BYTES
 * bytes in a part of its own of the SPAN bytes from FIRST on, at random places or one after another (ORDER is
 * `random` or `sequential`). METHOD is how a write gets to stable storage:
 *
 *     none            it does not: only write(2) is measured
 *     open_dsync      O_DSYNC: the write returns when the data are safe
 *     open_sync       O_SYNC: also the metadata
 *     fdatasync       write, then fdatasync(2)
 *     fsync           write, then fsync(2)
 *     fsync_other     write, then fsync(2) of another descriptor of the same file
 *     flush_idle      no write: fdatasync(2) with nothing to flush, counted as if it were a write
 *     read_cached     no write: the first block is read again and again, counted as if it were a write
 *
 * I/O is direct (O_DIRECT). Each write has new content that does not compress. Prints one JSON object a test;
 * latencies are in ns of CLOCK_MONOTONIC divided by DILATION, counted in the bins of kit.core.bins.
 * The program removes itself and its directory as it starts, so that nothing is left of it when it is killed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>

#include "forces.h"

#define BINS 2048
/* kit.core.bins */
#define BIN_BITS 5
#define MOST_THREADS 256
/* Before each test: what the one before has left in the device's cache is written to the medium. */
#define PAUSE_NS 300000000u

static const char *const KIND_NAMES[KINDS] = { "write", "force", "both" };

static const struct method {
	const char *name;
	int flags; /* of open(2) */
	int (*force)(int file);
	int other; /* force another descriptor */
	int idle; /* writes nothing */
} METHODS[] = {
	{ "none", O_WRONLY, NULL, 0, 0 },
	{ "open_dsync", O_WRONLY | O_DSYNC, NULL, 0, 0 },
	{ "open_sync", O_WRONLY | O_SYNC, NULL, 0, 0 },
	{ "fdatasync", O_WRONLY, fdatasync, 0, 0 },
	{ "fsync", O_WRONLY, fsync, 0, 0 },
	{ "fsync_other", O_WRONLY, fsync, 1, 0 },
	{ "flush_idle", O_WRONLY, fdatasync, 0, 1 },
	{ "read_cached", O_RDONLY, NULL, 0, 1 },
};

struct counts {
	uint64_t sum_ns, min_ns, max_ns, ios, bins[BINS];
};

struct test {
	const struct method *method;
	uint64_t bytes, count, threads, first, span;
	int random;
};

struct worker {
	pthread_t thread;
	const struct test *test;
	int file, other;
	uint64_t first, places, random;
	unsigned char *buffer;
	struct counts counts[KINDS];
	const char *failed;
	int error;
};

static const char *path;
static struct held held;
static uint64_t dilation;
static pthread_barrier_t start;

static void add(struct counts *counts, uint64_t host_ns)
{
	uint64_t ns = host_ns / dilation;

	if (!counts->ios || ns < counts->min_ns)
		counts->min_ns = ns;
	if (ns > counts->max_ns)
		counts->max_ns = ns;
	counts->sum_ns += ns;
	counts->ios++;
	counts->bins[bin_of(ns, BIN_BITS)]++;
}

/* Each sector differs from those of every other write. */
static void renew(struct worker *worker)
{
	for (uint64_t at = 0; at < worker->test->bytes; at += SECTOR) {
		uint64_t value = next_random(&worker->random);

		memcpy(worker->buffer + at, &value, sizeof(value));
	}
}

static int fail(struct worker *worker, const char *what, int error)
{
	worker->failed = what;
	worker->error = error;
	return -1;
}

/* One that writes nothing. */
static int command(struct worker *worker)
{
	const struct method *method = worker->test->method;
	uint64_t begin = now_ns();
	ssize_t done = 0, bytes = (ssize_t)worker->test->bytes;

	if (method->force ? method->force(worker->file)
			  : (done = pread(worker->file, worker->buffer, worker->test->bytes,
					  (off_t)worker->first)) != bytes)
		return fail(worker, method->name, method->force || done < 0 ? errno : EIO);
	add(&worker->counts[WRITE], now_ns() - begin);
	return 0;
}

static int one(struct worker *worker, uint64_t number)
{
	const struct test *test = worker->test;
	uint64_t place = test->random ? next_random(&worker->random) % worker->places : number % worker->places;
	uint64_t begin, written, end;
	ssize_t done;

	if (test->method->idle)
		return command(worker);
	renew(worker);
	begin = now_ns();
	done = pwrite(worker->file, worker->buffer, test->bytes, (off_t)(worker->first + place * test->bytes));
	written = now_ns();
	if (done != (ssize_t)test->bytes)
		return fail(worker, "write", done < 0 ? errno : EIO);
	add(&worker->counts[WRITE], written - begin);
	if (!test->method->force)
		return 0;
	if (test->method->force(test->method->other ? worker->other : worker->file))
		return fail(worker, test->method->name, errno);
	end = now_ns();
	add(&worker->counts[FORCE], end - written);
	add(&worker->counts[BOTH], end - begin);
	return 0;
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	pthread_barrier_wait(&start);
	for (uint64_t number = 0; number < worker->test->count; number++)
		if (one(worker, number))
			break;
	return NULL;
}

static void prepare(struct worker *worker, const struct test *test, uint64_t number, uint64_t *seed)
{
	uint64_t part = test->span / test->threads / test->bytes * test->bytes;

	memset(worker, 0, sizeof(*worker));
	worker->test = test;
	worker->first = test->first + number * part;
	worker->places = part / test->bytes;
	worker->random = next_random(seed) | 1;
	if (!worker->places)
		die(path, "it is too small for writes of this size by so many threads");
	worker->buffer = buffer_of(test->bytes);
	fill_random(worker->buffer, test->bytes, &worker->random);
	worker->file = open_held(&held, O_DIRECT | test->method->flags);
	worker->other = test->method->other ? open_held(&held, O_RDWR) : -1;
	if (worker->file < 0 || (test->method->other && worker->other < 0))
		die(path, strerror(errno));
}

static void print(const struct test *test, const struct worker *workers, uint64_t elapsed_ns)
{
	static struct counts sum;

	printf("{\"method\":\"%s\",\"block_bytes\":%llu,\"threads\":%llu,\"elapsed_ns\":%llu", test->method->name,
	       (unsigned long long)test->bytes, (unsigned long long)test->threads,
	       (unsigned long long)(elapsed_ns / dilation));
	for (int kind = 0; kind < KINDS; kind++) {
		const char *comma = "";

		memset(&sum, 0, sizeof(sum));
		for (uint64_t n = 0; n < test->threads; n++) {
			const struct counts *mine = &workers[n].counts[kind];

			if (!mine->ios)
				continue;
			if (!sum.ios || mine->min_ns < sum.min_ns)
				sum.min_ns = mine->min_ns;
			if (mine->max_ns > sum.max_ns)
				sum.max_ns = mine->max_ns;
			sum.ios += mine->ios;
			sum.sum_ns += mine->sum_ns;
			for (int bin = 0; bin < BINS; bin++)
				sum.bins[bin] += mine->bins[bin];
		}
		if (!sum.ios)
			continue;
		printf(",\"%s\":{\"sum_ns\":%llu,\"min_ns\":%llu,\"max_ns\":%llu,\"bins\":[", KIND_NAMES[kind],
		       (unsigned long long)sum.sum_ns, (unsigned long long)sum.min_ns,
		       (unsigned long long)sum.max_ns);
		for (int bin = 0; bin < BINS; bin++)
			if (sum.bins[bin]) {
				printf("%s[%d,%llu]", comma, bin, (unsigned long long)sum.bins[bin]);
				comma = ",";
			}
		printf("]}");
	}
	printf("}\n");
	fflush(stdout);
}

static void pause_ns(uint64_t ns)
{
	struct timespec left = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static void run(const struct test *test, uint64_t *seed)
{
	struct worker *workers = calloc(test->threads, sizeof(*workers));
	uint64_t begin;

	if (!workers)
		die("memory", strerror(ENOMEM));
	pthread_barrier_init(&start, NULL, (unsigned)test->threads + 1);
	for (uint64_t n = 0; n < test->threads; n++)
		prepare(&workers[n], test, n, seed);
	for (uint64_t n = 0; n < test->threads; n++)
		if ((errno = pthread_create(&workers[n].thread, NULL, work, &workers[n])))
			die("a thread", strerror(errno));
	pause_ns(PAUSE_NS * dilation);
	begin = now_ns();
	pthread_barrier_wait(&start);
	for (uint64_t n = 0; n < test->threads; n++)
		pthread_join(workers[n].thread, NULL);
	begin = now_ns() - begin;
	for (uint64_t n = 0; n < test->threads; n++) {
		if (workers[n].failed) {
			fprintf(stderr, "forces: %s of %llu bytes on %s: %s\n", workers[n].failed,
				(unsigned long long)test->bytes, path, strerror(workers[n].error));
			exit(1);
		}
	}
	print(test, workers, begin);
	for (uint64_t n = 0; n < test->threads; n++) {
		close(workers[n].file);
		if (workers[n].other >= 0)
			close(workers[n].other);
		free(workers[n].buffer);
	}
	free(workers);
	pthread_barrier_destroy(&start);
}

static uint64_t number_in(char **text, const char *whole)
{
	return number_of(strsep(text, ":"), whole);
}

static struct test parsed(const char *whole)
{
	char *copy = strdup(whole), *text = copy, *name = strsep(&text, ":"), *order;
	struct test test = { 0 };

	for (size_t n = 0; n < sizeof(METHODS) / sizeof(*METHODS); n++)
		if (!strcmp(METHODS[n].name, name))
			test.method = &METHODS[n];
	if (!test.method)
		die(whole, "no such method");
	test.bytes = number_in(&text, whole);
	test.count = number_in(&text, whole);
	test.threads = number_in(&text, whole);
	order = strsep(&text, ":");
	if (!order || (strcmp(order, "random") && strcmp(order, "sequential")))
		die(whole, "the order is random or sequential");
	test.random = !strcmp(order, "random");
	test.first = number_in(&text, whole);
	test.span = number_in(&text, whole);
	if (text || !test.bytes || test.bytes % SECTOR || !test.count || !test.threads ||
	    test.threads > MOST_THREADS || test.first % SECTOR)
		die(whole, "not a test");
	free(copy);
	return test;
}

int main(int count, char **arguments)
{
	uint64_t seed;
	char *end;

	if (count < 6)
		die("usage", "forces PATH DEVICE DILATION SEED TEST...");
	remove_itself();
	path = arguments[1];
	held = hold(path, arguments[2]);
	dilation = strtoull(arguments[3], &end, 10);
	if (*end || !dilation)
		die(arguments[3], "not a dilation");
	seed = strtoull(arguments[4], &end, 10) * 2 + 1;
	if (*end)
		die(arguments[4], "not a seed");
	for (int n = 5; n < count; n++) {
		struct test test = parsed(arguments[n]);

		run(&test, &seed);
	}
	return 0;
}
