/* Interface between device.c and the models (disk, SSD, controller), and the counters they share. */
#ifndef HSP_IMPL_H
#define HSP_IMPL_H

#include "model.h"
#include "spec.h"
#include "serialize.h"

enum hsp_count {
	HSP_BYTES_READ,
	HSP_BYTES_WRITTEN,
	HSP_FLUSHES,
	HSP_DISCARDED,
	HSP_CACHE_HITS,
	HSP_CACHE_WAITS,
	HSP_SEEKS,
	HSP_SECTORS_DESTAGED,
	HSP_ROTATION_NS,
	HSP_PAGES_READ,
	HSP_PAGES_PROGRAMMED,
	HSP_PAGES_COPIED,
	HSP_BLOCKS_ERASED,
	HSP_PAGES_MAPPED,
	HSP_PAGES_BUFFERED,
	HSP_COUNTS
};

struct hsp_counts {
	uint64_t of[HSP_COUNTS];
};

/*
 * Of a model that throttles (after_bytes is not 0): after so much data without a pause of cool_ns it is slower. The
 * counters are not part of a saved state: each device begins cool.
 */
struct hsp_heat {
	uint64_t after_bytes, cool_ns, factor;
	uint64_t bytes, quiet_ns, last_ns; /* since the last pause; when the last answer is due; last arrival */
	uint64_t transitions, throttled_ns;
};

/*
 * A model. device.c checks every request first: arrivals never decrease, the operation is known,
 * the sectors are inside the device.
 */
struct hsp_model {
	const struct hsp_model_ops *ops;
	struct hsp_counts counts;
	struct hsp_heat heat;
	uint64_t sectors;
	unsigned attributes;
};

struct hsp_model_ops {
	/* Completion time, ns. HSP_LATER only with next_ns and collect, and never for a flush. */
	uint64_t (*submit)(struct hsp_model *model, const struct hsp_request *request);
	/* As hsp_device_next_ns and hsp_device_collect; NULL: the model knows every answer at once. */
	uint64_t (*next_ns)(const struct hsp_model *model);
	int (*collect)(struct hsp_model *model, uint64_t now_ns, uint8_t *tag, uint64_t *done_ns);
	int (*is_volatile)(struct hsp_model *model, uint64_t now_ns, uint64_t sector);
	void (*power_loss)(struct hsp_model *model, uint64_t now_ns); /* nothing is volatile or busy afterwards */
	/* Save the state that a power loss at now_ns would leave; load it into a new model, whose time starts at 0. */
	void (*save)(struct hsp_model *model, uint64_t now_ns, struct hsp_state *state);
	void (*load)(struct hsp_model *model, struct hsp_state *state);
	/* Of a model with a volatile cache: whether it keeps writes from now on. What it holds stays, until a flush. */
	void (*write_cache)(struct hsp_model *model, int on);
	const struct hsp_counts *(*inner)(const struct hsp_model *model); /* of the backing device, or NULL */
	void (*free)(struct hsp_model *model);
};

/* NULL and a failed spec if the spec is invalid. */
struct hsp_model *hsp_model_new(struct hsp_spec *spec, uint64_t sectors);

struct hsp_model_kind {
	const char *name; /* `model` in a spec */
	struct hsp_model *(*make)(struct hsp_spec *spec, uint64_t sectors); /* as hsp_model_new */
};

/* In the file of a model: the linker collects the kinds, and device.c finds them by name. */
#define HSP_MODEL_KIND(NAME, MAKE)                                                      \
	static const struct hsp_model_kind hsp_kind = { NAME, MAKE };                    \
	static const struct hsp_model_kind *const hsp_kind_entry                         \
		__attribute__((used, section("hsp_model_kinds"))) = &hsp_kind

/* Highest rate for which hsp_transfer_ns does not overflow. */
#define HSP_MAX_BYTES_PER_S UINT64_C(16000000000)

static inline uint64_t hsp_later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/* Transfer time of `bytes` at a rate, rounded up. Bytes are at most 2^41, so nothing overflows. */
static inline uint64_t hsp_transfer_ns(uint64_t bytes, uint64_t bytes_per_s)
{
	return bytes / bytes_per_s * 1000000000u + (bytes % bytes_per_s * 1000000000u + bytes_per_s - 1) / bytes_per_s;
}

#endif
