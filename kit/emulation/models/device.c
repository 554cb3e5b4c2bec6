/* The public device (model.h): a model, its faults, and the checks common to all models. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "faults.h"
#include "impl.h"
#include "serialize.h"

/* "HSPDEV" and the version of the layout. */
static const uint64_t MAGIC = UINT64_C(0x0001564544505348);

/* 73 years; leaves room for the time that is added to an arrival. */
static const uint64_t LAST_ARRIVAL_NS = UINT64_C(1) << 61;
static const uint64_t MAX_SECTORS = UINT64_C(1) << 40;

static const char *const NAMES[HSP_COUNTS] = {
	[HSP_BYTES_READ] = "host_bytes_read",
	[HSP_BYTES_WRITTEN] = "host_bytes_written",
	[HSP_FLUSHES] = "flushes",
	[HSP_DISCARDED] = "discards",
	[HSP_CACHE_HITS] = "cache_hits",
	[HSP_CACHE_WAITS] = "cache_waits",
	[HSP_SEEKS] = "seeks",
	[HSP_SECTORS_DESTAGED] = "sectors_destaged",
	[HSP_ROTATION_NS] = "rotation_ns",
	[HSP_PAGES_READ] = "flash_pages_read",
	[HSP_PAGES_PROGRAMMED] = "flash_pages_programmed",
	[HSP_PAGES_COPIED] = "gc_pages_copied",
	[HSP_BLOCKS_ERASED] = "blocks_erased",
	[HSP_PAGES_MAPPED] = "flash_pages_mapped",
	[HSP_PAGES_BUFFERED] = "pages_buffered",
};

/* Of a model that throttles alone, and not saved. */
static const char TRANSITIONS[] = "thermal_transitions", THROTTLED[] = "thermal_throttled_ns";

/* A request without an answer yet: the model decides later, or its data waits for the bus; or the answer. */
struct later {
	enum { NO_REQUEST, AT_MODEL, AT_BUS, ANSWERED, PLACES } where;
	uint64_t done_ns; /* at the bus: its data is ready */
	uint64_t data_bytes; /* to move over the bus when they are read */
	int32_t error;
};

struct hsp_device {
	struct hsp_model *model;
	struct hsp_bus *bus; /* or NULL */
	struct later later[HSP_TAGS];
	unsigned count[PLACES]; /* of the later answers that are known, by place */
	struct hsp_faults faults;
	uint64_t last_ns; /* newest time seen: time never decreases */
	uint64_t spec_digest;
	int is_write_cache_off; /* switched off since the device was made */
	char names[1024];
};

/* GNU ld and lld name the ends of a section so (ld manual, "Input Section Example"). */
extern const struct hsp_model_kind *const __start_hsp_model_kinds[];
extern const struct hsp_model_kind *const __stop_hsp_model_kinds[];

struct hsp_model *hsp_model_new(struct hsp_spec *spec, uint64_t sectors)
{
	const struct hsp_model_kind *const *kind = __start_hsp_model_kinds;
	const char *names[16] = { NULL };
	unsigned which;

	for (unsigned i = 0; i < 15 && kind + i < __stop_hsp_model_kinds; i++)
		names[i] = kind[i]->name;
	which = hsp_spec_word(spec, "model", names);
	return spec->failed ? NULL : kind[which]->make(spec, sectors);
}

static void list_names(struct hsp_device *device)
{
	size_t length = 0;

	for (unsigned i = 0; i < HSP_COUNTS; i++)
		length += (size_t)snprintf(device->names + length, sizeof(device->names) - length, "%s%s",
					   i ? " " : "", NAMES[i]);
	if (device->model->heat.after_bytes)
		snprintf(device->names + length, sizeof(device->names) - length, " %s %s", TRANSITIONS, THROTTLED);
}

struct hsp_device *hsp_device_new(const char *text, uint64_t sectors, char *error, size_t error_size)
{
	struct hsp_device *device = calloc(1, sizeof(*device));
	struct hsp_spec *spec = malloc(sizeof(*spec));

	if (!device || !spec) {
		if (error && error_size)
			snprintf(error, error_size, "no memory for a device");
		free(device);
		free(spec);
		return NULL;
	}
	if (!hsp_spec_parse(spec, text, error, error_size)) {
		if (!sectors || sectors > MAX_SECTORS)
			hsp_spec_fail(spec, "a device has 1 to 2^40 sectors");
		else
			device->model = hsp_model_new(spec, sectors);
		if (hsp_spec_finish(spec) && device->model) {
			device->model->ops->free(device->model);
			device->model = NULL;
		}
	}
	free(spec);
	if (!device->model) {
		free(device);
		return NULL;
	}
	device->spec_digest = hsp_state_digest(text, strlen(text));
	list_names(device);
	return device;
}

void hsp_device_free(struct hsp_device *device)
{
	if (!device)
		return;
	if (device->bus)
		hsp_bus_remove(device->bus, device);
	device->model->ops->free(device->model);
	free(device);
}

int hsp_device_join(struct hsp_device *device, struct hsp_bus *bus)
{
	if (device->bus || hsp_bus_add(bus, device))
		return -1;
	device->bus = bus;
	return 0;
}

unsigned hsp_device_attributes(const struct hsp_device *device)
{
	return device->model->attributes;
}

static uint64_t advance_time(struct hsp_device *device, uint64_t now_ns)
{
	device->last_ns = hsp_later(device->last_ns, now_ns < LAST_ARRIVAL_NS ? now_ns : LAST_ARRIVAL_NS);
	return device->last_ns;
}

static struct hsp_answer answer_of(uint64_t now_ns, int error)
{
	return (struct hsp_answer){ .done_ns = now_ns, .error = error };
}

static void count_request(struct hsp_device *device, const struct hsp_request *request)
{
	uint64_t *of = device->model->counts.of, bytes = (uint64_t)request->sectors * HSP_SECTOR_BYTES;

	switch (request->op) {
	case HSP_READ:
		of[HSP_BYTES_READ] += bytes;
		break;
	case HSP_WRITE:
		of[HSP_BYTES_WRITTEN] += bytes;
		break;
	case HSP_FLUSH:
		of[HSP_FLUSHES]++;
		break;
	case HSP_DISCARD:
		of[HSP_DISCARDED]++;
		break;
	}
}

/* --- Answers that are given later ------------------------------------------------------------ */

/* The device of which something is known next, its own model's decision or the data of its reads. */
static uint64_t next_event_ns(const struct hsp_device *device, unsigned *data_tag)
{
	const struct hsp_model *model = device->model;
	uint64_t first_ns = model->ops->next_ns ? model->ops->next_ns(model) : HSP_NEVER;

	*data_tag = HSP_TAGS;
	for (unsigned tag = 0; device->count[AT_BUS] && tag < HSP_TAGS; tag++)
		if (device->later[tag].where == AT_BUS && device->later[tag].done_ns < first_ns) {
			first_ns = device->later[tag].done_ns;
			*data_tag = tag;
		}
	return first_ns;
}

/* A request is done at the device: its data moves over the bus when it is there, or it is answered. */
static void done_at_device(struct hsp_device *device, uint8_t tag, uint64_t done_ns)
{
	struct later *later = &device->later[tag];

	later->done_ns = hsp_later(done_ns, device->faults.stalled_until_ns);
	later->where = device->bus && later->data_bytes && !later->error ? AT_BUS : ANSWERED;
	device->count[later->where]++;
}

static void take_event(struct hsp_device *device, uint64_t at_ns, unsigned data_tag)
{
	struct later *later = &device->later[data_tag % HSP_TAGS];
	uint64_t done_ns;
	uint8_t tag;

	if (data_tag == HSP_TAGS) {
		while (device->model->ops->collect(device->model, at_ns, &tag, &done_ns))
			done_at_device(device, tag, done_ns);
		return;
	}
	later->done_ns = hsp_bus_take(device->bus, later->done_ns, 0, later->data_bytes);
	later->where = ANSWERED;
	device->count[AT_BUS]--;
	device->count[ANSWERED]++;
}

/* What is decided before now_ns, at all devices of the bus in the order of time. */
static void advance_answers(struct hsp_device *device, uint64_t now_ns)
{
	struct hsp_device *const *devices = device->bus ? device->bus->devices : &device;
	unsigned count = device->bus ? device->bus->count : 1, data_tag, first_tag;

	for (;;) {
		struct hsp_device *first = NULL;
		uint64_t first_ns = now_ns;

		for (unsigned i = 0; i < count; i++) {
			uint64_t event_ns = next_event_ns(devices[i], &data_tag);

			if (event_ns < first_ns) {
				first = devices[i];
				first_ns = event_ns;
				first_tag = data_tag;
			}
		}
		if (!first)
			return;
		take_event(first, first_ns, first_tag);
	}
}

uint64_t hsp_device_next_ns(const struct hsp_device *device)
{
	unsigned data_tag;

	return device->count[ANSWERED] ? 0 : next_event_ns(device, &data_tag);
}

int hsp_device_collect(struct hsp_device *device, uint64_t now_ns, uint8_t *tag, struct hsp_answer *answer)
{
	struct later *later = device->later;

	now_ns = advance_time(device, now_ns);
	advance_answers(device, now_ns + 1);
	if (!device->count[ANSWERED])
		return 0;
	while (later->where != ANSWERED)
		later++;
	*tag = (uint8_t)(later - device->later);
	*answer = device->faults.is_gone ? answer_of(HSP_NEVER, ENODEV) : answer_of(later->done_ns, later->error);
	later->where = NO_REQUEST;
	device->count[ANSWERED]--;
	return 1;
}

void hsp_device_deliver(struct hsp_device *device, struct hsp_request *request)
{
	uint64_t bytes = request->op == HSP_WRITE ? (uint64_t)request->sectors * HSP_SECTOR_BYTES : 0;

	if (!device->bus || request->arrival_ns >= LAST_ARRIVAL_NS)
		return;
	advance_answers(device, request->arrival_ns);
	request->arrival_ns = hsp_bus_take(device->bus, request->arrival_ns, device->bus->command_ns, bytes);
}

/* The answer of the model, or HSP_LATER: then it is collected. */
static uint64_t submit_to_model(struct hsp_device *device, const struct hsp_request *request, int32_t error)
{
	uint64_t done_ns = device->model->ops->submit(device->model, request);
	struct later later = { .where = AT_MODEL, .error = error };

	if (request->op == HSP_READ)
		later.data_bytes = (uint64_t)request->sectors * HSP_SECTOR_BYTES;
	if (done_ns != HSP_LATER && (!device->bus || !later.data_bytes || error))
		return hsp_later(done_ns, device->faults.stalled_until_ns);
	device->later[request->tag] = later;
	if (done_ns != HSP_LATER)
		done_at_device(device, request->tag, done_ns);
	return HSP_LATER;
}

struct hsp_answer hsp_device_submit(struct hsp_device *device, const struct hsp_request *original)
{
	struct hsp_request request = *original;
	struct hsp_answer answer = { 0 };

	if (original->arrival_ns >= LAST_ARRIVAL_NS)
		return answer_of(original->arrival_ns, EINVAL);
	request.arrival_ns = advance_time(device, original->arrival_ns);
	if (device->faults.is_gone)
		return answer_of(HSP_NEVER, ENODEV);
	if (request.op > HSP_WRITE_ZEROES)
		return answer_of(request.arrival_ns, EOPNOTSUPP);
	if (request.op == HSP_FLUSH)
		request.sector = request.sectors = 0;
	else if (request.sector > device->model->sectors ||
		 request.sectors > device->model->sectors - request.sector)
		return answer_of(request.arrival_ns, EIO);
	else if (!request.sectors)
		return answer_of(request.arrival_ns, 0);
	if (request.tag >= HSP_TAGS || (request.op != HSP_FLUSH && device->later[request.tag].where != NO_REQUEST))
		return answer_of(request.arrival_ns, EBUSY);
	answer.error = hsp_faults_error(&device->faults, &request);
	if (answer.error && request.op != HSP_READ) {
		/* A failed write changes nothing and takes as long as a read of the same sectors. */
		request.op = HSP_READ;
	}
	if (!answer.error)
		count_request(device, &request);
	answer.done_ns = submit_to_model(device, &request, answer.error);
	if (answer.done_ns == HSP_LATER)
		answer.error = 0;
	return answer;
}

int hsp_device_is_volatile(struct hsp_device *device, uint64_t now_ns, uint64_t sector)
{
	if (sector >= device->model->sectors)
		return 0;
	return device->model->ops->is_volatile(device->model, advance_time(device, now_ns), sector);
}

void hsp_device_power_loss(struct hsp_device *device, uint64_t now_ns)
{
	device->model->ops->power_loss(device->model, advance_time(device, now_ns));
	device->faults.stalled_until_ns = 0;
	memset(device->later, 0, sizeof(device->later));
	memset(device->count, 0, sizeof(device->count));
}

int hsp_device_write_cache_is_on(const struct hsp_device *device)
{
	return device->model->attributes & HSP_VOLATILE_CACHE ? !device->is_write_cache_off : -1;
}

int hsp_device_set_write_cache(struct hsp_device *device, uint64_t now_ns, int on, uint64_t *done_ns)
{
	struct hsp_request flush = { .arrival_ns = advance_time(device, now_ns), .op = HSP_FLUSH };

	*done_ns = flush.arrival_ns;
	if (hsp_device_write_cache_is_on(device) < 0)
		return -1;
	device->model->ops->write_cache(device->model, on);
	if (!on && !device->is_write_cache_off)
		*done_ns = device->model->ops->submit(device->model, &flush);
	device->is_write_cache_off = !on;
	return 0;
}

int hsp_device_fault(struct hsp_device *device, uint64_t now_ns, const char *fault, char *error,
		     size_t error_size)
{
	return hsp_faults_add(&device->faults, advance_time(device, now_ns), device->model->sectors, fault, error,
			      error_size);
}

static uint64_t count_of(const struct hsp_model *model, unsigned which)
{
	const struct hsp_counts *inner = model->ops->inner ? model->ops->inner(model) : NULL;
	/* Host counters are those of the outer device; the others are the sum of both. */
	int is_of_host = which <= HSP_DISCARDED;

	return model->counts.of[which] + (inner && !is_of_host ? inner->of[which] : 0);
}

uint64_t hsp_device_counter(const struct hsp_device *device, const char *name)
{
	const struct hsp_heat *heat = &device->model->heat;

	if (!strcmp(name, TRANSITIONS))
		return heat->transitions;
	if (!strcmp(name, THROTTLED))
		return heat->throttled_ns;
	for (unsigned i = 0; i < HSP_COUNTS; i++)
		if (!strcmp(NAMES[i], name))
			return count_of(device->model, i);
	return 0;
}

const char *hsp_device_counter_names(const struct hsp_device *device)
{
	return device->names;
}

/* Header of a saved state: magic, digest of the spec, sectors, digest of the payload. */
enum { HEAD_BYTES = 32 };

size_t hsp_device_save(struct hsp_device *device, uint64_t now_ns, void *bytes, size_t size)
{
	struct hsp_state state = { .to = bytes, .size = bytes ? size : 0, .at = HEAD_BYTES };
	size_t end;

	for (unsigned i = 0; i < HSP_COUNTS; i++)
		hsp_state_put(&state, device->model->counts.of[i], 8);
	device->model->ops->save(device->model, advance_time(device, now_ns), &state);
	end = state.at;
	if (!bytes || size < end)
		return end;
	state.at = 0;
	hsp_state_put(&state, MAGIC, 8);
	hsp_state_put(&state, device->spec_digest, 8);
	hsp_state_put(&state, device->model->sectors, 8);
	hsp_state_put(&state, hsp_state_digest((uint8_t *)bytes + HEAD_BYTES, end - HEAD_BYTES), 8);
	return end;
}

static int state_error(char *error, size_t error_size, const char *why)
{
	if (error && error_size)
		snprintf(error, error_size, "the saved state %s", why);
	return -1;
}

int hsp_device_load(struct hsp_device *device, const void *bytes, size_t size, char *error, size_t error_size)
{
	struct hsp_state state = { .from = bytes, .size = size };

	if (size < HEAD_BYTES || hsp_state_get(&state, 8) != MAGIC)
		return state_error(error, error_size, "is not a state of an emulated device");
	if (hsp_state_get(&state, 8) != device->spec_digest)
		return state_error(error, error_size, "is of a device with different parameters");
	if (hsp_state_get(&state, 8) != device->model->sectors)
		return state_error(error, error_size, "is of a device with a different size");
	if (hsp_state_get(&state, 8) != hsp_state_digest((const uint8_t *)bytes + HEAD_BYTES, size - HEAD_BYTES))
		return state_error(error, error_size, "is damaged");
	if (device->last_ns)
		return state_error(error, error_size, "can be loaded into a new device only");
	for (unsigned i = 0; i < HSP_COUNTS; i++)
		device->model->counts.of[i] = hsp_state_get(&state, 8);
	device->model->ops->load(device->model, &state);
	if (state.failed || state.at != size)
		return state_error(error, error_size, "is damaged; the device must not be used");
	return 0;
}

/* Collect what is decided by now_ns; `answers` has the place for the request with each tag, or NULL. */
static void collect_many(struct hsp_device *device, uint64_t now_ns, struct hsp_answer *const *answers)
{
	struct hsp_answer answer;
	uint8_t tag;

	while (hsp_device_next_ns(device) <= now_ns)
		while (hsp_device_collect(device, now_ns, &tag, &answer))
			if (answers[tag])
				*answers[tag] = answer;
}

void hsp_device_submit_many(struct hsp_device *device, struct hsp_request *requests,
			    struct hsp_answer *answers, size_t count, int closed_loop, uint64_t think_ns)
{
	uint64_t arrival_ns = count ? requests[0].arrival_ns : 0;
	struct hsp_answer *of[HSP_TAGS] = { NULL };

	for (size_t i = 0; i < count; i++) {
		uint8_t tag = 0;

		if (closed_loop)
			requests[i].arrival_ns = arrival_ns;
		collect_many(device, requests[i].arrival_ns, of);
		while (tag < HSP_TAGS - 1 && device->later[tag].where != NO_REQUEST)
			tag++;
		requests[i].tag = tag;
		of[tag] = &answers[i];
		answers[i] = hsp_device_submit(device, &requests[i]);
		while (closed_loop && answers[i].done_ns == HSP_LATER)
			collect_many(device, hsp_device_next_ns(device), of);
		if (answers[i].done_ns != HSP_NEVER)
			arrival_ns = answers[i].done_ns + think_ns;
	}
	while (hsp_device_next_ns(device) != HSP_NEVER)
		collect_many(device, hsp_device_next_ns(device), of);
}
