// SPDX-License-Identifier: GPL-2.0
/*
 * Interns addresses in a private hash, lockless, from any context; names them later
 * from a context that may take its time.
 */
#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/kallsyms.h>
#include <linux/sched.h>

#include "guest_driver/core/symbol.h"

#define HASH_BITS	12
#define PROBES		16

static unsigned long known[1 << HASH_BITS];
static u8 written[1 << HASH_BITS];
static bool dirty;
static struct braid_symbol_table *table;
static u32 nr_entries, nr_used;
static u64 missed;

void braid_symbol_note(unsigned long address)
{
	u32 at = hash_long(address, HASH_BITS), k;

	if (!address)
		return;
	for (k = 0; k < PROBES; k++) {
		unsigned long *cell = &known[(at + k) & ((1 << HASH_BITS) - 1)];
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

void braid_symbol_start(struct braid_guest_region *region)
{
	/* No event that mentions symbols is on yet: nobody is at it. */
	memset(known, 0, sizeof(known));
	memset(written, 0, sizeof(written));
	nr_used = 0;
	missed = 0;
	nr_entries = region->nr_symbols;
	table = region->symbols;
	WRITE_ONCE(dirty, false);
}

static void name(unsigned long address)
{
	char text[KSYM_SYMBOL_LEN];
	struct braid_symbol *entry;

	if (nr_used >= nr_entries) {
		braid_store(&table->missed, ++missed);
		return;
	}
	sprint_symbol(text, address);
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
	smp_mb();		/* a note after this finds dirty false and sets it again */
	for (k = 0; k < ARRAY_SIZE(known); k++) {
		unsigned long address = READ_ONCE(known[k]);

		if (!address || written[k])
			continue;
		written[k] = 1;
		name(address);
		cond_resched();
	}
}
