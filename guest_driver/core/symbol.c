// SPDX-License-Identifier: GPL-2.0
/*
 * Stores addresses in a private hash, lockless, from any context; resolves their names later, in a
 * context that may sleep.
 */
#include <linux/atomic.h>
#include <linux/ctype.h>
#include <linux/hash.h>
#include <linux/kallsyms.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "guest_driver/core/lock.h"
#include "guest_driver/core/symbol.h"

#define PROBES		16

/* Addresses noted: twice the table's capacity, so that each finds a cell. */
struct noted {
	u32 bits;		/* of the number of cells */
	u8 *written;		/* by cell: already processed; used only by the flushing context */
	unsigned long known[];	/* by cell: the address, or 0 */
};

static struct noted *noted;
static bool dirty;
static struct braid_symbol_table *table;
static u32 nr_entries, nr_used;
static u64 missed;

void braid_symbol_note(unsigned long address)
{
	struct noted *n = READ_ONCE(noted);
	u32 at, k;

	if (!address || unlikely(!n))
		return;
	at = hash_long(address, n->bits);
	for (k = 0; k < PROBES; k++) {
		unsigned long *cell = &n->known[(at + k) & ((1u << n->bits) - 1)];
		unsigned long seen = READ_ONCE(*cell);

		if (seen == address)
			return;
		if (seen)
			continue;
		seen = cmpxchg(cell, 0, address);
		if (!seen)
			WRITE_ONCE(dirty, true);
		if (!seen || seen == address)
			return;
	}
}

static void braid_symbols_free_noted(struct noted *n)
{
	if (!n)
		return;
	kvfree(n->written);
	kvfree(n);
}

static struct noted *braid_symbols_make_noted(u32 nr)
{
	u32 bits = ilog2(roundup_pow_of_two(nr)) + 1;
	struct noted *n = kvzalloc(struct_size(n, known, 1ul << bits), GFP_KERNEL);

	if (!n)
		return NULL;
	n->bits = bits;
	n->written = kvzalloc(1ul << bits, GFP_KERNEL);
	if (n->written)
		return n;
	braid_symbols_free_noted(n);
	return NULL;
}

int braid_symbol_start(struct braid_guest_region *region)
{
	struct noted *n = braid_symbols_make_noted(region->nr_symbols);

	if (!n)
		return -ENOMEM;
	/* No event that mentions symbols is enabled yet, so this has no concurrent user. */
	nr_used = 0;
	missed = 0;
	nr_entries = region->nr_symbols;
	table = region->symbols;
	WRITE_ONCE(dirty, false);
	smp_store_release(&noted, n);
	return 0;
}

void braid_symbol_stop(void)
{
	struct noted *n = noted;

	WRITE_ONCE(noted, NULL);
	braid_synchronize_writers();	/* noting contexts have preemption off */
	braid_symbols_free_noted(n);
}

static void braid_symbols_name_address(unsigned long address)
{
	char text[KSYM_SYMBOL_LEN];
	struct braid_symbol *entry;

	sprint_symbol(text, address);
	if (isdigit(text[0]))
		return;		/* the address itself: it has no name */
	if (nr_used >= nr_entries) {
		braid_store(&table->missed, ++missed);
		return;
	}
	entry = &table->entries[nr_used];
	entry->address = address;
	strscpy_pad(entry->name, text, sizeof(entry->name));
	braid_store_release(&table->nr_used, ++nr_used);	/* (Y1) */
}

void braid_symbol_flush(void)
{
	u32 k;

	if (!READ_ONCE(dirty))
		return;
	WRITE_ONCE(dirty, false);
	smp_mb();		/* a later note finds dirty false and sets it */
	for (k = 0; k < 1u << noted->bits; k++) {
		unsigned long address = READ_ONCE(noted->known[k]);

		if (!address || noted->written[k])
			continue;
		noted->written[k] = 1;
		braid_symbols_name_address(address);
		cond_resched();
	}
}
