// SPDX-License-Identifier: GPL-2.0-or-later
/* The service's configuration: each setting is taken; what is not valid is named by its line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/serve/conf.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

static struct braid_conf conf;

static void refuses(const char *text, const char *why)
{
	int err = braid_conf_parse(&conf, text, "c");

	CHECK(err < 0);
	CHECK(strstr(braid_failure(), why));
	if (!strstr(braid_failure(), why))
		fprintf(stderr, "'%s' is refused with: %s\n", text, braid_failure());
}

static void takes_each_setting(void)
{
	static const char text[] =
		"# a comment\n[record]\nevents = sched,irq\nfilter = CPU == 1\nevents = kvm\nkprobe = p vfs_read\n"
		"uprobe = /bin/a:b\npid = 7\nchildren = yes\ncgroup = /web\ncomm = a*\ncpus = 0-3\n"
		"trigger = a:b: snapshot\nsample = 99\nstacks = yes\nuser-stacks = no\nhost-events=sched\nguests = a b\nguests = c\n"
		"peers = d:1 e\npeers = f\npeer-listen = [::]:7\npeer-rate = 100\n"
		"window = 4M\nwindow-time = 90s\n[metrics]\nlisten = 127.0.0.1:1\nlisten = unix:/x\n"
		"culprits = 7\n[snapshots]\ndirectory = /s\nhook = /h\nmax-size = 2G\nmax-age = 2d\n"
		"apart = 500ms\n[fleet]\nserver = tls://a:1\nname = rack1-a\ncredentials = /c\nca = /d\n"
		"inbox = _I\nhosts = a b\nhosts = c\njoin = rack*\nstream = asked\n"
		"stream-space = 9M\nstream-sync = 3s\n[watch]\nwhen = stolen > 20% for 1s\nwhen = lost > 0\n[watch web*]\n"
		"when = exits > 100k/s\n";
	static const char *const chosen[] = {
		"--event=sched,irq", "--filter=CPU == 1", "--event=kvm", "--kprobe=p vfs_read",
		"--uprobe=/bin/a:b", "--pid=7", "--children", "--cgroup=/web", "--comm=a*", "--cpus=0-3",
		"--trigger=a:b: snapshot", "--sample=99", "--stacks",
	};
	size_t k;

	NEED(!braid_conf_parse(&conf, text, "c"));
	for (k = 0; k < conf.chosen.nr; k++) {
		NEED(k < sizeof(chosen) / sizeof(*chosen));
		CHECK(!strcmp(conf.chosen.words[k], chosen[k]));
		CHECK_EQ(conf.chosen.lines[k], 3 + (int)k);
	}
	CHECK_EQ(conf.chosen.nr, sizeof(chosen) / sizeof(*chosen));
	CHECK(!strcmp(conf.host_events, "sched"));
	CHECK(!strcmp(conf.guests, "a b c"));
	CHECK(!strcmp(conf.peers, "d:1 e f") && !strcmp(conf.peer_listen, "[::]:7"));
	CHECK_EQ(conf.peer_rate, 100);
	CHECK_EQ(conf.window_bytes, 4u << 20);
	CHECK_EQ(conf.window_ns, 90000000000ULL);
	CHECK_EQ(conf.nr_listens, 2);
	CHECK(!strcmp(conf.listens[0], "127.0.0.1:1") && !strcmp(conf.listens[1], "unix:/x"));
	CHECK_EQ(conf.culprits, 7);
	CHECK(!strcmp(conf.directory, "/s") && !strcmp(conf.hook, "/h"));
	CHECK_EQ(conf.max_bytes, 2ULL << 30);
	CHECK_EQ(conf.max_age_ns, 2 * 86400000000000ULL);
	CHECK_EQ(conf.apart_ns, 500000000);
	CHECK(!strcmp(conf.fleet.server, "tls://a:1") && !strcmp(conf.fleet.name, "rack1-a"));
	CHECK(!strcmp(conf.fleet.credentials, "/c") && !strcmp(conf.fleet.ca, "/d"));
	CHECK(!strcmp(conf.fleet.inbox, "_I") && !strcmp(conf.fleet.hosts, "a b c"));
	CHECK(!strcmp(conf.fleet.join, "rack*"));
	CHECK(conf.fleet.streams == BRAID_FLEET_STREAMS_ASKED);
	CHECK(conf.fleet.stream_bytes == 9u << 20 && conf.fleet.stream_sync_ns == 3000000000ULL);
	CHECK_EQ(conf.rules.nr, 4);
	CHECK_EQ(conf.rules.items[3].what, BRAID_RULE_TRIGGER);
	CHECK(!strcmp(conf.rules.items[3].text, "a:b: snapshot"));
	CHECK(!strcmp(conf.rules.items[0].guests, "*") && !strcmp(conf.rules.items[2].guests, "web*"));
	braid_rules_clear(&conf.rules);
}

static void the_packaged_file_is_valid(void)
{
	NEED(!braid_conf_read(&conf, "packages/tracebraid.conf"));
	CHECK_EQ(conf.nr_listens, 1);
	CHECK(conf.rules.nr > 0 && *conf.directory);
	braid_rules_clear(&conf.rules);
}

static void names_the_line(void)
{
	refuses("[fleet]\nname = rack1.a\n", "c:2: 'rack1.a': expected a name");
	refuses("[fleet]\nstream = always\n", "c:2: 'always': expected nothing, asked or all");
	refuses("[fleet]\nserver = fleet:4222\n", "c:2: 'fleet:4222': expected nats://HOST:PORT");
	refuses("[fleet]\nserve = nats://a\n", "c:2: unknown setting 'serve' in [fleet]; did you mean 'server'?");
	refuses("[record]\n\nevents = a\nwindw = 4M\n", "c:4: unknown setting 'windw' in [record]; did you mean 'window'?");
	refuses("[recrd]\nevents = a\n", "c:2: unknown section [recrd]; did you mean [record]?");
	refuses("[record web*]\nevents = a\n", "c:2: [record web*]: only [watch] can have a pattern");
	refuses("events = a\n", "c:1: 'events' is not in a section");
	refuses("[record]\nno value\n", "c:2: not a valid line");
	refuses("[record]\nwindow = 1M\n", "c:2: '1M': expected at least 2M");
	refuses("[record]\nwindow = big\n", "c:2: 'big': expected a size");
	refuses("[record]\npeer-rate = 1001\n", "c:2: '1001': expected a number from 1 to 1000");
	refuses("[record]\nfiltr = a\n", "c:2: unknown setting 'filtr' in [record]; did you mean 'filter'?");
	refuses("[record]\nchildren = true\n", "c:2: 'true': expected yes or no");
	refuses("[watch]\nfilter = a\n", "c:2: unknown setting 'filter' in [watch]");
	refuses("[record]\npeer = a\n", "c:2: unknown setting 'peer' in [record]; did you mean 'peers'?");
	refuses("[metrics]\nculprits = 0\n", "c:2: '0': expected a number from 1");
	refuses("[snapshots]\nmax-age = 3 weeks\n", "c:2: '3 weeks': expected a time");
	refuses("[snapshots]\ndirectory = here\n", "c:2: 'here': expected a path");
	refuses("[watch]\nwhen = stollen > 20%\n", "c:2: 'stollen' cannot be watched; did you mean 'stolen'?");
	/* The first one is reported, whatever follows. */
	refuses("[record]\nx = 1\nno value\n", "c:2: unknown setting 'x'");
	refuses("[record]\nno value\nx = 1\n", "c:2: not a valid line");
}

static void a_file_that_is_not_there(void)
{
	CHECK(braid_conf_read(&conf, "/nonexistent/c") == -ENOENT);
	CHECK(strstr(braid_failure(), "/nonexistent/c"));
}

int main(void)
{
	RUN(takes_each_setting);
	RUN(the_packaged_file_is_valid);
	RUN(names_the_line);
	RUN(a_file_that_is_not_there);
	return VERDICT();
}
