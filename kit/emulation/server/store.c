#define _GNU_SOURCE
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SECTOR = HSP_SECTOR_BYTES };

struct hsp_store {
	uint64_t sectors;
	struct hsp_device *model;
	unsigned char *data;     /* current content, as read */
	unsigned char *survives; /* of volatile sectors: the content after a power loss */
	unsigned char *before;   /* of sectors changed since a mark: the content to return to */
	uint64_t *is_before;     /* bitmap of the sectors in `before` */
	int marked;
};

/* Memory allocated when first written: most of a device never is. Shared: survives a server crash. */
static void *sparse(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t bytes_of(const struct hsp_store *store)
{
	return store->sectors * SECTOR;
}

static uint64_t bitmap_bytes(const struct hsp_store *store)
{
	return (store->sectors + 63) / 64 * 8;
}

void hsp_store_serve(struct hsp_store *store, struct hsp_device *model)
{
	store->model = model;
}

struct hsp_store *hsp_store_new(uint64_t sectors)
{
	struct hsp_store *store = calloc(1, sizeof *store);
	if (!store)
		return NULL;
	store->sectors = sectors;
	store->data = sparse(bytes_of(store));
	store->survives = sparse(bytes_of(store));
	store->before = sparse(bytes_of(store));
	store->is_before = sparse(bitmap_bytes(store));
	if (!store->data || !store->survives || !store->before || !store->is_before) {
		hsp_store_free(store);
		errno = ENOMEM;
		return NULL;
	}
	return store;
}

void hsp_store_free(struct hsp_store *store)
{
	if (!store)
		return;
	if (store->data)
		munmap(store->data, bytes_of(store));
	if (store->survives)
		munmap(store->survives, bytes_of(store));
	if (store->before)
		munmap(store->before, bytes_of(store));
	if (store->is_before)
		munmap(store->is_before, bitmap_bytes(store));
	free(store);
}

static int has_before(const struct hsp_store *store, uint64_t sector)
{
	return store->is_before[sector / 64] >> sector % 64 & 1;
}

static void keep_before(struct hsp_store *store, uint64_t sector, const unsigned char *content)
{
	memcpy(store->before + sector * SECTOR, content, SECTOR);
	store->is_before[sector / 64] |= UINT64_C(1) << sector % 64;
}

void hsp_store_read(const struct hsp_store *store, uint64_t sector, uint32_t sectors, void *to)
{
	memcpy(to, store->data + sector * SECTOR, (size_t)sectors * SECTOR);
}

void hsp_store_prepare(struct hsp_store *store, uint64_t now_ns, uint64_t sector, uint32_t sectors)
{
	for (uint64_t end = sector + sectors; sector < end; sector++) {
		const unsigned char *content = store->data + sector * SECTOR;
		if (!hsp_device_is_volatile(store->model, now_ns, sector))
			memcpy(store->survives + sector * SECTOR, content, SECTOR);
		if (store->marked && !has_before(store, sector))
			keep_before(store, sector, content);
	}
}

void hsp_store_write(struct hsp_store *store, uint64_t sector, uint32_t sectors, const void *from)
{
	unsigned char *place = store->data + sector * SECTOR;
	if (from)
		memcpy(place, from, (size_t)sectors * SECTOR);
	else
		memset(place, 0, (size_t)sectors * SECTOR);
}

void hsp_store_lose(struct hsp_store *store, uint64_t now_ns)
{
	for (uint64_t sector = 0; sector < store->sectors; sector++)
		if (hsp_device_is_volatile(store->model, now_ns, sector))
			memcpy(store->data + sector * SECTOR, store->survives + sector * SECTOR, SECTOR);
}

void hsp_store_mark(struct hsp_store *store, uint64_t now_ns)
{
	memset(store->is_before, 0, bitmap_bytes(store));
	for (uint64_t sector = 0; sector < store->sectors; sector++)
		if (hsp_device_is_volatile(store->model, now_ns, sector))
			keep_before(store, sector, store->survives + sector * SECTOR);
	store->marked = 1;
}

int hsp_store_return(struct hsp_store *store)
{
	if (!store->marked)
		return -1;
	for (uint64_t sector = 0; sector < store->sectors; sector++)
		if (has_before(store, sector))
			memcpy(store->data + sector * SECTOR, store->before + sector * SECTOR, SECTOR);
	store->marked = 0;
	return 0;
}

static int write_all(int file, const void *bytes, size_t count)
{
	for (size_t done = 0; done < count;) {
		ssize_t n = write(file, (const char *)bytes + done, count - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

/* 1: all read; 0: end of file; -1: an error or a partial read. */
static int read_all(int file, void *bytes, size_t count)
{
	size_t done = 0;
	while (done < count) {
		ssize_t n = read(file, (char *)bytes + done, count - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	if (done && done < count)
		errno = EINVAL;
	return done == count ? 1 : done == 0 ? 0 : -1;
}

static size_t page_bytes(const struct hsp_store *store, uint64_t page)
{
	uint64_t left = bytes_of(store) - page * PAGE;
	return left < PAGE ? left : PAGE;
}

int hsp_store_save(const struct hsp_store *store, int file)
{
	static const unsigned char zeroes[PAGE];
	for (uint64_t page = 0; page * PAGE < bytes_of(store); page++) {
		const unsigned char *content = store->data + page * PAGE;
		if (!memcmp(content, zeroes, page_bytes(store, page)))
			continue;
		if (write_all(file, &page, sizeof page) || write_all(file, content, page_bytes(store, page)))
			return -1;
	}
	return 0;
}

int hsp_store_load(struct hsp_store *store, int file)
{
	for (;;) {
		uint64_t page;
		int got = read_all(file, &page, sizeof page);
		if (got <= 0)
			return got;
		if (page >= (bytes_of(store) + PAGE - 1) / PAGE) {
			errno = EINVAL;
			return -1;
		}
		if (read_all(file, store->data + page * PAGE, page_bytes(store, page)) != 1)
			return -1;
	}
}
