/*
 * What an emulated device is to the one who serves it: a function from (request, state) to a time.
 *
 * A model holds no data and knows no clock of its own. All times are nanoseconds of the
 * experiment since the device was made; arrivals never decrease from call to call. A given spec
 * and a given sequence of calls give the same answers everywhere: randomness is seeded from the spec.
 */
#ifndef HSP_MODEL_H
#define HSP_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { HSP_SECTOR_BYTES = 512 };

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
	uint8_t pad[2];
};

struct hsp_answer {
	uint64_t done_ns; /* >= arrival_ns; HSP_NEVER: the device is gone and does not answer in time */
	int32_t error;    /* 0, or an errno such as EIO or ENODEV (positive), told at done_ns */
	int32_t pad;
};

#define HSP_NEVER UINT64_MAX

enum {
	HSP_ROTATIONAL = 1,     /* as /sys/block/X/queue/rotational */
	HSP_VOLATILE_CACHE = 2, /* says that it has a cache which needs flushes */
	HSP_DISCARDS = 4,       /* discard is of use */
};

struct hsp_device;

/*
 * A device of `sectors` sectors from its spec, lines of "key value" as kit/config/device_model.py
 * writes them. NULL and a sentence in `error` if the spec is not one.
 */
struct hsp_device *hsp_device_new(const char *spec, uint64_t sectors, char *error, size_t error_size);
void hsp_device_free(struct hsp_device *device);

unsigned hsp_device_attributes(const struct hsp_device *device);

/* When the request is done. The state moves on to its arrival. */
struct hsp_answer hsp_device_submit(struct hsp_device *device, const struct hsp_request *request);

/*
 * Whether a power loss at `now_ns` would lose what was last written to the sector. The server
 * keeps the content from before the first write that is not yet safe, and puts it back.
 */
int hsp_device_is_volatile(struct hsp_device *device, uint64_t now_ns, uint64_t sector);

/* The power goes and comes back: what was volatile is forgotten, nothing is busy any more. */
void hsp_device_power_loss(struct hsp_device *device, uint64_t now_ns);

/*
 * A fault from now on, in words: "stall NS" (nothing is answered for that long), "fail" (the
 * device is gone for good), "error FIRST COUNT read|write|any" (EIO in that range of sectors),
 * "heal" (no error ranges, not gone). -1 and a sentence in `error` if it is none of them.
 */
int hsp_device_fault(struct hsp_device *device, uint64_t now_ns, const char *fault, char *error,
		     size_t error_size);

/*
 * A counter by name, 0 if the model does not have it: host_bytes_read, host_bytes_written,
 * flushes, discards, flash_pages_read, flash_pages_programmed, gc_pages_copied, blocks_erased,
 * seeks, cache_hits, ... `names` gives all of a device, separated by blanks.
 */
uint64_t hsp_device_counter(const struct hsp_device *device, const char *name);
const char *hsp_device_counter_names(const struct hsp_device *device);

/* Bytes of memory that the model takes. */
uint64_t hsp_device_memory(const struct hsp_device *device);

/*
 * The state as bytes, so that an aged device can be kept. `save` returns the size and writes no
 * more than `size` bytes; `load` is for a device made from the same spec and size, and returns -1
 * and a sentence otherwise. What was volatile is not part of it, and nothing is busy after it.
 */
size_t hsp_device_save(struct hsp_device *device, uint64_t now_ns, void *bytes, size_t size);
int hsp_device_load(struct hsp_device *device, const void *bytes, size_t size, char *error, size_t error_size);

/*
 * `count` requests one after the other. With `closed_loop` each arrives `think_ns` after the
 * answer to the one before (arrival_ns is written to the request), otherwise at its own
 * arrival_ns. For tests and benchmarks that call from another language.
 */
void hsp_device_submit_many(struct hsp_device *device, struct hsp_request *requests,
			    struct hsp_answer *answers, size_t count, int closed_loop, uint64_t think_ns);

#endif
