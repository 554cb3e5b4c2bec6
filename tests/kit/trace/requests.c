/*
 * requests.c - calls the functions that the trace program probes, as nfsd and OpenZFS do, in user space.
 *
 * Each line of failed_reads() is one phase with one request. Addresses of I/Os (zio_t) are only compared.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone, used))
#define FUNCTION(name) PROBED void name(void *a, void *b) { __asm__ volatile("" ::"r"(a), "r"(b) : "memory"); }

FUNCTION(nfsd_read_start) FUNCTION(nfsd_read_done) FUNCTION(nfsd_write_start) FUNCTION(nfsd_write_done)
FUNCTION(nfsd_commit) FUNCTION(trace_zfs_blocked__read) FUNCTION(zil_commit) FUNCTION(dmu_sync)
FUNCTION(l2arc_write_done) FUNCTION(trace_zfs_arc__hit) FUNCTION(trace_zfs_arc__async__upgrade__sync)
FUNCTION(trace_zfs_arc__iohit) FUNCTION(dmu_read_abd) FUNCTION(zio_read) FUNCTION(zio_read_phys)

PROBED void zio_rewrite(void *a, void *b, void *c, void *bp) { __asm__ volatile("" ::"r"(bp) : "memory"); }
PROBED void security_task_setrlimit(void *task, long resource, void *limit)
{
	__asm__ volatile("" ::"r"(task), "r"(resource), "r"(limit) : "memory");
}

typedef void body(void *);
PROBED void arc_read(void *pio, void *spa, void *bp, void *done, body *does, long priority)
{
	does(pio);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

/* Block pointers: type and level are in the seventh word. */
static uint64_t data[16] = {[6] = 19ull << 48}, indirect[16] = {[6] = 1ull << 56 | 19ull << 48};
static void *const P1 = (void *)0xffff888012345680, *const P2 = (void *)0xffff88801234b6c0;
/* Its hash is that of no I/O at all. */
static void *const P0 = (void *)0xffff888012300000;

static void hit(void *pio) { trace_zfs_arc__hit(pio, 0); }
static void l2arc(void *pio) { zio_read_phys(pio, 0); }
static void disk(void *pio) { zio_read(pio, 0); }
static void l2arc_then_disk(void *pio) { zio_read_phys(pio, 0), zio_read(pio, 0); }

static void *reissue(void *pio) { return zio_read(pio, 0), (void *)0; }

/* What l2arc_read_done does after a failure, and what prefetch does, in another thread. */
static void elsewhere(void *pio)
{
	pthread_t thread;
	pthread_create(&thread, 0, reissue, pio);
	pthread_join(thread, 0);
}

static void tell(uint64_t phase)
{
	uint64_t value = 0x68737ull << 43 | phase << 32 | 10000;
	security_task_setrlimit(0, 14, &value);
}

static void mark(uint64_t phase) { tell(phase), usleep(60000); }

static uint64_t phases;
#define READ(bp, pio, does) arc_read(pio, 0, bp, 0, does, 0)
#define REQUEST(...) do { mark(++phases); nfsd_read_start(0, 0); __VA_ARGS__; nfsd_read_done(0, 0); mark(0); } while (0)

static void failed_reads(void)
{
	REQUEST(READ(data, P1, hit));                                           /* 1: 0 */
	REQUEST(READ(data, P1, l2arc));                                         /* 2: 2 */
	REQUEST(READ(data, P1, l2arc); elsewhere(P1));                          /* 3: 3, failed */
	REQUEST(READ(data, P1, l2arc));                                         /* 4: 2 */
	REQUEST(READ(data, P1, l2arc); elsewhere(P2));                          /* 5: 2, another's */
	elsewhere(P1);                                                          /* its address, after its end */
	REQUEST(READ(data, P2, l2arc));                                         /* 6: 2 */
	REQUEST(READ(data, P2, l2arc); elsewhere(P1));                          /* 7: 2, that of request 4 */
	REQUEST(READ(data, 0, l2arc_then_disk));                                /* 8: 3, waited for in arc_read */
	REQUEST(READ(data, 0, l2arc); elsewhere(0));                            /* 9: 2 */
	REQUEST(READ(data, P0, l2arc); elsewhere(0));                           /* 10: 2 */
	REQUEST(READ(indirect, P1, l2arc); elsewhere(P1));                      /* 11: 48, failed */
	REQUEST(READ(data, P1, l2arc); elsewhere(P1); READ(data, P1, l2arc));   /* 12: 3, the first failed */
	REQUEST(READ(data, P1, l2arc); READ(data, P1, l2arc); elsewhere(P1));   /* 13: 3, one failed */
	REQUEST(READ(data, P1, disk));                                          /* 14: 1 */
	REQUEST(READ(data, P1, disk); elsewhere(P1));                           /* 15: 1 */
	REQUEST(arc_read(P1, 0, data, 0, l2arc, 4); elsewhere(P1));             /* 16: 0, prefetch */
}

/* A request begins after the mark of the phase's end, on the thread of a request of the phase. */
static void after_the_mark(void)
{
	mark(1), usleep(300000), nfsd_read_start(0, 0), nfsd_read_done(0, 0);
	tell(0), nfsd_read_start(0, 0), nfsd_read_done(0, 0);
	usleep(300000);
}

/* Requests of many classes; the last one ends when `path` is there: while the last counts are printed. */
static void late(const char *path)
{
	uint64_t log_block[16] = {[6] = 9ull << 48};
	mark(1);
	for (uint64_t vdev = 1; vdev <= 400; vdev++) {
		log_block[0] = vdev << 32;
		nfsd_write_start(0, 0), zio_rewrite(0, 0, 0, log_block), nfsd_write_done(0, 0);
	}
	nfsd_write_start(0, 0), tell(0);
	while (access(path, F_OK)) usleep(1000);
	nfsd_write_done(0, 0);
	unlink(path);
	usleep(300000);
}

int main(int count, char **words)
{
	sleep(1);
	if (count == 1) failed_reads();
	else if (!strcmp(words[1], "after-the-mark")) after_the_mark();
	else late(words[1]);
	return 0;
}
