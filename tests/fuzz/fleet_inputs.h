/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages of the fleet, rows, and statements: fuzz_fleet.c's first byte says which. */
#ifndef TESTS_FUZZ_FLEET_INPUTS_H
#define TESTS_FUZZ_FLEET_INPUTS_H

#include "tracebraid/types.h"

static const struct { u8 which; const char *text; } fleet_inputs[] = {
	{ 0, "tracebraid 1\nkind rows\nhost a\ninstance 0123\nid x-1\nseq 0\n\n'ns','x'\n1,NULL\n" },
	{ 0, "tracebraid 1\nkind end\nseq 18446744073709551615\nerror none\n\n" },
	{ 0, "tracebraid 1\nhost rack2-c\nguest web1\nwhy stolen\nname 20261128T120000Z-1f2e3d4c\nwatch 1\n\n" },
	{ 1, "NULL,-1,1.5e-300,9e999,X'00ff','it''s',9223372036854775807" },
	{ 2, "web1/vCPU 0,\"a, \"\"b\"\"\",,-5,1.5" },
	{ 3, "{\"name\":\"tracebraid\",\"id\":\"rack1-a\",\"version\":\"1.0.0\"}" },
	{ 4, "SELECT name AS n, count(*), avg(x) FILTER (WHERE y > 1) FROM t GROUP BY n HAVING sum(x) > 1 ORDER BY 2 DESC LIMIT 3" },
	{ 4, "WITH w AS (SELECT 1) SELECT DISTINCT host, \"a b\" c FROM w, (SELECT max(x) OVER () FROM t) ORDER BY c LIMIT 2, 5;" },
	{ 5, "tracebraid 1\nkind chunk\nnumber 0\nfrom 0\n\ntracebraid-mark 1\n20261128T120000Z-1f2e3d4c-000001\n" },
	{ 5, "tracebraid 1\nkind end\nnumber 3\nfrom 786432\nlost unknown\ncheck 0123456789abcdef\n\n" },
	{ 5, "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: 9\"},\"stream\":\"tracebraid\",\"seq\":0}" },
	{ 5, "tracebraid.store.v1.rack1-a.20261128T120000Z-1f2e3d4c-000001" },
};

#endif /* TESTS_FUZZ_FLEET_INPUTS_H */
