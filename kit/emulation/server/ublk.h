/* Block devices in userspace with the ublk driver (Linux >= 6.0, Documentation/block/ublk.rst). */
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
	int encoded; /* commands are encoded as ioctl numbers (Linux >= 6.4) */
	const struct ublksrv_io_desc *requests;
	unsigned char *buffers[UBLK_DEPTH];
};

struct ublk_shape {
	uint64_t sectors;
	int rotational, volatile_cache, discards;
};

/* All return 0 or a negative errno. `control` is /dev/ublk-control; `ring` has 128-byte entries. */
int ublk_add(struct ublk *device, int control, struct io_uring *ring, const struct ublk_shape *shape);
/* Take over a device whose server has died: `id` and `encoded` are known. */
int ublk_recover(struct ublk *device, int control, struct io_uring *ring);
int ublk_delete(struct ublk *device, int control, struct io_uring *ring);

/*
 * Queue on the ring: ublk_fetch for the first request of each tag; then ublk_start, which makes
 * /dev/ublkb<id> appear or resumes a recovered device.
 */
void ublk_start(struct ublk *device, int control, struct io_uring *ring, int recovered, uint64_t user_data);
void ublk_fetch(struct ublk *device, struct io_uring *ring, uint16_t tag, uint64_t user_data);
/* Complete a request (bytes done, or a negative errno) and fetch the next one of this tag. */
void ublk_commit(struct ublk *device, struct io_uring *ring, uint16_t tag, int32_t result, uint64_t user_data);

/* Get a free entry; submits the queued ones if the ring is full. */
struct io_uring_sqe *ublk_entry(struct io_uring *ring);

#endif
