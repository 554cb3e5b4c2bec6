/*
 * What is written on an emulated device, and what of it would survive a power loss.
 *
 * The content lives in memory. Beside it is kept, for each sector that is written while the model
 * says it is safe, what was there before: if the new content turns out to be lost, that comes back.
 */
#ifndef HSP_STORE_H
#define HSP_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "../models/model.h"

struct hsp_store;

/* NULL with errno set if there is not enough memory. */
struct hsp_store *hsp_store_new(uint64_t sectors);
void hsp_store_free(struct hsp_store *store);
/* Which model says what is volatile; a server that takes over brings a new one. */
void hsp_store_serve(struct hsp_store *store, struct hsp_device *model);

void hsp_store_read(const struct hsp_store *store, uint64_t sector, uint32_t sectors, void *to);
/*
 * A write has two steps, with the model in between: what is safe now is kept as what a power loss
 * would leave; then, if the model takes the write, the content changes (`from` NULL: to zeroes).
 * Times are the model's.
 */
void hsp_store_prepare(struct hsp_store *store, uint64_t now_ns, uint64_t sector, uint32_t sectors);
void hsp_store_write(struct hsp_store *store, uint64_t sector, uint32_t sectors, const void *from);

/* The power goes: volatile sectors are again what they were. The model is not told. */
void hsp_store_lose(struct hsp_store *store, uint64_t now_ns);

/*
 * Remember what a power loss now would leave, and go on as if nothing had happened; `hsp_store_return`
 * makes the device that. A pool can so be taken out in order after "its" power loss, and imported
 * again from what survived. `mark` takes the place of an earlier one.
 */
void hsp_store_mark(struct hsp_store *store, uint64_t now_ns);
/* -1 if there is no mark. */
int hsp_store_return(struct hsp_store *store);

/* The content as a file of its own (only what is not zero). 0, or -1 with errno. */
int hsp_store_save(const struct hsp_store *store, int file);
int hsp_store_load(struct hsp_store *store, int file);

#endif
