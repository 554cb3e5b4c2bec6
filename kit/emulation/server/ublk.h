/* The ublk driver (Linux >= 6.0, Documentation/block/ublk.rst): a block device answered by this process. */
#ifndef HSP_UBLK_H
#define HSP_UBLK_H

#include <liburing.h>
#include <linux/ublk_cmd.h>
#include <stdint.h>

enum {
	UBLK_DEPTH = 64,
	UBLK_BUFFER_BYTES = 512 << 10,
};

struct ublk {
	uint32_t id; /* /dev/ublkb<id>, /dev/ublkc<id> */
	int file;    /* of /dev/ublkc<id> */
	int encoded; /* the driver wants its commands as ioctl numbers (Linux >= 6.4) */
	const struct ublksrv_io_desc *requests;
	unsigned char *buffers[UBLK_DEPTH];
};

struct ublk_shape {
	uint64_t sectors;
	int rotational, volatile_cache, discards;
};

/* All return 0 or a negative errno. `control` is /dev/ublk-control, `ring` one with 128-byte entries. */
int ublk_add(struct ublk *device, int control, struct io_uring *ring, const struct ublk_shape *shape);
/* Take over a device whose server has died: `id` and `encoded` are known. */
int ublk_recover(struct ublk *device, int control, struct io_uring *ring);
int ublk_delete(struct ublk *device, int control, struct io_uring *ring);

/*
 * Put on the ring: the question for a first request, for each tag; then the command that makes
 * /dev/ublkb<id> appear, or one that is recovered go on.
 */
void ublk_start(struct ublk *device, int control, struct io_uring *ring, int recovered, uint64_t user_data);
void ublk_fetch(struct ublk *device, struct io_uring *ring, uint16_t tag, uint64_t user_data);
/* Answer a request (bytes done, or a negative errno) and ask for the next one with this tag. */
void ublk_commit(struct ublk *device, struct io_uring *ring, uint16_t tag, int32_t result, uint64_t user_data);

/* A free entry; what was queued is submitted if the ring is full. */
struct io_uring_sqe *ublk_entry(struct io_uring *ring);

#endif
