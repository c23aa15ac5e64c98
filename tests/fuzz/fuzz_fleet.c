// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a peer of the fleet can send: a payload, an alarm, its rows as literals and as CSV, the
 * answer of a service; a message of the store, and its answers; and any statement is taken apart or
 * refused. Input: a byte that chooses, then the message.
 */
#include "host_agent/fleet/alarm.h"
#include "host_agent/fleet/combine.h"
#include "host_agent/fleet/literal.h"
#include "host_agent/fleet/message.h"
#include "host_agent/fleet/store.h"
#include "tests/fuzz/fuzz.h"

#define MOST	64

static void fuzz_rows(const char *line, size_t bytes, bool csv)
{
	struct braid_literal l[MOST];
	struct braid_text texts = { 0 };
	int nr = csv ? braid_csv_read(line, bytes, l, MOST, &texts) :
		       braid_literals_read(line, bytes, l, MOST, &texts), k;

	MUST(nr <= MOST);
	for (k = 0; k < nr; k++)
		if (l[k].kind == BRAID_LITERAL_TEXT || l[k].kind == BRAID_LITERAL_BLOB)
			MUST(l[k].at + l[k].bytes <= texts.bytes);
	braid_text_free(&texts);
}

static void fuzz_message(const char *data, size_t bytes)
{
	static struct braid_fleet_message m;
	static struct braid_fleet_ask ask;
	const char *at, *end, *feed;
	size_t k;

	if (braid_fleet_message_read(&m, data, bytes))
		return;
	MUST(m.body >= data && m.body + m.bytes == data + bytes && m.nr <= BRAID_FLEET_FIELDS);
	for (k = 0; k < m.nr; k++) {
		MUST(!strpbrk(m.fields[k].value, "\n\x1b"));
		braid_fleet_message_number(&m, m.fields[k].key, UINT64_MAX, 0);
	}
	if (braid_fleet_alarm_take(&m, "rack1-a", "rack*", &ask)) {
		MUST(!*ask.name || braid_fleet_name_is_valid(ask.name));
		MUST(*ask.name || ask.kind == BRAID_FLEET_SNAPSHOT);
		MUST(!strpbrk(ask.text, "\n\x1b"));
	}
	ask = (struct braid_fleet_ask){ 0 };
	if (!braid_fleet_ask_read(&ask, BRAID_FLEET_OF_WATCH, &m)) {
		MUST(strlen(ask.text) == m.bytes && m.bytes < BRAID_FLEET_TEXT);
		MUST(ask.seconds <= BRAID_FLEET_WATCH_SECONDS);
	}
	for (at = m.body, end = at + m.bytes; at < end; at = feed + (feed < end)) {
		feed = memchr(at, '\n', end - at) ?: end;
		fuzz_rows(at, feed - at, m.nr & 1);
	}
}

/* A message of the store, what is stored in it, and what the store answers. */
static void fuzz_store(const char *data, size_t bytes)
{
	char host[BRAID_FLEET_NAME], name[BRAID_FLEET_NAME], *copy = strndup(data, bytes);
	struct braid_store_answer answer;
	struct braid_store_piece piece;
	const char *at;
	u32 nr = 0;

	if (!braid_store_piece_read(&piece, data, bytes)) {
		MUST(piece.data >= data && piece.data + piece.bytes == data + bytes);
		MUST(piece.bytes <= BRAID_STORE_CHUNK && piece.end == !piece.bytes);
		if (braid_store_mark_is(piece.data, piece.bytes, &at))
			while (braid_store_mark_next(&at, piece.data + piece.bytes, name)) {
				MUST(braid_fleet_name_is_valid(name));
				MUST(++nr <= piece.bytes);
			}
	}
	braid_store_answer_read(&answer, data, bytes);
	MUST(answer.sequence || *answer.why);
	MUST(!strpbrk(answer.why, "\n\x1b"));
	if (braid_store_subject_read(copy, host, name))
		MUST(braid_fleet_name_is_valid(host) && braid_fleet_name_is_valid(name));
	free(copy);
}

/* What is combined has one statement for each host, and one for all. */
static void fuzz_statement(const char *data, size_t bytes)
{
	struct braid_fleet_plan plan;
	char *text = strndup(data, bytes);

	if (!braid_fleet_combine(&plan, text)) {
		MUST(strstr(plan.inner.data, "SELECT") && strstr(plan.outer.data, BRAID_FLEET_ROWS));
		MUST(plan.whole == !!plan.nr_columns);
	}
	braid_fleet_plan_free(&plan);
	free(text);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	u8 which = fuzz_take(&in, 1);
	char *copy = (char *)fuzz_rest(&in), name[BRAID_FLEET_NAME];

	switch (which % 6) {
	case 0:
		fuzz_message(copy, in.left);
		break;
	case 1:
		fuzz_rows(copy, in.left, false);
		break;
	case 2:
		fuzz_rows(copy, in.left, true);
		break;
	case 3:
		if (braid_fleet_service_id(copy, in.left, name))
			MUST(braid_fleet_name_is_valid(name));
		break;
	case 4:
		fuzz_statement(copy, in.left);
		break;
	default:
		fuzz_store(copy, in.left);
	}
	free(copy);
	return 0;
}
