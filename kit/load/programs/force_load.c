/* Records that are written and forced to stable storage: the load of a phase.
 * And an open loop: reads, or such writes, that start when a schedule says so, not when one before has ended.
 *
 *     force_load prepare SPEC...
 *     force_load run     SPEC... WINDOW_NS DURATION_NS GROUPS
 *     force_load open    SPEC... WINDOW_NS DURATION_NS GAP_NS LIMIT_NS
 *     force_load replay  SPEC... WINDOW_NS DURATION_NS LATE_NS LIMIT_NS SCHEDULE
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
 *     read            no write: a group is read
 *
 * FLAGS are letters, or - for none of them:
 *
 *     a   append: the files are empty at first; else they are written before, in whole
 *     b   PATH is a block device, DEVICE its MAJOR:MINOR:SEQUENCE, or - for any, or one file that is there; else
 *         the files are PATH.0, PATH.1...
 *     c   records have a checksum, which `verify` wants
 *     d   direct (O_DIRECT)
 *     g   group commit: threads of a file share a force; one of them forces for all that wait
 *     r   random: groups go to random places of a part of the file that is the thread's own
 *
 * `run` ends after DURATION_NS, or when each thread has done GROUPS groups; 0 is no limit. It prints a line each
 * WINDOW_NS, and at the end, with what has ended since the line before.
 *
 *     {"from_ns", "asked_ns", "to_ns", "write" or "read": {"bins": {latency: groups}, "min", "max", "sum"},
 *      "part": {...}, "force": {...}, "forces", "written": [records of each file], "end"}
 *
 * "write" ("read" of methods that read) is a group from its first write until it is safe, "part" its writes alone,
 * "force" the call that forces. Bins are fio's (kit.load.fio_bins), called by their middle, as kit.remote.load.count_ios has them; two are one
 * of kit.core.bins. "min", "max", "sum", "forces" and "written" are since the start; "end" is true in the last line
 * of a run that was not cut off. Times in ns of CLOCK_MONOTONIC.
 *
 * `open` draws starts from a Poisson process of SEED, on average GAP_NS apart, until DURATION_NS are over. A thread
 * that is free takes the next start and waits for it; with all threads busy it is late. Nothing is left out: what
 * has not started LIMIT_NS after the end is late beyond the limit, is counted, and is not done. Its lines have
 *
 *     {..., "read" or "write": {...}, "intended": {...}, "late": {...}, "due", "above", "slow", "unstarted", "end"}
 *
 * of which "read" or "write" is from the start of an I/O to its end, as fio has it, "intended" from the start that
 * the schedule has, and "late" how long after both its intended start and the moment a thread was free for it an
 * I/O started: that is this program's own delay. "due": starts that have come; "above": I/Os that took longer than
 * LIMIT_NS from their intended start, with those "unstarted"; "slow": also without that delay; all since the start.
 *
 * `replay` is an open loop whose starts are those of the file SCHEDULE, with a place, a length and an operation each
 * (struct start), by time. It ends when the last one has ended. RECORD is the largest length; PATH is held, as of flag
 * b. Reads go to the file as it is, writes are O_DSYNC. Its lines have "read" and "write", each if there was any, and
 * "behind": I/Os that started more than LATE_NS after their intended start, for whatever reason.
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
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
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

enum { WRITE, FORCE, BOTH, READ, INTENDED, LATE, KINDS };
static const char *kind_names[KINDS] = { "part", "force", "write", "read", "intended", "late" };

static const struct method {
	const char *name;
	int flags; /* of open(2) */
	int (*force)(int file);
	bool opens, closes; /* for each group; before the force */
	bool idle, reads;   /* instead of writes */
	bool cached;	    /* always the same place */
} METHODS[] = {
	{ .name = "none" },
	{ .name = "open_datasync", .flags = O_DSYNC },
	{ .name = "open_sync", .flags = O_SYNC },
	{ .name = "fdatasync", .force = fdatasync },
	{ .name = "fsync", .force = fsync },
	{ .name = "fsync_close", .force = fsync, .opens = true },
	{ .name = "close_fsync", .force = fsync, .opens = true, .closes = true },
	{ .name = "flush_idle", .force = fdatasync, .idle = true },
	{ .name = "read_cached", .reads = true, .cached = true },
	{ .name = "read", .reads = true },
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
	uint64_t due_ns, taken_ns;  /* of an open loop: its intended start, and when this thread was free for it */
	uint64_t number;	    /* of a replay: which start it is */
};

static struct log *logs;
static struct worker *workers;
static unsigned char *base; /* of every record */
static struct counts counted[KINDS];
static uint64_t asked; /* groups of each worker; 0: no limit */
static uint64_t forces, working; /* workers that have not ended */
/* The schedule of an open loop: without a gap there is none; of a replay the gap says nothing else. `next_ns`: since its begin. */
static struct {
	uint64_t gap_ns, limit_ns, begin_ns, end_ns, random, due, above, slow, unstarted;
	double next_ns;
	pthread_mutex_t lock;
} schedule = { .lock = PTHREAD_MUTEX_INITIALIZER };
/* What is replayed, as it lies in the file (little endian): `due_ns` since the begin; `writes`: 0 or 1. */
static struct {
	const struct start {
		uint64_t due_ns, place;
		uint32_t length, writes;
	} *starts;
	uint64_t count, next, late_ns, behind;
	int stable; /* for writes */
} replay;
static const char *failed;
static int failure;
/* Of the counts above and of what is written; so short that a sleep would take longer. */
static pthread_mutex_t lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t ended; /* all workers; with `lock` */
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

static void sleep_until(uint64_t ns)
{
	struct timespec until = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* Or until no worker works, or all shall stop; false then. Threads of an open loop may wait for their starts. */
static bool sleep_beside_workers(uint64_t ns)
{
	struct timespec until = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
	bool works;

	if (schedule.gap_ns) {
		sleep_until(ns);
		return !stopped;
	}
	pthread_mutex_lock(&lock);
	while (working && pthread_cond_timedwait(&ended, &lock, &until) != ETIMEDOUT)
		;
	works = working;
	pthread_mutex_unlock(&lock);
	return works;
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
				       pread(file, record, spec.record,
					     spec.method->cached ? 0 : worker->place + (off_t)(n * spec.record)) :
				       pwrite(file, record, spec.record, worker->place + (off_t)(n * spec.record));

		if (done != (ssize_t)spec.record) {
			errno = done < 0 ? errno : EIO;
			return fail(spec.method->reads ? "read" : "write");
		}
	}
	return 0;
}

/* Of a group in the worker's own part; of an open loop anywhere: there a thread may be idle for long. */
static off_t random_place(struct worker *worker)
{
	uint64_t groups = worker->log->slots / spec.per_force;
	uint64_t part = schedule.gap_ns ? groups : groups / spec.threads;
	uint64_t first = schedule.gap_ns ? 0 : (uint64_t)(worker - workers) * part;
	uint64_t group = first + next_random(&worker->random) % part;

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
		/* Of an open loop nothing is verified, and its threads may be idle for long. */
		for (uint64_t n = (uint64_t)(log - logs);
		     !spec.random && !schedule.gap_ns && n < spec.threads && end > log->slots; n += spec.files)
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
	for (uint64_t n = 0; n < spec.per_force && !method->reads; n++)
		make_record(worker->buffer + n * spec.record, (uint64_t)(log - logs), worker->first + n);
	if (schedule.gap_ns)
		sleep_until(worker->due_ns);
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
	if (schedule.gap_ns) {
		uint64_t free_ns = worker->taken_ns > worker->due_ns ? worker->taken_ns : worker->due_ns;

		add(INTENDED, worker->end_ns - worker->due_ns);
		add(LATE, begin - free_ns);
		schedule.above += worker->end_ns - worker->due_ns > schedule.limit_ns;
		schedule.slow += worker->end_ns - worker->due_ns - (begin - free_ns) > schedule.limit_ns;
	} else {
		add(WRITE, written - begin);
	}
	add(BOTH, worker->end_ns - begin);
	if (worker->forced_ns != IDLE && !schedule.gap_ns)
		add(FORCE, worker->forced_ns);
	forces += method->flags ? spec.per_force : worker->forced_ns != IDLE;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Of a Poisson process: -log of a uniform number in (0, 1). */
static double next_gap_ns(void)
{
	double uniform = ((double)(next_random(&schedule.random) >> 11) + 0.5) * 0x1p-53;

	return -log(uniform) * (double)schedule.gap_ns;
}

/* The next start of the schedule, for a worker; false after the last. */
static bool next_start(struct worker *worker)
{
	bool is_there;

	pthread_mutex_lock(&schedule.lock);
	worker->taken_ns = now_ns();
	worker->due_ns = schedule.begin_ns + (uint64_t)schedule.next_ns;
	is_there = !stopped && worker->due_ns < schedule.end_ns;
	if (is_there) {
		schedule.next_ns += next_gap_ns();
		schedule.due++;
	}
	pthread_mutex_unlock(&schedule.lock);
	return is_there;
}

/* The next start of a replay, for a worker; false after the last. */
static bool next_replayed(struct worker *worker)
{
	bool is_there;

	pthread_mutex_lock(&schedule.lock);
	worker->taken_ns = now_ns();
	is_there = !stopped && replay.next < replay.count;
	if (is_there) {
		worker->number = replay.next++;
		worker->due_ns = schedule.begin_ns + replay.starts[worker->number].due_ns;
		schedule.due++;
	}
	pthread_mutex_unlock(&schedule.lock);
	return is_there;
}

static int one_replayed(struct worker *worker)
{
	const struct start *start = &replay.starts[worker->number];
	uint64_t begin, end, late, free_ns = worker->taken_ns > worker->due_ns ? worker->taken_ns : worker->due_ns;
	ssize_t done;

	/* So that no two writes are the same. */
	for (uint64_t at = 0; start->writes && at + sizeof(uint64_t) <= start->length; at += SECTOR) {
		uint64_t stamp = mixed(0, worker->number, at / SECTOR);

		memcpy(worker->buffer + at, &stamp, sizeof(stamp));
	}
	sleep_until(worker->due_ns);
	if (stopped)
		return -1;
	begin = now_ns();
	done = start->writes ? pwrite(replay.stable, worker->buffer, start->length, (off_t)start->place) :
			       pread(logs[0].file, worker->buffer, start->length, (off_t)start->place);
	end = now_ns();
	if (done != (ssize_t)start->length) {
		errno = done < 0 ? errno : EIO;
		return fail(start->writes ? "write" : "read");
	}
	late = begin - worker->due_ns;
	pthread_mutex_lock(&lock);
	add(start->writes ? BOTH : READ, end - begin);
	add(INTENDED, end - worker->due_ns);
	add(LATE, begin > free_ns ? begin - free_ns : 0);
	replay.behind += late > replay.late_ns;
	schedule.above += end - worker->due_ns > schedule.limit_ns;
	schedule.slow += end - worker->due_ns - late > schedule.limit_ns;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void *work_open(void *argument)
{
	struct worker *worker = argument;

	pthread_barrier_wait(&start);
	while (replay.starts ? next_replayed(worker) : next_start(worker)) {
		/* It has missed the limit by now: it is counted, and not done. */
		if (worker->taken_ns > schedule.end_ns && worker->taken_ns - schedule.end_ns > schedule.limit_ns) {
			pthread_mutex_lock(&lock);
			schedule.unstarted++;
			schedule.above++;
			schedule.slow++;
			pthread_mutex_unlock(&lock);
		} else if (replay.starts ? one_replayed(worker) : one_group(worker)) {
			break;
		}
	}
	return NULL;
}

static void *work(void *argument)
{
	pthread_barrier_wait(&start);
	for (uint64_t n = 0; !stopped && (!asked || n < asked); n++)
		if (one_group(argument))
			break;
	pthread_mutex_lock(&lock);
	if (!--working)
		pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void print_counts(int kind)
{
	struct counts *counts = &counted[kind];
	const char *comma = "";

	if (!counts->since)
		return;
	printf(",\"%s\":{\"bins\":{", kind_names[kind]);
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
	if (schedule.gap_ns)
		printf(",\"due\":%" PRIu64 ",\"above\":%" PRIu64 ",\"slow\":%" PRIu64 ",\"unstarted\":%" PRIu64,
		       schedule.due, schedule.above, schedule.slow, schedule.unstarted);
	if (replay.starts)
		printf(",\"behind\":%" PRIu64, replay.behind);
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

static void start_workers(void)
{
	pthread_condattr_t attributes;

	workers = calloc(spec.threads, sizeof(*workers));
	if (!workers)
		die("memory", strerror(ENOMEM));
	/* A method that opens is the only one that has the file open: the last close of a device does more. */
	for (uint64_t n = 0; n < spec.files; n++)
		if (!spec.method->opens && (logs[n].file = opened(&logs[n], O_RDWR | spec.method->flags)) < 0)
			die(logs[n].path, strerror(errno));
	pthread_barrier_init(&start, NULL, (unsigned)spec.threads + 1);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&ended, &attributes);
	working = spec.threads;
	for (uint64_t n = 0; n < spec.threads; n++) {
		workers[n].log = &logs[n % spec.files];
		workers[n].first = IDLE;
		workers[n].random = mixed(n, 0, 0) | 1;
		workers[n].buffer = buffer_of(spec.per_force * spec.record);
		for (uint64_t r = 0; r < spec.per_force; r++)
			memcpy(workers[n].buffer + r * spec.record, base, spec.record);
		if ((errno = pthread_create(&workers[n].thread, NULL, schedule.gap_ns ? work_open : work,
					     &workers[n])))
			die("a thread", strerror(errno));
	}
}

/* To the end of the time, or of the groups that are asked for. */
static void run(uint64_t window_ns, uint64_t duration_ns)
{
	struct sigaction action = { .sa_handler = stop };
	uint64_t begin, from;

	if (!window_ns)
		die("its arguments", "not a run");
	if (spec.method->reads)
		kind_names[BOTH] = "read";
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	start_workers();
	begin = from = schedule.begin_ns = now_ns();
	schedule.end_ns = begin + duration_ns;
	pthread_barrier_wait(&start);
	for (uint64_t at = window_ns; at < duration_ns && sleep_beside_workers(begin + at); at += window_ns)
		from = print_line(from, false);
	sleep_beside_workers(begin + duration_ns);
	/* An open loop goes on until all that was due has ended. */
	stopped |= !schedule.gap_ns;
	for (uint64_t n = 0; n < spec.threads; n++)
		pthread_join(workers[n].thread, NULL);
	print_line(from, !failed);
	if (failed)
		die(failed, strerror(failure));
	/* So that it is not written in a later phase. */
	for (uint64_t n = 0; n < spec.files && !spec.method->opens; n++)
		if (!spec.method->force && !spec.method->flags && fdatasync(logs[n].file))
			die(logs[n].path, strerror(errno));
}

/* Until all that is due in `duration_ns` has ended. */
static void open_loop(uint64_t window_ns, uint64_t duration_ns, uint64_t gap_ns, uint64_t limit_ns)
{
	if (!gap_ns || spec.check)
		die("its arguments", "not an open loop");
	schedule.gap_ns = gap_ns;
	schedule.limit_ns = limit_ns;
	schedule.random = spec.seed * 2 + 1;
	schedule.next_ns = next_gap_ns();
	/* A sleep may end 50 us late by default: that would be in every latency. */
	prctl(PR_SET_TIMERSLACK, 1);
	run(window_ns, duration_ns);
}

/* All starts of the file, which is read before the first. */
static void replay_file(uint64_t window_ns, uint64_t duration_ns, uint64_t late_ns, uint64_t limit_ns, const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct start *starts;
	struct stat status;
	uint64_t last_ns = 0;

	if (file < 0 || fstat(file, &status))
		die(path, strerror(errno));
	replay.count = (uint64_t)status.st_size / sizeof(*starts);
	if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size % sizeof(*starts))
		die(path, "not a schedule");
	/* Without a start, too: of a client that has nothing to do. */
	starts = malloc((size_t)status.st_size + 1);
	if (!starts)
		die("memory", strerror(ENOMEM));
	for (off_t at = 0; at < status.st_size;) {
		ssize_t got = pread(file, (char *)starts + at, (size_t)(status.st_size - at), at);

		if (got <= 0)
			die(path, got ? strerror(errno) : "it has become shorter");
		at += got;
	}
	close(file);
	for (uint64_t n = 0; n < replay.count; last_ns = starts[n++].due_ns)
		if (starts[n].due_ns < last_ns || starts[n].due_ns > INT64_MAX / 2 || !starts[n].length ||
		    starts[n].length > spec.record || starts[n].place > spec.size ||
		    starts[n].length > spec.size - starts[n].place || starts[n].writes > 1)
			die(path, "a start that cannot be");
	if (!spec.is_device || spec.method->reads || spec.check || (replay.stable = opened(&logs[0], O_RDWR | O_DSYNC)) < 0)
		die(logs[0].path, errno ? strerror(errno) : "not a replay");
	replay.starts = starts;
	replay.late_ns = late_ns;
	schedule.gap_ns = 1;
	schedule.limit_ns = limit_ns;
	prctl(PR_SET_TIMERSLACK, 1);
	run(window_ns, duration_ns);
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
	if (spec.is_device)
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
		die("usage", "force_load prepare|run|open|replay|verify SPEC...");
	parse(words + 2);
	if (!strcmp(command, "prepare")) {
		prepare();
	} else if (!strcmp(command, "run") && count == 5 + SPEC_WORDS) {
		asked = number_of(after[2]);
		run(number_of(after[0]), number_of(after[1]));
	} else if (!strcmp(command, "open") && count == 6 + SPEC_WORDS) {
		open_loop(number_of(after[0]), number_of(after[1]), number_of(after[2]), number_of(after[3]));
	} else if (!strcmp(command, "replay") && count == 7 + SPEC_WORDS) {
		replay_file(number_of(after[0]), number_of(after[1]), number_of(after[2]), number_of(after[3]), after[4]);
	} else if (!strcmp(command, "verify")) {
		verify(after, count - 2 - SPEC_WORDS);
	} else {
		die(command, "not a command");
	}
	return 0;
}
