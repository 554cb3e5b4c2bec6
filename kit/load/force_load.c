/* The load of a phase: records that are written and forced to stable storage, and read back afterwards.
 *
 *     force_load prepare SPEC...
 *     force_load run     SPEC... WINDOW_NS DURATION_NS
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
 *
 * FLAGS are letters, or - for none of them:
 *
 *     a   append: the files are empty at first; else they are written before, in whole
 *     b   PATH is a block device, DEVICE its MAJOR:MINOR:SEQUENCE; else the files are PATH.0, PATH.1...
 *     d   direct (O_DIRECT)
 *     g   group commit: threads of a file share a force; one of them forces for all that wait
 *
 * `run` prints a line each WINDOW_NS and at the end, with what has ended since the line before:
 *
 *     {"from_ns", "asked_ns", "to_ns", "write": {"bins": {latency: groups}, "min", "max", "sum"},
 *      "part": {...}, "force": {...}, "forces", "written": [records of each file], "end"}
 *
 * "write" is a group from its first write until it is safe, "part" its writes alone, "force" the call that
 * forces. Bins are fio's (kit.load.fio_bins), called by their middle, as kit.remote.count_ios has them. "min",
 * "max", "sum", "forces" and "written" are since the start; "end" is true in the last line of a run that was
 * not cut off. Times in ns of CLOCK_MONOTONIC.
 *
 * A record begins with a number that differs in each of its sectors, then has a mark of the phase, its file,
 * length and sequence, and a checksum. `verify` reads those of the last round through each file and prints
 *
 *     {"kept", "recovered", "damaged"}
 *
 * then it removes the files. The program removes itself and its directory as it starts.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "forces.h"

/* fio's */
#define BIN_BITS 6
#define BINS (29 << BIN_BITS)
#define MOST_THREADS 1024
#define IDLE UINT64_MAX
#define CHUNK (1u << 20)
#define MAGIC 0x666f726365730a01u

static const char *const KIND_NAMES[KINDS] = { "part", "force", "write" };

static const struct method {
	const char *name;
	int flags; /* of open(2) */
	int (*force)(int file);
	bool opens, closes; /* for each group; before the force */
} METHODS[] = {
	{ "none", 0, NULL, false, false },
	{ "open_datasync", O_DSYNC, NULL, false, false },
	{ "open_sync", O_SYNC, NULL, false, false },
	{ "fdatasync", 0, fdatasync, false, false },
	{ "fsync", 0, fsync, false, false },
	{ "fsync_close", 0, fsync, true, false },
	{ "close_fsync", 0, fsync, true, true },
};

static struct {
	const char *path;
	const struct method *method;
	uint64_t record, per_force, files, threads, size, seed;
	bool append, is_device, direct, group;
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
};

static struct held held;
static struct log *logs;
static struct worker *workers;
static unsigned char *base; /* of every record */
static struct counts counted[KINDS];
static uint64_t forces;
static const char *failed;
static int failure;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the three above */
static pthread_barrier_t start;
static volatile sig_atomic_t stopped;

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
	return spec.is_device ? open_held(&held, flags) : open(log->path, flags | O_CLOEXEC | O_NOFOLLOW);
}

/* --- The load --- */

static void add(int kind, uint64_t ns)
{
	struct counts *counts = &counted[kind];
	unsigned bin = bin_of(ns, BIN_BITS);

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

static int force(int file)
{
	uint64_t begin = now_ns(), end;

	if (spec.method->force(file))
		return fail(spec.method->name);
	end = now_ns();
	pthread_mutex_lock(&lock);
	forces++;
	add(FORCE, end - begin);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Until a force has reached all that was written before: by this thread, or by one that forces already. */
static int force_together(struct log *log)
{
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
		result = force(log->file);
		pthread_mutex_lock(&log->lock);
		log->forcing = false;
		if (!result)
			log->forced = reached;
		pthread_cond_broadcast(&log->changed);
	}
	pthread_mutex_unlock(&log->lock);
	return failed ? -1 : result;
}

static int write_group(const struct worker *worker, int file, uint64_t first)
{
	for (uint64_t n = 0; n < spec.per_force; n++) {
		ssize_t done = pwrite(file, worker->buffer + n * spec.record, spec.record,
				      place_of(worker->log, first + n));

		if (done != (ssize_t)spec.record) {
			errno = done < 0 ? errno : EIO;
			return fail("write");
		}
	}
	return 0;
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
		for (uint64_t n = (uint64_t)(log - logs); n < spec.threads && end > log->slots; n += spec.files)
			waits |= workers[n].first < end - log->slots;
		if (!waits) {
			worker->first = log->next;
			log->next = end;
		}
		pthread_mutex_unlock(&log->lock);
		if (waits)
			sched_yield();
	}
	return !waits;
}

static int one_group(struct worker *worker)
{
	const struct method *method = spec.method;
	struct log *log = worker->log;
	uint64_t first, begin, written, end;
	int file = log->file;

	if (!reserve(worker))
		return -1;
	first = worker->first;
	for (uint64_t n = 0; n < spec.per_force; n++)
		make_record(worker->buffer + n * spec.record, (uint64_t)(log - logs), first + n);
	begin = now_ns();
	if (method->opens && (file = opened(log, O_RDWR)) < 0)
		return fail("open");
	if (write_group(worker, file, first))
		return -1;
	if (method->closes && (close(file) || (file = opened(log, O_RDWR)) < 0))
		return fail("close and open");
	written = now_ns();
	if (method->force && (spec.group ? force_together(log) : force(file)))
		return -1;
	if (method->opens && close(file))
		return fail("close");
	/* Like pg_test_fsync: what differs from close_fsync is then the descriptor alone. */
	if (method->opens && !method->closes && ((file = opened(log, O_RDWR)) < 0 || close(file)))
		return fail("open and close");
	end = method->force ? now_ns() : written;
	pthread_mutex_lock(&log->lock);
	worker->first = IDLE;
	log->written += spec.per_force;
	pthread_mutex_unlock(&log->lock);
	pthread_mutex_lock(&lock);
	add(WRITE, written - begin);
	add(BOTH, end - begin);
	if (method->flags)
		forces += spec.per_force;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void *work(void *argument)
{
	pthread_barrier_wait(&start);
	while (!stopped && !one_group(argument))
		;
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
			printf("%s\"%llu\":%llu", comma, (unsigned long long)(low + (1ull << shift) / 2),
			       (unsigned long long)counts->bins[bin]);
			comma = ",";
		}
		counts->bins[bin] = 0;
	}
	counts->since = 0;
	printf("},\"min\":%llu,\"max\":%llu,\"sum\":%llu}", (unsigned long long)counts->min_ns,
	       (unsigned long long)counts->max_ns, (unsigned long long)counts->sum_ns);
}

static uint64_t print_line(uint64_t from_ns, bool is_end)
{
	uint64_t to_ns;

	pthread_mutex_lock(&lock);
	to_ns = now_ns();
	printf("{\"from_ns\":%llu,\"asked_ns\":%llu,\"to_ns\":%llu", (unsigned long long)from_ns,
	       (unsigned long long)to_ns, (unsigned long long)to_ns);
	for (int kind = 0; kind < KINDS; kind++)
		print_counts(kind);
	printf(",\"forces\":%llu", (unsigned long long)forces);
	pthread_mutex_unlock(&lock);
	for (uint64_t n = 0; n < spec.files; n++) {
		pthread_mutex_lock(&logs[n].lock);
		printf(n ? ",%llu" : ",\"written\":[%llu", (unsigned long long)logs[n].written);
		pthread_mutex_unlock(&logs[n].lock);
	}
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

static void run(uint64_t window_ns, uint64_t duration_ns)
{
	struct sigaction action = { .sa_handler = stop };
	uint64_t begin, from, next;

	workers = calloc(spec.threads, sizeof(*workers));
	if (!workers || !window_ns)
		die("run", "not a run");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* A method that opens is the only one that has the file open: the last close of a device does more. */
	for (uint64_t n = 0; n < spec.files; n++)
		if (!spec.method->opens && (logs[n].file = opened(&logs[n], O_RDWR | spec.method->flags)) < 0)
			die(logs[n].path, strerror(errno));
	pthread_barrier_init(&start, NULL, (unsigned)spec.threads + 1);
	for (uint64_t n = 0; n < spec.threads; n++) {
		workers[n].log = &logs[n % spec.files];
		workers[n].first = IDLE;
		workers[n].buffer = buffer_of(spec.per_force * spec.record);
		for (uint64_t r = 0; r < spec.per_force; r++)
			memcpy(workers[n].buffer + r * spec.record, base, spec.record);
		if ((errno = pthread_create(&workers[n].thread, NULL, work, &workers[n])))
			die("a thread", strerror(errno));
	}
	begin = from = now_ns();
	pthread_barrier_wait(&start);
	for (next = begin + window_ns; !stopped && next < begin + duration_ns; next += window_ns) {
		sleep_until(next);
		if (!stopped)
			from = print_line(from, false);
	}
	sleep_until(begin + duration_ns);
	stopped = 1;
	for (uint64_t n = 0; n < spec.threads; n++)
		pthread_join(workers[n].thread, NULL);
	print_line(from, !failed);
	if (failed)
		die(failed, strerror(failure));
	/* So that it is not written in a later phase. */
	for (uint64_t n = 0; n < spec.files; n++)
		if (!spec.method->force && !spec.method->flags && fdatasync(logs[n].file))
			die(logs[n].path, strerror(errno));
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
		uint64_t written = number_of(words[n], words[n]);
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
	printf("{\"kept\":%llu,\"recovered\":%llu,\"damaged\":%llu}\n", (unsigned long long)kept,
	       (unsigned long long)recovered, (unsigned long long)damaged);
}

static void parse(char **words)
{
	uint64_t state;

	spec.path = words[0];
	for (size_t n = 0; n < sizeof(METHODS) / sizeof(*METHODS); n++)
		if (!strcmp(METHODS[n].name, words[1]))
			spec.method = &METHODS[n];
	spec.record = number_of(words[2], words[2]);
	spec.per_force = number_of(words[3], words[3]);
	spec.files = number_of(words[4], words[4]);
	spec.threads = number_of(words[5], words[5]);
	spec.size = number_of(words[6], words[6]);
	spec.append = strchr(words[7], 'a');
	spec.is_device = strchr(words[7], 'b');
	spec.direct = strchr(words[7], 'd');
	spec.group = strchr(words[7], 'g');
	spec.seed = number_of(words[8], words[8]);
	if (spec.is_device)
		held = hold(spec.path, words[9]);
	if (!spec.method || spec.record < sizeof(struct head) || spec.record % sizeof(uint64_t) || !spec.per_force ||
	    spec.record > UINT32_MAX || !spec.files || !spec.threads || spec.threads > MOST_THREADS ||
	    spec.files > spec.threads || (spec.is_device && spec.files > 1) ||
	    spec.size / spec.record < spec.per_force)
		die("its arguments", "not a load");
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
		pthread_mutex_init(&logs[n].lock, NULL);
		pthread_cond_init(&logs[n].changed, NULL);
	}
}

int main(int count, char **words)
{
	remove_itself();
	if (count < 12)
		die("usage", "force_load prepare|run|verify SPEC...");
	parse(words + 2);
	if (!strcmp(words[1], "prepare"))
		prepare();
	else if (!strcmp(words[1], "run") && count == 14)
		run(number_of(words[12], words[12]), number_of(words[13], words[13]));
	else if (!strcmp(words[1], "verify"))
		verify(words + 12, count - 12);
	else
		die(words[1], "not a command");
	return 0;
}
