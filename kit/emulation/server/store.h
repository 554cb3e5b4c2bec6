/*
 * Content of an emulated device, and the content that would survive a power loss.
 *
 * The content is in memory. Before a write to a sector that is durable (the model says so), the old
 * content is copied: a power loss restores it if the new content is still volatile.
 */
#ifndef HSP_STORE_H
#define HSP_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "../models/model.h"

struct hsp_store;

/* Make a store of zeroes. NULL with errno set if there is not enough memory. */
struct hsp_store *hsp_store_new(uint64_t sectors);
void hsp_store_free(struct hsp_store *store);
/* Set the model that decides which sectors are volatile; a restarted server sets a new one. */
void hsp_store_serve(struct hsp_store *store, struct hsp_device *model);

void hsp_store_read(const struct hsp_store *store, uint64_t sector, uint32_t sectors, void *to);
/*
 * A write has two steps around the call of the model: `prepare` keeps durable content for a power
 * loss; then, if the model accepts the write, `write` changes the content (`from` NULL: to zeroes).
 * Times are the model's.
 */
void hsp_store_prepare(struct hsp_store *store, uint64_t now_ns, uint64_t sector, uint32_t sectors);
void hsp_store_write(struct hsp_store *store, uint64_t sector, uint32_t sectors, const void *from);

/* Power loss: restore the durable content of volatile sectors. The caller informs the model. */
void hsp_store_lose(struct hsp_store *store, uint64_t now_ns);

/*
 * Remember the content that a power loss now would leave, without changing anything;
 * `hsp_store_return` restores it. So a pool can be exported in order after "its" power loss and
 * imported again from what survived. A new mark replaces an earlier one.
 */
void hsp_store_mark(struct hsp_store *store, uint64_t now_ns);
/* Return to the mark. -1 if there is no mark. */
int hsp_store_return(struct hsp_store *store);

/* Save or load the content (only pages that are not zero). 0, or -1 with errno. */
int hsp_store_save(const struct hsp_store *store, int file);
int hsp_store_load(struct hsp_store *store, int file);

#endif
