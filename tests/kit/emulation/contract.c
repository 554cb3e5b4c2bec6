/*
 * Random requests to a device, and what a server may rely on: contract SPEC SECTORS PAGE_SECTORS SEED COUNT BUS
 *
 * BUS: bytes a second of a bus that the device is on, or 0.
 *
 * The driver keeps content as the server does, a version number a sector and one older version to
 * go back to. After each power loss every sector holds a version that is no older than the newest
 * one that was acknowledged as safe. It ends with 0, or says what is broken and ends with 1.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define CHECK(condition, ...)                                                                                \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			printf("broken after %zu requests: ", asked);                                        \
			printf(__VA_ARGS__);                                                                 \
			printf("\n");                                                                        \
			exit(1);                                                                             \
		}                                                                                            \
	} while (0)

enum { PENDING = 4096, PROBES = 32 };

/* A write, or a flush (which covers all that was acknowledged when it came). */
struct pending {
	uint64_t arrival_ns, done_ns;
	uint64_t sector;
	uint32_t sectors, version;
	int op, fua;
	uint8_t tag;
};

static struct hsp_device *device;
static struct hsp_bus *bus;
static uint64_t sectors, page_sectors, now_ns, random_state;
static uint32_t *content, *undo, *floor_version, *forgotten, next_version = 1;
static uint8_t *has_undo;
static struct pending pending[PENDING];
static size_t pending_count, asked, losses, lost_sectors, later;
static uint8_t waits[HSP_TAGS]; /* a request with this tag is answered later */
static int lies, needs_flush, may_lose;
static char spec[16384];

static uint64_t draw(uint64_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % bound;
}

static void raise_floor(const struct pending *write)
{
	for (uint32_t i = 0; i < write->sectors; i++)
		if (floor_version[write->sector + i] < write->version)
			floor_version[write->sector + i] = write->version;
}

/* What is promised by now. A flush covers writes whose answer came before it. */
static void collect_promises(void)
{
	for (size_t i = 0; i < pending_count; i++) {
		const struct pending *one = &pending[i];

		if (one->done_ns > now_ns)
			continue;
		if (one->op != HSP_FLUSH && (one->fua || !needs_flush))
			raise_floor(one);
		if (one->op == HSP_FLUSH)
			for (size_t j = 0; j < i; j++)
				if (pending[j].op != HSP_FLUSH && pending[j].done_ns <= one->arrival_ns)
					raise_floor(&pending[j]);
	}
}

/* Makes room by dropping what no later flush needs: floors are up to date. */
static void settle_pending(void)
{
	uint64_t flushed_ns = 0;
	size_t kept = 0;

	collect_promises();
	for (size_t i = 0; i < pending_count; i++)
		if (pending[i].op == HSP_FLUSH && pending[i].done_ns <= now_ns && pending[i].arrival_ns > flushed_ns)
			flushed_ns = pending[i].arrival_ns;
	for (size_t i = 0; i < pending_count; i++)
		if (pending[i].done_ns > now_ns || (pending[i].op != HSP_FLUSH && pending[i].done_ns > flushed_ns))
			pending[kept++] = pending[i];
	pending_count = kept;
}

/* Take the answers that are decided by now. */
static void collect(void)
{
	struct hsp_answer answer;
	uint8_t tag;

	while (hsp_device_collect(device, now_ns, &tag, &answer)) {
		CHECK(tag < HSP_TAGS && waits[tag], "an answer to no request, tag %u", tag);
		CHECK(!answer.error && answer.done_ns < now_ns + UINT64_C(3600000000000), "tag %u: %d, done %" PRIu64, tag,
		      answer.error, answer.done_ns);
		waits[tag] = 0;
		for (size_t i = 0; i < pending_count; i++)
			if (pending[i].done_ns == HSP_LATER && pending[i].tag == tag) {
				CHECK(answer.done_ns >= pending[i].arrival_ns, "done before it came");
				pending[i].done_ns = answer.done_ns;
			}
	}
}

/* Let time go on to the next answer that is decided later, if there is one. */
static int await_answer(void)
{
	uint64_t next_ns = hsp_device_next_ns(device);

	if (next_ns == HSP_NEVER)
		return 0;
	now_ns = next_ns > now_ns ? next_ns : now_ns;
	collect();
	return 1;
}

static uint8_t free_tag(void)
{
	for (;;) {
		for (uint8_t tag = 0; tag < HSP_TAGS; tag++)
			if (!waits[tag])
				return tag;
		CHECK(await_answer(), "no request is answered");
	}
}

static void note_write(const struct hsp_request *request, uint32_t version, uint64_t first, uint64_t count)
{
	for (uint64_t s = first; s < first + count; s++) {
		int lost = hsp_device_is_volatile(device, request->arrival_ns, s);

		CHECK(!lost || has_undo[s], "sector %" PRIu64 " is volatile and was never written", s);
		if (!lost) {
			undo[s] = content[s];
			has_undo[s] = 1;
		}
		content[s] = version;
	}
}

static struct hsp_request draw_request(void)
{
	struct hsp_request request = { 0 };
	uint64_t most = 1 + draw(draw(4) ? 16 : sectors), kind = draw(100);

	if (!draw(3))
		now_ns += draw(2000000);
	else if (!draw(50))
		now_ns += draw(200000000);
	else
		now_ns += draw(20000);
	collect();
	request.tag = free_tag();
	request.arrival_ns = now_ns;
	request.sector = draw(4) ? draw(sectors) : draw(sectors < 16 ? sectors : 16); /* a hot spot */
	request.sectors = (uint32_t)(1 + draw(most));
	if (request.sectors > sectors - request.sector)
		request.sectors = (uint32_t)(sectors - request.sector);
	request.op = kind < 25 ? HSP_READ : kind < 80 ? HSP_WRITE : kind < 92 ? HSP_FLUSH : kind < 96 ? HSP_DISCARD :
												    HSP_WRITE_ZEROES;
	request.fua = (request.op == HSP_WRITE || request.op == HSP_WRITE_ZEROES) && !draw(6);
	if (request.op == HSP_DISCARD) { /* whole pages, so that it is known what is mapped */
		if (!draw(10)) {
			request.sector = 0;
			request.sectors = (uint32_t)sectors;
			return request;
		}
		request.sector -= request.sector % page_sectors;
		request.sectors = (uint32_t)page_sectors;
		if (request.sectors > sectors - request.sector)
			request.sectors = (uint32_t)(sectors - request.sector);
	}
	return request;
}

/* Whether zeroes for this sector of the request unmap its page. */
static int is_whole_page(const struct hsp_request *request, uint64_t s)
{
	uint64_t first = s - s % page_sectors, end = first + page_sectors;

	end = end < sectors ? end : sectors;
	return request->sector <= first && request->sector + request->sectors >= end;
}

static void ask(void)
{
	struct hsp_request request = draw_request();
	struct hsp_answer answer;
	uint32_t version = next_version++;

	hsp_device_deliver(device, &request);
	if (request.op == HSP_WRITE)
		note_write(&request, version, request.sector, request.sectors);
	if (request.op == HSP_WRITE_ZEROES)
		for (uint64_t s = request.sector; s < request.sector + request.sectors; s++)
			note_write(&request, version, s, 1);
	answer = hsp_device_submit(device, &request);
	now_ns = request.arrival_ns;
	asked++;
	CHECK(!answer.error, "error %d", answer.error);
	waits[request.tag] = answer.done_ns == HSP_LATER;
	later += waits[request.tag];
	CHECK(answer.done_ns != HSP_LATER || request.op != HSP_FLUSH, "a flush is answered later");
	CHECK(answer.done_ns >= request.arrival_ns, "done %" PRIu64 " before %" PRIu64, answer.done_ns,
	      request.arrival_ns);
	CHECK(answer.done_ns == HSP_LATER || answer.done_ns < request.arrival_ns + UINT64_C(3600000000000),
	      "it takes an hour");
	if (request.op == HSP_DISCARD || request.op == HSP_WRITE_ZEROES)
		for (uint64_t s = request.sector; s < request.sector + request.sectors; s++)
			if (is_whole_page(&request, s) && hsp_device_attributes(device) & HSP_DISCARDS) {
				CHECK(!hsp_device_is_volatile(device, request.arrival_ns, s),
				      "sector %" PRIu64 " is discarded and volatile", s);
				content[s] = 0;
				floor_version[s] = 0;
				/* Older promises are about content that is gone. */
				forgotten[s] = version;
			}
	if (request.op == HSP_WRITE || request.op == HSP_WRITE_ZEROES || request.op == HSP_FLUSH) {
		if (pending_count == PENDING)
			settle_pending();
		if (pending_count == PENDING)
			pending_count = 0; /* forgets promises, which is safe: it only asks for less */
		pending[pending_count++] = (struct pending){ request.arrival_ns, answer.done_ns, request.sector,
							     request.sectors,	 version,	   request.op, request.fua, request.tag };
	}
	while (!draw(8) && await_answer())
		;
	if (!draw(8) && answer.done_ns != HSP_LATER)
		now_ns = answer.done_ns > now_ns ? answer.done_ns : now_ns;
}

static void check_mapping(void)
{
	uint64_t written = 0, mapped = hsp_device_counter(device, "flash_pages_mapped");

	for (uint64_t first = 0; first < sectors; first += page_sectors) {
		int holds = 0;

		for (uint64_t s = first; s < first + page_sectors && s < sectors; s++)
			holds |= content[s] != 0;
		written += (uint64_t)holds;
	}
	/* More may be mapped: of two writes that nobody was promised, the server goes back before both. */
	if (needs_flush)
		CHECK(mapped >= written, "%" PRIu64 " pages mapped, %" PRIu64 " written", mapped, written);
	else
		CHECK(mapped <= written && mapped + hsp_device_counter(device, "pages_buffered") >= written,
		      "%" PRIu64 " pages mapped, %" PRIu64 " written", mapped, written);
}

static void lose_power(void)
{
	collect();
	collect_promises();
	for (uint64_t s = 0; s < sectors; s++) {
		if (hsp_device_is_volatile(device, now_ns, s)) {
			CHECK(may_lose, "sector %" PRIu64 " is volatile", s);
			CHECK(has_undo[s], "sector %" PRIu64 " is volatile and has no older content", s);
			lost_sectors += content[s] != undo[s];
			content[s] = undo[s];
		}
		if (!lies && floor_version[s] > forgotten[s])
			CHECK(content[s] >= floor_version[s],
			      "sector %" PRIu64 " has version %u, and %u was promised at %" PRIu64, s, content[s],
			      floor_version[s], now_ns);
		has_undo[s] = 0;
	}
	hsp_device_power_loss(device, now_ns);
	for (uint64_t s = 0; s < sectors; s++)
		CHECK(!hsp_device_is_volatile(device, now_ns, s), "sector %" PRIu64 " is volatile still", s);
	if (!strncmp(spec, "model ssd", 9))
		check_mapping();
	CHECK(hsp_device_next_ns(device) == HSP_NEVER, "an answer is decided after the power loss");
	memset(waits, 0, sizeof(waits));
	pending_count = 0;
	losses++;
}

static uint8_t *save(struct hsp_device *from, uint64_t at_ns, size_t *size)
{
	uint8_t *bytes;

	*size = hsp_device_save(from, at_ns, NULL, 0);
	bytes = malloc(*size);
	CHECK(hsp_device_save(from, at_ns, bytes, *size) == *size, "the size of the state changed");
	return bytes;
}

static uint64_t later_of(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/* Wait for all answers to the probes, by their tags; returns when the last one was decided. */
static uint64_t drain(struct hsp_device *of, struct hsp_answer *answers)
{
	uint64_t at_ns = 0;
	struct hsp_answer answer;
	uint8_t tag;

	while (hsp_device_next_ns(of) != HSP_NEVER) {
		at_ns = later_of(at_ns, hsp_device_next_ns(of));
		while (hsp_device_collect(of, at_ns, &tag, &answer))
			answers[tag] = answer;
	}
	return at_ns;
}

/* A device made from the saved state has the future of one that lost power at that time. */
static void compare_with_saved(void)
{
	char error[200];
	size_t size, other_size;
	uint8_t *saved = save(device, now_ns, &size), *other;
	struct hsp_device *copy = hsp_device_new(spec, sectors, error, sizeof(error));
	struct hsp_answer here[PROBES], there[PROBES];
	uint64_t end_ns;

	CHECK(!hsp_device_load(copy, saved, size, error, sizeof(error)), "%s", error);
	lose_power();
	other = save(copy, 0, &other_size);
	free(saved);
	saved = save(device, now_ns, &size);
	CHECK(size == other_size && !memcmp(saved, other, size), "saved state is not what a power loss leaves");
	free(saved);
	free(other);
	for (unsigned i = 0; i < PROBES; i++) {
		struct hsp_request request = { .arrival_ns = i * 100000, .sector = draw(sectors), .sectors = 1 };

		request.tag = (uint8_t)i;
		there[i] = hsp_device_submit(copy, &request);
		request.arrival_ns += now_ns;
		here[i] = hsp_device_submit(device, &request);
	}
	end_ns = now_ns + PROBES * 100000;
	drain(copy, there);
	end_ns = later_of(end_ns, drain(device, here));
	for (unsigned i = 0; i < PROBES; i++)
		CHECK(here[i].done_ns == there[i].done_ns + now_ns, "probe %u: %" PRIu64 " and %" PRIu64, i,
		      here[i].done_ns - now_ns, there[i].done_ns);
	now_ns = end_ns;
	hsp_device_free(copy);
}

int main(int count, char **words)
{
	static char text[16384];
	char error[200];
	size_t length = 0, requests;
	FILE *file = count == 7 ? fopen(words[1], "r") : NULL;

	if (!file)
		return 2;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	memcpy(spec, text, sizeof(spec));
	sectors = strtoull(words[2], NULL, 10);
	page_sectors = strtoull(words[3], NULL, 10);
	random_state = strtoull(words[4], NULL, 10) * 2654435761u + 1;
	requests = strtoull(words[5], NULL, 10);
	lies = strstr(spec, "flush ignored") != NULL;
	device = hsp_device_new(spec, sectors, error, sizeof(error));
	if (!device) {
		printf("%s\n", error);
		return 2;
	}
	if (strtoull(words[6], NULL, 10)) {
		bus = hsp_bus_new(strtoull(words[6], NULL, 10), 1000);
		if (!bus || hsp_device_join(device, bus))
			return 2;
	}
	needs_flush = (hsp_device_attributes(device) & HSP_VOLATILE_CACHE) != 0;
	/* Without a cache there is no volatile one, but a write under way is not safe yet. */
	may_lose = needs_flush || ((strstr(spec, "rpm") || strstr(spec, "write_cache off")) &&
				   !strstr(spec, "cache battery"));
	content = calloc(sectors, sizeof(*content));
	undo = calloc(sectors, sizeof(*undo));
	floor_version = calloc(sectors, sizeof(*floor_version));
	forgotten = calloc(sectors, sizeof(*forgotten));
	has_undo = calloc(sectors, 1);
	while (asked < requests) {
		ask();
		if (!draw(200))
			lose_power();
		if (!draw(400) && !bus) /* that of a copy would be free */
			compare_with_saved();
	}
	printf("%zu requests, %zu answered later, %zu power losses, %zu sectors lost\n", asked, later, losses,
	       lost_sectors);
	hsp_device_free(device);
	hsp_bus_free(bus);
	free(content);
	free(undo);
	free(floor_version);
	free(forgotten);
	free(has_undo);
	return 0;
}
