/*
 * Public interface of an emulated device: a function from (request, state) to a completion time.
 *
 * A model holds no data and has no clock of its own. All times are nanoseconds of the experiment
 * since the device was made; arrivals never decrease from call to call. The same spec and the same
 * sequence of calls give the same answers on every machine: randomness is seeded from the spec.
 */
#ifndef HSP_MODEL_H
#define HSP_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { HSP_SECTOR_BYTES = 512, HSP_TAGS = 64 };

enum hsp_op {
	HSP_READ,
	HSP_WRITE,
	HSP_FLUSH,
	HSP_DISCARD,
	HSP_WRITE_ZEROES,
};

struct hsp_request {
	uint64_t arrival_ns;
	uint64_t sector;  /* first sector of 512 bytes; 0 for a flush */
	uint32_t sectors; /* 0 for a flush */
	uint8_t op;       /* enum hsp_op */
	uint8_t fua;      /* the write counts as done only when it survives a power loss */
	uint8_t tag;      /* below HSP_TAGS; no other request with this tag waits for its answer */
	uint8_t pad;
};

struct hsp_answer {
	uint64_t done_ns; /* >= arrival_ns; HSP_NEVER: the device has failed and does not answer; HSP_LATER */
	int32_t error;    /* 0, or a positive errno such as EIO or ENODEV, reported at done_ns */
	int32_t pad;
};

#define HSP_NEVER UINT64_MAX
#define HSP_LATER (UINT64_MAX - 1) /* requests to come can change the answer: see hsp_device_collect */

enum {
	HSP_ROTATIONAL = 1,     /* as /sys/block/X/queue/rotational */
	HSP_VOLATILE_CACHE = 2, /* reports a volatile write cache: needs flushes */
	HSP_DISCARDS = 4,       /* supports discard */
};

struct hsp_device;

/*
 * Make a device of `sectors` sectors from its spec: lines of "key value" as kit/config/device_model.py
 * writes them. NULL and a message in `error` if the spec is invalid.
 */
struct hsp_device *hsp_device_new(const char *spec, uint64_t sectors, char *error, size_t error_size);
void hsp_device_free(struct hsp_device *device);

unsigned hsp_device_attributes(const struct hsp_device *device);

/* Process a request; the answer has its completion time. The state advances to its arrival. */
struct hsp_answer hsp_device_submit(struct hsp_device *device, const struct hsp_request *request);

/*
 * Answers that are given later: of a disk that chooses the order of its requests, and of reads over
 * a bus. `next_ns`: when one is decided next, or HSP_NEVER. `collect` takes one that is decided by
 * `now_ns`, with its tag; 0 if there is none. After each submit, and at `next_ns`, collect them all.
 */
uint64_t hsp_device_next_ns(const struct hsp_device *device);
int hsp_device_collect(struct hsp_device *device, uint64_t now_ns, uint8_t *tag, struct hsp_answer *answer);

/*
 * A bus that several devices share, such as a host bus adapter: one transfer at a time, in the order
 * in which they are ready. A request takes `command_ns` and the time of its data. A device joins the
 * bus when it is new, and leaves it when it is freed. NULL, or -1: no memory, a rate of 0 or above
 * 16 GB/s, or more than HSP_BUS_DEVICES.
 */
struct hsp_bus;
enum { HSP_BUS_DEVICES = 64 };
struct hsp_bus *hsp_bus_new(uint64_t bytes_per_s, uint64_t command_ns);
void hsp_bus_free(struct hsp_bus *bus);
int hsp_device_join(struct hsp_device *device, struct hsp_bus *bus);

/*
 * Move a request over the bus to the device: arrival_ns becomes the time when it has come there. To
 * call before hsp_device_submit, and before its sectors are looked at; without a bus nothing changes.
 */
void hsp_device_deliver(struct hsp_device *device, struct hsp_request *request);

/*
 * Whether a power loss at `now_ns` would lose the newest content of the sector. The server keeps
 * the content from before the first write that is not yet durable, and restores it.
 */
int hsp_device_is_volatile(struct hsp_device *device, uint64_t now_ns, uint64_t sector);

/* Power loss and power on: volatile content is lost, nothing is busy any more. */
void hsp_device_power_loss(struct hsp_device *device, uint64_t now_ns);

/*
 * Switch the volatile write cache; off: what is in it is written out first, and the answer is when that is done. -1 for
 * a device without one. The kernel is not told: it goes on to flush. `is_on`: 1, 0, or -1 for a device without one.
 */
int hsp_device_set_write_cache(struct hsp_device *device, uint64_t now_ns, int on, uint64_t *done_ns);
int hsp_device_write_cache_is_on(const struct hsp_device *device);

/*
 * Inject a fault from now on: "stall NS" (no answers for that long), "fail" (the device fails
 * permanently), "error FIRST COUNT read|write|any" (EIO in that range of sectors), "heal" (remove
 * error ranges and failure). -1 and a message in `error` for an unknown or invalid fault.
 */
int hsp_device_fault(struct hsp_device *device, uint64_t now_ns, const char *fault, char *error,
		     size_t error_size);

/*
 * A counter by name, 0 if the model does not have it: host_bytes_read, host_bytes_written,
 * flushes, discards, flash_pages_read, flash_pages_programmed, gc_pages_copied, blocks_erased,
 * seeks, cache_hits, ... `names` lists all counters of a device, separated by spaces.
 */
uint64_t hsp_device_counter(const struct hsp_device *device, const char *name);
const char *hsp_device_counter_names(const struct hsp_device *device);

/*
 * Save and load the state of a device, to keep an aged one. `save` returns the size of the state
 * and writes at most `size` bytes. `load` needs a new device of the same spec and size; otherwise
 * it returns -1 and a message. Volatile content is not saved; nothing is busy after a load.
 */
size_t hsp_device_save(struct hsp_device *device, uint64_t now_ns, void *bytes, size_t size);
int hsp_device_load(struct hsp_device *device, const void *bytes, size_t size, char *error, size_t error_size);

/*
 * Submit `count` requests in order. With `closed_loop` each arrives `think_ns` after the answer to
 * the previous one (arrival_ns is written to the request), otherwise at its own arrival_ns; the tags
 * are written. For tests and benchmarks that call from another language.
 */
void hsp_device_submit_many(struct hsp_device *device, struct hsp_request *requests,
			    struct hsp_answer *answers, size_t count, int closed_loop, uint64_t think_ns);

#endif
