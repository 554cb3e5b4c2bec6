/* Records that are written and forced to stable storage: the load of a phase, and the tests of `hsp slog`.
 *
 *     force_load prepare SPEC...
 *     force_load run     SPEC... WINDOW_NS DURATION_NS
 *     force_load test    {SPEC... PAUSE_NS GROUPS}...
 *     force_load verify  SPEC... WRITTEN...
 *
 * SPEC is PATH METHOD RECORD PER_FORCE FILES THREADS SIZE FLAGS SEED DEVICE. Each of THREADS threads writes groups of
 * PER_FORCE records of RECORD bytes, each with a write(2) of its own, and forces the group. Thread t writes to
 * file t modulo FILES. A file has SIZE bytes; records go into it in order, and from its start again when it is
 * full. METHOD is how a group gets to stable storage:
 *
 *     none            it does not
 *     open_datasync   O_DSYNC: each write returns when its data are safe
 *     open_sync       O_SYNC: also the metadata
 *     fdatasync       fdatasync(2) after the writes
 *     fsync           fsync(2) after the writes
 *     fsync_close     open, write, fsync, close; open and close once more, as often as the next
 *     close_fsync     open, write, close, open, fsync, close: of another descriptor than the writes'
 *     flush_idle      no write: fdatasync(2) with nothing to flush
 *     read_cached     no write: the start of the file is read again and again
 *
 * FLAGS are letters, or - for none of them:
 *
 *     a   append: the files are empty at first; else they are written before, in whole
 *     b   PATH is a block device, DEVICE its MAJOR:MINOR:SEQUENCE, or - for any; else the files are PATH.0, PATH.1...
 *     c   records have a checksum, which `verify` wants
 *     d   direct (O_DIRECT)
 *     g   group commit: threads of a file share a force; one of them forces for all that wait
 *     r   random: groups go to random places of a part of the file that is the thread's own
 *
 * `run` prints a line each WINDOW_NS, and at the end, with what has ended since the line before. `test` does so
 * after GROUPS groups of each thread alone; before each it waits PAUSE_NS: what the one before has left in the
 * device's cache is written to the medium.
 *
 *     {"from_ns", "asked_ns", "to_ns", "write": {"bins": {latency: groups}, "min", "max", "sum"},
 *      "part": {...}, "force": {...}, "forces", "written": [records of each file], "end"}
 *
 * "write" is a group from its first write until it is safe, "part" its writes alone, "force" the call that
 * forces. Bins are fio's (kit.load.fio_bins), called by their middle, as kit.remote.load.count_ios has them; two are one
 * of kit.core.bins. "min", "max", "sum", "forces" and "written" are since the start; "end" is true in the last line
 * of a run that was not cut off. Times in ns of CLOCK_MONOTONIC.
 *
 * A record begins with a number that differs in each of its sectors, then has a mark of the phase, its file,
 * length and sequence, and a checksum. `verify` reads those of the last round through each file and prints
 *
 *     {"kept", "recovered", "damaged"}
 *
 * then it removes the files. The program removes itself and its directory as it starts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
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
/* fio's */
#define BIN_BITS 6
#define BINS (29 << BIN_BITS)
#define MOST_THREADS 1024
#define IDLE UINT64_MAX
#define SPEC_WORDS 10
#define CHUNK (1u << 20)
#define MAGIC 0x666f726365730a01u

enum { WRITE, FORCE, BOTH, KINDS };
static const char *const KIND_NAMES[KINDS] = { "part", "force", "write" };

static const struct method {
	const char *name;
	int flags; /* of open(2) */
	int (*force)(int file);
	bool opens, closes; /* for each group; before the force */
	bool idle, reads;   /* instead of writes */
} METHODS[] = {
	{ .name = "none" },
	{ .name = "open_datasync", .flags = O_DSYNC },
	{ .name = "open_sync", .flags = O_SYNC },
	{ .name = "fdatasync", .force = fdatasync },
	{ .name = "fsync", .force = fsync },
	{ .name = "fsync_close", .force = fsync, .opens = true },
	{ .name = "close_fsync", .force = fsync, .opens = true, .closes = true },
	{ .name = "flush_idle", .force = fdatasync, .idle = true },
	{ .name = "read_cached", .reads = true },
};

static struct {
	const char *path;
	const struct method *method;
	uint64_t record, per_force, files, threads, size, seed;
	bool append, is_device, check, direct, group, random;
} spec;

/* `next`: the sequence of the next record; `written`: records whose group is safe. */
struct log {
	char path[PATH_MAX];
	int file;
	uint64_t next, written, slots;
	uint64_t waiting, forced; /* groups that were written, and that a force has reached */
	bool forcing;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

struct counts {
	uint64_t sum_ns, min_ns, max_ns, ios, since, bins[BINS];
};

struct worker {
	pthread_t thread;
	struct log *log;
	unsigned char *buffer;
	uint64_t first; /* sequence of the record that it writes first; IDLE: of none */
	off_t place;	/* of that record */
	uint64_t random;
	uint64_t end_ns, forced_ns; /* when the group was safe; its own force, IDLE: none */
};

static struct log *logs;
static struct worker *workers;
static unsigned char *base; /* of every record */
static struct counts counted[KINDS];
static uint64_t asked; /* groups of each worker; 0: until the end */
static uint64_t forces;
static const char *failed;
static int failure;
/* Of the counts above and of what is written; so short that a sleep would take longer. */
static pthread_mutex_t lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_barrier_t start;
static volatile sig_atomic_t stopped;

/* --- Tools --- */

static void __attribute__((noreturn)) die(const char *what, const char *why)
{
	fprintf(stderr, "force_load: %s: %s\n", what, why);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* xorshift64* (Vigna 2016) */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

static uint64_t number_of(const char *word)
{
	char *end;
	uint64_t value = strtoull(word, &end, 10);

	if (*word < '0' || *word > '9' || errno == ERANGE || *end)
		die(word, "not a number");
	return value;
}

/* Memory for direct I/O. */
static unsigned char *buffer_of(uint64_t bytes)
{
	void *memory;

	if (posix_memalign(&memory, ALIGNMENT, bytes))
		die("memory", strerror(ENOMEM));
	return memory;
}

/* Content that does not compress. */
static void fill_random(unsigned char *buffer, uint64_t bytes, uint64_t *state)
{
	for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		uint64_t value = next_random(state);

		memcpy(buffer + at, &value, bytes - at < sizeof(value) ? bytes - at : sizeof(value));
	}
}

/* What a name leads to, looked up once: all is opened through `path`, and a name that moves changes nothing.
 * O_PATH does not use a device: its last close does more than others.
 */
static struct {
	char path[32];
	bool is_known;
	unsigned major, minor;
	unsigned long long sequence; /* 0: not known */
} held;

/* `device` is MAJOR:MINOR:SEQUENCE, without a sequence before Linux 5.15, or - for any. */
static void hold(const char *path, const char *device)
{
	int handle = open(path, O_PATH | O_CLOEXEC);

	if (handle < 0)
		die(path, strerror(errno));
	snprintf(held.path, sizeof(held.path), "/proc/self/fd/%d", handle);
	held.is_known = strcmp(device, "-");
	if (held.is_known && sscanf(device, "%u:%u:%llu", &held.major, &held.minor, &held.sequence) < 2)
		die(device, "not a device");
}

/* Opens what is held; -1 with ENODEV if it is another device than the one that was asked for. */
static int open_held(int flags)
{
	int file = open(held.path, flags | O_CLOEXEC);
	uint64_t sequence = 0;
	struct stat status;

	if (file < 0 || !held.is_known)
		return file;
	if (fstat(file, &status) || !S_ISBLK(status.st_mode) || status.st_rdev != makedev(held.major, held.minor) ||
	    (held.sequence && (ioctl(file, BLKGETDISKSEQ, &sequence) || sequence != held.sequence))) {
		close(file);
		errno = ENODEV;
		return -1;
	}
	return file;
}

/* The program and its directory, so that nothing is left of it when it is killed. */
static void remove_itself(void)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length <= 0)
		return;
	self[length] = 0;
	if (!unlink(self))
		rmdir(dirname(self));
}

/* --- Records --- */

struct head {
	uint64_t stamp, magic;
	uint32_t log, length;
	uint64_t sequence, sum;
};

static uint64_t mixed(uint64_t log, uint64_t sequence, uint64_t sector)
{
	uint64_t state = (spec.seed ^ log << 48 ^ sequence << 12 ^ sector) * 2 + 1;

	next_random(&state);
	return next_random(&state);
}

static uint64_t sum_of(const unsigned char *record)
{
	uint64_t sum = spec.seed;

	for (uint64_t at = 0; at < spec.record; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, record + at, sizeof(word));
		if (at != offsetof(struct head, sum))
			sum = ((sum ^ word) * 0x9e3779b97f4a7c15u) ^ (sum >> 29);
	}
	return sum;
}

/* Makes the record in a buffer that has the base. */
static void make_record(unsigned char *record, uint64_t log, uint64_t sequence)
{
	struct head head = { mixed(log, sequence, 0), MAGIC ^ spec.seed, (uint32_t)log, (uint32_t)spec.record,
			     sequence, 0 };

	for (uint64_t sector = 1; sector * SECTOR + sizeof(uint64_t) <= spec.record; sector++) {
		uint64_t stamp = mixed(log, sequence, sector);

		memcpy(record + sector * SECTOR, &stamp, sizeof(stamp));
	}
	memcpy(record, &head, sizeof(head));
	if (!spec.check)
		return;
	head.sum = sum_of(record);
	memcpy(record, &head, sizeof(head));
}

static off_t place_of(const struct log *log, uint64_t sequence)
{
	return (off_t)(sequence % log->slots * spec.record);
}

static int opened(const struct log *log, int flags)
{
	flags |= spec.direct ? O_DIRECT : 0;
	return spec.is_device ? open_held(flags) : open(log->path, flags | O_CLOEXEC | O_NOFOLLOW);
}

/* --- The load --- */

static void add(int kind, uint64_t ns)
{
	struct counts *counts = &counted[kind];
	unsigned shift = ns >> BIN_BITS ? 63 - BIN_BITS - (unsigned)__builtin_clzll(ns) : 0;
	uint64_t bin = (shift << BIN_BITS) + (ns >> shift);

	if (!counts->ios || ns < counts->min_ns)
		counts->min_ns = ns;
	if (ns > counts->max_ns)
		counts->max_ns = ns;
	counts->sum_ns += ns;
	counts->ios ++;
	counts->since ++;
	counts->bins[bin < BINS ? bin : BINS - 1] ++;
}

static int fail(const char *what)
{
	int error = errno;

	pthread_mutex_lock(&lock);
	if (!failed) {
		failed = what;
		failure = error ? error : EIO;
	}
	pthread_mutex_unlock(&lock);
	stopped = 1;
	return -1;
}

/* From `begin_ns` on. What is counted of it waits for the end of the group: nothing else is in its time. */
static int force(struct worker *worker, int file, uint64_t begin_ns)
{
	if (spec.method->force(file))
		return fail(spec.method->name);
	worker->end_ns = now_ns();
	worker->forced_ns = worker->end_ns - begin_ns;
	return 0;
}

/* Until a force has reached all that was written before: by this thread, or by one that forces already. */
static int force_together(struct worker *worker)
{
	struct log *log = worker->log;
	int result = 0;
	uint64_t mine;

	pthread_mutex_lock(&log->lock);
	mine = ++log->waiting;
	while (log->forced < mine && !result && !failed) {
		uint64_t reached = log->waiting;

		if (log->forcing) {
			pthread_cond_wait(&log->changed, &log->lock);
			continue;
		}
		log->forcing = true;
		pthread_mutex_unlock(&log->lock);
		result = force(worker, log->file, now_ns());
		pthread_mutex_lock(&log->lock);
		log->forcing = false;
		if (!result)
			log->forced = reached;
		pthread_cond_broadcast(&log->changed);
	}
	pthread_mutex_unlock(&log->lock);
	worker->end_ns = now_ns();
	return failed ? -1 : result;
}

static int write_group(const struct worker *worker, int file)
{
	for (uint64_t n = 0; n < spec.per_force && !spec.method->idle; n++) {
		unsigned char *record = worker->buffer + n * spec.record;
		ssize_t done = spec.method->reads ?
				       pread(file, record, spec.record, 0) :
				       pwrite(file, record, spec.record, worker->place + (off_t)(n * spec.record));

		if (done != (ssize_t)spec.record) {
			errno = done < 0 ? errno : EIO;
			return fail(spec.method->reads ? "read" : "write");
		}
	}
	return 0;
}

/* Of a group in the worker's own part. */
static off_t random_place(struct worker *worker)
{
	uint64_t part = worker->log->slots / spec.per_force / spec.threads;
	uint64_t group = (uint64_t)(worker - workers) * part + next_random(&worker->random) % part;

	return (off_t)(group * spec.per_force * spec.record);
}

/* The next records, for a worker. Waits while another still writes what they would go over: a thread may sleep
 * for a whole round of a small file, and would then put an old record over a new one.
 */
static bool reserve(struct worker *worker)
{
	struct log *log = worker->log;
	uint64_t end;
	bool waits = true;

	while (waits && !stopped) {
		waits = false;
		pthread_mutex_lock(&log->lock);
		end = log->next + spec.per_force;
		for (uint64_t n = (uint64_t)(log - logs); !spec.random && n < spec.threads && end > log->slots;
		     n += spec.files)
			waits |= __atomic_load_n(&workers[n].first, __ATOMIC_ACQUIRE) < end - log->slots;
		if (!waits) {
			worker->first = log->next;
			log->next = end;
		}
		pthread_mutex_unlock(&log->lock);
		if (waits)
			sched_yield();
	}
	worker->place = spec.random ? random_place(worker) : place_of(log, worker->first);
	return !waits;
}

static int one_group(struct worker *worker)
{
	const struct method *method = spec.method;
	struct log *log = worker->log;
	uint64_t begin, written;
	int file = log->file;

	if (!reserve(worker))
		return -1;
	worker->forced_ns = IDLE;
	for (uint64_t n = 0; n < spec.per_force; n++)
		make_record(worker->buffer + n * spec.record, (uint64_t)(log - logs), worker->first + n);
	begin = now_ns();
	if (method->opens && (file = opened(log, O_RDWR)) < 0)
		return fail("open");
	if (write_group(worker, file))
		return -1;
	if (method->closes && (close(file) || (file = opened(log, O_RDWR)) < 0))
		return fail("close and open");
	worker->end_ns = written = now_ns();
	if (method->force && (spec.group ? force_together(worker) : force(worker, file, written)))
		return -1;
	if (method->opens && close(file))
		return fail("close");
	/* Like pg_test_fsync: what differs from close_fsync is then the descriptor alone. */
	if (method->opens && !method->closes && ((file = opened(log, O_RDWR)) < 0 || close(file)))
		return fail("open and close");
	if (method->opens)
		worker->end_ns = now_ns();
	__atomic_store_n(&worker->first, IDLE, __ATOMIC_RELEASE);
	pthread_mutex_lock(&lock);
	log->written += spec.per_force;
	add(WRITE, written - begin);
	add(BOTH, worker->end_ns - begin);
	if (worker->forced_ns != IDLE)
		add(FORCE, worker->forced_ns);
	forces += method->flags ? spec.per_force : worker->forced_ns != IDLE;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void *work(void *argument)
{
	pthread_barrier_wait(&start);
	for (uint64_t n = 0; !stopped && (!asked || n < asked); n++)
		if (one_group(argument))
			break;
	return NULL;
}

static void print_counts(int kind)
{
	struct counts *counts = &counted[kind];
	const char *comma = "";

	if (!counts->since)
		return;
	printf(",\"%s\":{\"bins\":{", KIND_NAMES[kind]);
	for (unsigned bin = 0; bin < BINS; bin++) {
		unsigned shift = bin >> BIN_BITS ? (bin >> BIN_BITS) - 1 : 0;
		uint64_t low = (uint64_t)(bin - (shift << BIN_BITS)) << shift;

		if (counts->bins[bin]) {
			printf("%s\"%" PRIu64 "\":%" PRIu64, comma, low + ((uint64_t)1 << shift) / 2, counts->bins[bin]);
			comma = ",";
		}
		counts->bins[bin] = 0;
	}
	counts->since = 0;
	printf("},\"min\":%" PRIu64 ",\"max\":%" PRIu64 ",\"sum\":%" PRIu64 "}", counts->min_ns, counts->max_ns,
	       counts->sum_ns);
}

static uint64_t print_line(uint64_t from_ns, bool is_end)
{
	uint64_t to_ns;

	pthread_mutex_lock(&lock);
	to_ns = now_ns();
	printf("{\"from_ns\":%" PRIu64 ",\"asked_ns\":%" PRIu64 ",\"to_ns\":%" PRIu64, from_ns, to_ns, to_ns);
	for (int kind = 0; kind < KINDS; kind++)
		print_counts(kind);
	printf(",\"forces\":%" PRIu64 ",\"written\":[%" PRIu64, forces, logs[0].written);
	for (uint64_t n = 1; n < spec.files; n++)
		printf(",%" PRIu64, logs[n].written);
	pthread_mutex_unlock(&lock);
	printf("]%s}\n", is_end ? ",\"end\":true" : "");
	if (fflush(stdout))
		die("its output", strerror(errno));
	return to_ns;
}

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static void sleep_until(uint64_t ns)
{
	struct timespec until = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void start_workers(void)
{
	workers = calloc(spec.threads, sizeof(*workers));
	if (!workers)
		die("memory", strerror(ENOMEM));
	/* A method that opens is the only one that has the file open: the last close of a device does more. */
	for (uint64_t n = 0; n < spec.files; n++)
		if (!spec.method->opens && (logs[n].file = opened(&logs[n], O_RDWR | spec.method->flags)) < 0)
			die(logs[n].path, strerror(errno));
	pthread_barrier_init(&start, NULL, (unsigned)spec.threads + 1);
	for (uint64_t n = 0; n < spec.threads; n++) {
		workers[n].log = &logs[n % spec.files];
		workers[n].first = IDLE;
		workers[n].random = mixed(n, 0, 0) | 1;
		workers[n].buffer = buffer_of(spec.per_force * spec.record);
		for (uint64_t r = 0; r < spec.per_force; r++)
			memcpy(workers[n].buffer + r * spec.record, base, spec.record);
		if ((errno = pthread_create(&workers[n].thread, NULL, work, &workers[n])))
			die("a thread", strerror(errno));
	}
}

/* Files and memory, for the next load of a test. */
static void release(void)
{
	for (uint64_t n = 0; n < spec.files && !spec.method->opens; n++) {
		/* So that it is not written in a later phase. */
		if (!spec.method->force && !spec.method->flags && fdatasync(logs[n].file))
			die(logs[n].path, strerror(errno));
		close(logs[n].file);
	}
	for (uint64_t n = 0; n < spec.threads; n++)
		free(workers[n].buffer);
	free(workers);
	free(logs);
	free(base);
	pthread_barrier_destroy(&start);
	memset(counted, 0, sizeof(counted));
	forces = 0;
}

/* To the end of the time, or of the groups that are asked for. */
static void run(uint64_t pause_ns, uint64_t window_ns, uint64_t duration_ns)
{
	struct sigaction action = { .sa_handler = stop };
	uint64_t begin, from;

	if (!asked && !window_ns)
		die("its arguments", "not a run");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	start_workers();
	sleep_until(now_ns() + pause_ns);
	begin = from = now_ns();
	pthread_barrier_wait(&start);
	for (uint64_t at = window_ns; !asked && !stopped && at < duration_ns; at += window_ns) {
		sleep_until(begin + at);
		if (!stopped)
			from = print_line(from, false);
	}
	if (!asked) {
		sleep_until(begin + duration_ns);
		stopped = 1;
	}
	for (uint64_t n = 0; n < spec.threads; n++)
		pthread_join(workers[n].thread, NULL);
	print_line(from, !failed);
	if (failed)
		die(failed, strerror(failure));
	release();
}

/* --- Before and after it --- */

static void prepare(void)
{
	unsigned char *chunk = buffer_of(CHUNK);
	uint64_t state = spec.seed ^ MAGIC;

	for (uint64_t n = 0; n < spec.files && !spec.is_device; n++) {
		int file;

		/* Of a part of the phase that was cut off. */
		unlink(logs[n].path);
		file = open(logs[n].path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (file < 0)
			die(logs[n].path, strerror(errno));
		for (uint64_t at = 0; at < spec.size && !spec.append; at += CHUNK) {
			uint64_t bytes = spec.size - at < CHUNK ? spec.size - at : CHUNK;

			fill_random(chunk, bytes, &state);
			if (write(file, chunk, bytes) != (ssize_t)bytes)
				die(logs[n].path, "it could not be written before the phase");
		}
		if (fsync(file) || close(file))
			die(logs[n].path, strerror(errno));
	}
}

static void verify(char **words, int count)
{
	uint64_t kept = 0, recovered = 0, damaged = 0;
	unsigned char *found = buffer_of(spec.record), *expected = buffer_of(spec.record);

	if ((uint64_t)count != spec.files)
		die("verify", "a number for each file");
	memcpy(expected, base, spec.record);
	for (uint64_t n = 0; n < spec.files; n++) {
		uint64_t written = number_of(words[n]);
		struct log *log = &logs[n];
		int file = opened(log, O_RDONLY);

		if (file < 0)
			die(log->path, strerror(errno));
		posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
		for (uint64_t last = written; last > 0 && written - last < log->slots; last--) {
			struct head head, wanted;

			kept++;
			make_record(expected, n, last - 1);
			if (pread(file, found, spec.record, place_of(log, last - 1)) != (ssize_t)spec.record)
				continue;
			memcpy(&head, found, sizeof(head));
			memcpy(&wanted, expected, sizeof(wanted));
			if (!memcmp(found, expected, spec.record))
				recovered++;
			else if (head.magic == wanted.magic && head.sum != sum_of(found))
				damaged++;
		}
		close(file);
		if (!spec.is_device)
			unlink(log->path);
	}
	printf("{\"kept\":%" PRIu64 ",\"recovered\":%" PRIu64 ",\"damaged\":%" PRIu64 "}\n", kept, recovered, damaged);
}

static void parse(char **words)
{
	uint64_t *const numbers[] = { &spec.record, &spec.per_force, &spec.files, &spec.threads, &spec.size };
	uint64_t state;

	spec.path = words[0];
	for (size_t n = 0; n < sizeof(METHODS) / sizeof(*METHODS); n++)
		if (!strcmp(METHODS[n].name, words[1]))
			spec.method = &METHODS[n];
	for (int n = 0; n < 5; n++)
		*numbers[n] = number_of(words[2 + n]);
	spec.append = strchr(words[7], 'a');
	spec.is_device = strchr(words[7], 'b');
	spec.check = strchr(words[7], 'c');
	spec.direct = strchr(words[7], 'd');
	spec.group = strchr(words[7], 'g');
	spec.random = strchr(words[7], 'r');
	spec.seed = number_of(words[8]);
	if (spec.is_device && !held.path[0])
		hold(spec.path, words[9]);
	if (!spec.method || spec.record < sizeof(struct head) || spec.record % sizeof(uint64_t) || !spec.per_force ||
	    spec.record > UINT32_MAX || !spec.files || !spec.threads || spec.threads > MOST_THREADS ||
	    spec.files > spec.threads || (spec.is_device && spec.files > 1) ||
	    spec.size / spec.record < spec.per_force || (spec.random && (spec.files > 1 || spec.check)))
		die("its arguments", "not a load");
	if (spec.random && spec.size / spec.record / spec.per_force < spec.threads)
		die(spec.path, "it is too small for records of this size by so many threads");
	state = spec.seed * 2 + 1;
	base = buffer_of(spec.record);
	fill_random(base, spec.record, &state);
	logs = calloc(spec.files, sizeof(*logs));
	if (!logs)
		die("memory", strerror(ENOMEM));
	for (uint64_t n = 0; n < spec.files; n++) {
		int length = spec.is_device ? snprintf(logs[n].path, PATH_MAX, "%s", spec.path) :
					      snprintf(logs[n].path, PATH_MAX, "%s.%u", spec.path, (unsigned)n);

		if (length >= PATH_MAX)
			die("its path", strerror(ENAMETOOLONG));
		/* Of whole groups: one that is at both ends of a file would be two writes. */
		logs[n].slots = spec.size / spec.record / spec.per_force * spec.per_force;
		logs[n].lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
		pthread_cond_init(&logs[n].changed, NULL);
	}
}

int main(int count, char **words)
{
	const char *command = words[1];
	char **after = words + 2 + SPEC_WORDS;

	remove_itself();
	if (count < 2 + SPEC_WORDS)
		die("usage", "force_load prepare|run|test|verify SPEC...");
	parse(words + 2);
	if (!strcmp(command, "prepare"))
		prepare();
	else if (!strcmp(command, "run") && count == 4 + SPEC_WORDS)
		run(0, number_of(after[0]), number_of(after[1]));
	else if (!strcmp(command, "verify"))
		verify(after, count - 2 - SPEC_WORDS);
	else if (strcmp(command, "test") || (count - 2) % (2 + SPEC_WORDS))
		die(command, "not a command");
	for (; !strcmp(command, "test") && !stopped; after += 2 + SPEC_WORDS) {
		asked = number_of(after[1]);
		run(number_of(after[0]), 0, 0);
		if (!after[2])
			break;
		parse(after + 2);
	}
	return 0;
}
