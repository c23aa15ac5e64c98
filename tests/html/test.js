// SPDX-License-Identifier: GPL-2.0-or-later
/* test.js AGENT CAPTURE HOSTILE EMPTY FOLDER TRACE...: exports the captures, and uses the pages. */
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { checkAddress, checkFollow, checkSizes } = require('./address.js');
const { launch, open } = require('./browser.js');
const { checkFlame, checkNoFlame } = require('./flame.js');
const {
	checkDates,
	checkEnd,
	checkNames,
	checkPicture,
	checkPins,
	checkResize,
	checkTips,
} = require('./small.js');
const { checkLongest, checkStates, checkWakes } = require('./states.js');
const { checkTables } = require('./tables.js');
const { checkVerdict } = require('./verdict.js');

const [, , AGENT, CAPTURE, HOSTILE, EMPTY, FOLDER, ...TRACES] = process.argv;

function run(...words) {
	return execFileSync(AGENT, words, { encoding: 'utf8', maxBuffer: 1 << 30 });
}

/* The report of the same capture. */
function report(capture, ...options) {
	const json = run('report', '--json', ...options, capture)
		.trimEnd()
		.split('\n')
		.map((line) => JSON.parse(line));
	const items = json.filter(({ type }) => ['event', 'lost', 'note'].includes(type));
	const lines = run('report', '--no-header', ...options, capture).split('\n').filter(Boolean);
	return {
		items,
		lines,
		end: json[json.length - 1],
		streams: json.filter(({ type }) => type === 'stream'),
	};
}

function exportPage(capture, name, ...options) {
	const page = path.join(FOLDER, name);
	run('export', '--to', 'html', ...options, capture, '-o', page);
	return page;
}

/* In the page -------------------------------------------------------------------------------- */

/* Every row of the page's data, as a line of report without padding. */
async function allRows() {
	const { trace } = globalThis.tracebraid,
		rows = [];
	for (let row = 0; row < trace.nr; row++) {
		const what = trace.isEvent(row) ? [`${trace.eventText(row)}:`] : [];
		rows.push(
			[
				`${trace.groupOf(row).name}:`,
				trace.taskText(row),
				`[${trace.cpuText(row)}]`,
				`${trace.timeText(trace.time[row])}:`,
				...what,
				await trace.texts.get(row),
			]
				.filter((word) => word)
				.join(' '),
		);
	}
	return rows;
}

/* The lines of the table that are on the screen. */
function shownLines() {
	const box = document.getElementById('rows').getBoundingClientRect();
	return [...document.querySelectorAll('#lines .line')]
		.filter((line) => {
			const { top, bottom } = line.getBoundingClientRect();
			return !line.hidden && bottom > box.top && top < box.bottom;
		})
		.map((line) => ({
			row: Number(line.dataset.row),
			selected: line.classList.contains('selected'),
			cells: line.cells.map((cell) => cell.textContent),
		}));
}

/* Spans of one row of all lanes of a kind: [lane, start, end, what]. */
function spansOf(row, kind) {
	const { trace } = globalThis.tracebraid,
		spans = [];
	for (const lane of trace.lanes) {
		const track = lane.kind === kind ? lane.tracks[row] : null;
		for (let k = 0; track && k < track.nr; k++)
			spans.push([
				kind === 2 ? String(lane.tid) : trace.laneText(lane),
				trace.timeText(track.start[k]),
				trace.timeText(track.end[k]),
				trace.spanText(track, k),
			]);
	}
	return spans;
}

function win() {
	const { t0, t1 } = globalThis.tracebraid.win;
	return { t0, t1, length: t1 - t0 };
}

/* The position of the lanes on the screen. */
function box() {
	const { left, top, width, height } = document
		.getElementById('over')
		.getBoundingClientRect();
	return { left, top, width, height };
}

/* The middle of the first span that is wide enough, as a point of the screen. */
function somewhere() {
	const { view, trace } = globalThis.tracebraid,
		{ left, top } = view.over.getBoundingClientRect();
	for (const place of view.visible())
		for (const { track, y, height } of place.rows.filter(
			(row) => view.top(place) + row.y > 0 && view.top(place) + row.y + row.height < view.shown,
		))
			for (let k = 0; k < track.nr; k++) {
				const from = view.x(track.start[k]),
					to = view.x(track.end[k]);
				if (to - from > 30 && from > 50 && to < view.width - 50)
					return {
						x: left + (from + to) / 2,
						y:
							top +
							place.y -
							view.scroller.scrollTop +
							y +
							height / 2,
						text: trace.spanText(track, k),
					};
			}
	return null;
}

/* The number of different colors of the lanes on the screen. */
function colors() {
	const canvas = document.getElementById('base'),
		context = canvas.getContext('2d');
	return new Set(
		new Uint32Array(
			context.getImageData(0, 0, canvas.width, canvas.height).data.buffer,
		),
	).size;
}

/* Requests that the page's policy refuses, even to its own script. */
async function violations() {
	const refused = new Set();
	document.addEventListener('securitypolicyviolation', (event) =>
		refused.add(event.effectiveDirective),
	);
	await fetch('http://127.0.0.1:9/').catch(() => {});
	new Image().src = 'http://127.0.0.1:9/';
	const script = document.createElement('script');
	script.textContent = 'globalThis.bad = true';
	document.body.append(script);
	for (let k = 0; k < 100 && refused.size < 3; k++)
		await new Promise((resolve) => requestAnimationFrame(resolve));
	return [...refused].sort();
}

/* Checks -------------------------------------------------------------------------------------- */

const wordsOf = (line) => line.trim().split(/\s+/).join(' ');

async function checkRows(page, { items, lines, end }) {
	const rows = await page.evaluate(allRows),
		totals = await page.evaluate(() => globalThis.tracebraid.trace.totals);
	assert.deepStrictEqual(
		rows.map(wordsOf),
		lines.map(wordsOf),
		'each row is a line of report',
	);
	assert.deepStrictEqual(totals, end, 'events and losses are counted as report does');
	assert.strictEqual(items.filter(({ type }) => type === 'event').length, end.events);
}

async function checkLanes(page, { streams }) {
	const labels = await page.$$eval('.label', (all) => all.map(({ title }) => title));
	for (const stream of streams)
		for (let cpu = 0; cpu < stream.cpus; cpu++)
			assert(
				labels.includes(
					`${stream.stream} ${stream.kind === 'host' ? 'CPU' : 'vCPU'} ${cpu}`,
				),
				`a lane for ${stream.stream} ${cpu} in ${labels}`,
			);
	for (const { vcpus, stream } of streams.slice(0, 1))
		for (const { vcpu, tid } of vcpus)
			assert(
				labels.includes(`${stream} vCPU ${vcpu}, thread ${tid}`),
				`thread ${tid} in ${labels}`,
			);
	const cards = await page.$$eval('.stream', (all) =>
		all.map(({ textContent }) => textContent),
	);
	for (const { stream, written, read, lost, left } of streams)
		assert(
			cards.some(
				(card) =>
					card.startsWith(stream) &&
					card.includes(
						`written ${written} = read ${read} + lost ${lost} + left ${left}`,
					),
			),
			`${stream} in ${cards}`,
		);
	assert((await page.evaluate(colors)) > 50, 'lanes are drawn');
}

const secondsOf = (ns) => `${Math.floor(ns / 1e9)}.${String(ns % 1e9).padStart(9, '0')}`;

/* Computes the spans in a simpler way, from the report's fields. */
async function checkSpans(page, { items }) {
	const spans = async (row, kind) => await page.evaluate(`(${spansOf})(${row}, ${kind})`);
	const pidOf = (what) => what.slice(what.lastIndexOf('-') + 1);
	const tasks = new Set(
		(await spans(0, 1)).map(
			([lane, from, to, what]) => `${lane} ${from} ${to} ${pidOf(what)}`,
		),
	);
	const guests = new Set(
		(await spans(6, 2))
			.filter(([, , , what]) => what === 'guest')
			.map(([tid, from, to]) => `${tid} ${from} ${to}`),
	);
	const running = new Map(),
		entered = new Map();
	let switches = 0,
		windows = 0;
	for (const { type, event, stream, cpu, ns, fields, pid } of items) {
		const lane = `${stream} ${stream === 'host' ? 'CPU' : 'vCPU'} ${cpu}`,
			now = secondsOf(ns);
		if (type === 'lost') {
			running.delete(lane);
			entered.clear(); /* whichever of them it chose */
		}
		if (event === 'sched_switch') {
			const [since, who] = running.get(lane) || [];
			if (who && ++switches)
				assert(
					tasks.has(`${lane} ${since} ${now} ${who}`),
					`${who} runs until ${now}`,
				);
			running.set(lane, [now, fields.next_pid]);
		}
		if (event === 'kvm_exit' && entered.has(pid) && ++windows)
			assert(
				guests.has(`${pid} ${entered.get(pid)} ${now}`),
				`${pid} is a guest until ${now}`,
			);
		if (event === 'kvm_entry') entered.set(pid, now);
		if (event === 'kvm_exit') entered.delete(pid);
	}
	assert(switches > 100 && windows > 100, `${switches} switches, ${windows} windows`);
}

async function checkMoves(page) {
	const all = await page.evaluate(win),
		{ left, top, width } = await page.evaluate(box);
	await page.mouse.move(left + width / 2, top + 40);
	await page.mouse.wheel(0, -600);
	await page.waitForFunction(
		(length) => globalThis.tracebraid.win.length < length * 0.7,
		all.length,
	);
	const wheeled = await page.evaluate(win);
	await page.keyboard.down('w');
	await page.waitForFunction(
		(length) => globalThis.tracebraid.win.length < length / 2,
		wheeled.length,
	);
	await page.keyboard.up('w');
	const zoomed = await page.evaluate(win);
	await page.mouse.down();
	await page.mouse.move(left + width / 2 - 200, top + 40, { steps: 4 });
	await page.mouse.up();
	const dragged = await page.evaluate(win);
	assert(
		Math.abs(dragged.t0 - zoomed.t0 - (200 / width) * zoomed.length) <
			zoomed.length / 100,
		'dragging moves',
	);
	await page.keyboard.down('a');
	await page.waitForFunction((t0) => globalThis.tracebraid.win.t0 < t0, dragged.t0);
	await page.keyboard.up('a');
	await page.keyboard.press('0');
	assert.strictEqual((await page.evaluate(win)).length, all.length, '0 shows all');
}

/* Waits for the texts, then compares the lines on the screen with report's. */
async function checkTable(page, { lines }, what) {
	await page.waitForFunction(() =>
		[...document.querySelectorAll('#lines .line')].every(
			(line) => line.hidden || line.dataset.loaded,
		),
	);
	const shown = await page.evaluate(shownLines);
	assert(shown.length > 5, `${what}: ${shown.length} lines`);
	for (const {
		row,
		cells: [time, stream, cpu, task, event, text],
	} of shown)
		assert.strictEqual(
			wordsOf(
				[
					`${stream}:`,
					task,
					cpu,
					`${time.replace('~ ', '')}:`,
					event ? `${event}:` : '',
					text,
				].join(' '),
			),
			wordsOf(lines[row]),
			what,
		);
	return shown;
}

async function checkSelection(page, said) {
	await checkTable(page, said, 'the first lines');
	await page.evaluate(() => globalThis.tracebraid.win.zoom(0.02));
	const { x, y, text } = await page.evaluate(somewhere);
	await page.mouse.click(x, y);
	assert((await page.textContent('#details')).includes(text), `${text} is shown in full`);
	const [at] = (await checkTable(page, said, 'where the click was')).filter(
		({ selected }) => selected,
	);
	assert(at, 'the table went there');
	await page.keyboard.press('f');
	await page.keyboard.press('ArrowRight');
	const row = await page.evaluate(() => globalThis.tracebraid.state.selection.row);
	assert(row > at.row, 'right goes on in the lane');
	await page.keyboard.press('m');
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('m');
	assert.match(await page.textContent('#details'), /A to B/);
	await page.keyboard.press('Escape');
	await page.keyboard.press('0');
}

/* Guest mode is a thread's; the event that it began with is in the lane of a CPU. */
async function checkThread(page, said) {
	const point = await page.evaluate(() => {
		const { view, win } = globalThis.tracebraid;
		const place = view.places.find(({ lane }) => lane.kind === 2 && lane.tracks[6]);
		const { track, y } = place.rows.find((row) => row.track.row === 6);
		const { left, top } = view.over.getBoundingClientRect();
		view.scroller.scrollTop = place.y;
		win.set(track.start[1] - 10, track.end[1] + 10);
		return {
			x: left + view.width / 2,
			y: top + place.y - view.scroller.scrollTop + y + 4,
		};
	});
	await page.mouse.click(point.x, point.y);
	const lines = await checkTable(page, said, 'where the guest began');
	assert.match(lines.find(({ selected }) => selected).cells[4], /^kvm_(entry|exit)$/);
	await page.keyboard.press('Escape');
	await page.keyboard.press('0');
}

async function checkSearch(page, said) {
	const events = said.items.filter(({ type }) => type === 'event');
	const expect = async (field, query, test) => {
		const nr = said.items.filter(test).length;
		assert(nr > 0, query);
		await page.fill(`#${field}`, query);
		await page.press(`#${field}`, 'Enter');
		await page.waitForFunction(
			([id, text]) =>
				document
					.getElementById(id)
					.textContent.replaceAll('\u202f', '')
					.endsWith(text),
			[`${field}count`, String(nr)],
			{ timeout: 20000 },
		);
		return nr;
	};
	const some = events[Math.floor(events.length / 2)];
	await expect('search', 'event:sched_switch', ({ event }) => event === 'sched_switch');
	await expect(
		'search',
		`pid:${some.pid} stream:${some.stream}`,
		({ pid, stream }) => pid === some.pid && stream === some.stream,
	);
	await expect(
		'search',
		'target_cpu=001',
		({ text }) => text && text.includes('target_cpu=001'),
	);
	await page.click('#next');
	const [found] = (await checkTable(page, said, 'at a match')).filter(
		({ selected }) => selected,
	);
	assert(found.cells[5].includes('target_cpu=001'), 'the match is selected');
	const nr = await expect(
		'filter',
		'stream:guest1 !event:sys_',
		({ stream, event, type }) =>
			stream === 'guest1' && (type !== 'event' || !event.startsWith('sys_')),
	);
	assert.strictEqual(await page.evaluate(() => globalThis.tracebraid.table.nr), nr);
	for (const { cells } of await checkTable(page, said, 'filtered'))
		assert(cells[1] === 'guest1' && !cells[4].startsWith('sys_'));
	await page.press('#filter', 'Escape');
	await page.waitForFunction(
		(all) => globalThis.tracebraid.table.nr === all,
		said.items.length,
	);
}

/* A loss, zoomed in: it is hatched in its own color. */
async function checkLoss(page, { items }) {
	assert.strictEqual(
		(await page.evaluate(`(${spansOf})(7, 1)`)).length,
		items.filter(({ type }) => type === 'lost').length,
	);
	const seen = await page.evaluate(() => {
		const app = globalThis.tracebraid,
			{ view, win, trace, palette } = app;
		const place = view.places.find(({ lane }) => lane.tracks[7]),
			{ start, end } = place.lane.tracks[7];
		view.scroller.scrollTop = place.y;
		win.set(start[0] - 1000, end[0] + 1000);
		app.drawNow();
		const x = Math.round(view.x((start[0] + end[0]) / 2)),
			y = Math.round((place.y - view.scroller.scrollTop + 2) * view.scale);
		const pixels = view.base.getContext('2d').getImageData(x, y, 12, 1).data,
			loss = palette.loss;
		let red = 0;
		for (let k = 0; k < 12; k++)
			red += pixels[4 * k] > pixels[4 * k + 1] + 60 && trace.nr > 0 && loss > 0;
		return red;
	});
	assert(seen >= 3, `a loss is hatched: ${seen} of 12 pixels`);
}

async function checkPage(browser) {
	const complaints = [],
		said = report(CAPTURE),
		ask = (...words) => JSON.parse(run('analyze', ...words, '--json', CAPTURE));
	const page = await open(browser, exportPage(CAPTURE, 'page.html'), complaints);
	await checkVerdict(page, ask, (...words) => run('analyze', ...words, CAPTURE));
	await checkRows(page, said);
	await checkLanes(page, said);
	await checkSpans(page, said);
	await checkMoves(page);
	await checkSelection(page, said);
	await checkThread(page, said);
	await checkStates(page, ask);
	await checkLongest(page, ask);
	await checkWakes(page, said);
	await checkFollow(page);
	await checkSizes(page);
	await checkAddress(page);
	await checkSearch(page, said);
	await checkTips(page);
	await checkPins(page);
	await checkResize(page);
	await checkNames(page);
	assert.deepStrictEqual(complaints, []);
}

async function checkWall(browser) {
	const complaints = [],
		said = report(CAPTURE, '--clock=realtime');
	const page = await open(
		browser,
		exportPage(CAPTURE, 'wall.html', '--clock=realtime'),
		complaints,
	);
	await checkRows(page, said);
	await checkDates(page, said.lines);
	assert.deepStrictEqual(complaints, []);
}

/* Names that contain markup are shown as text; only the page's own script runs. */
async function checkHostile(browser) {
	const complaints = [],
		said = report(HOSTILE);
	const page = await open(browser, exportPage(HOSTILE, 'hostile.html'), complaints, {
		colorScheme: 'dark',
	});
	await checkRows(page, said);
	assert(
		said.lines.some((line) => line.includes('</script><script>alert(1)')),
		'the capture is as bad as it is meant to be',
	);
	const shown = await checkTable(page, said, 'hostile names');
	await checkLoss(page, said);
	await checkEnd(page);
	await page.mouse.click(400, 300);
	await page.keyboard.press('ArrowDown');
	await page.click('#kindsbutton');
	assert(
		shown.some(({ cells }) => cells[5].includes('onerror=alert(2)')),
		'and it is shown',
	);
	const elements = () => document.querySelectorAll('script, img, svg').length;
	assert.strictEqual(await page.evaluate(elements), 1);
	assert.deepStrictEqual(complaints, []);
	const refused = await page.evaluate(violations);
	assert.deepStrictEqual(refused, ['connect-src', 'img-src', 'script-src-elem']);
}

/* A page without events works, with all its keys. */
async function checkEmpty(browser) {
	const complaints = [],
		said = report(EMPTY);
	const page = await open(browser, exportPage(EMPTY, 'empty.html'), complaints);
	assert.strictEqual(said.end.events, 0);
	/* Of no events there is no time. */
	assert.match(await page.textContent('#about'), /: 0 events, 0 lost/);
	assert.strictEqual(await page.textContent('#corner'), '');
	assert.doesNotMatch(await page.textContent('#verdict .summary p'), /proven/);
	await checkRows(page, said);
	const { left, top, width } = await page.evaluate(box);
	await page.mouse.move(left + width / 2, top + 40);
	await page.mouse.wheel(0, -600);
	await page.mouse.click(left + width / 2, top + 40);
	for (const key of ['0', 'w', 'a', 'm', 'ArrowRight', 'ArrowDown', 'f', 'm', 'e', 'g', 'Escape'])
		await page.keyboard.press(key);
	for (const field of ['search', 'filter']) {
		await page.fill(`#${field}`, 'event:sched_switch');
		await page.press(`#${field}`, 'Enter');
	}
	await page.click('#next');
	await page.click('#kindsbutton');
	await page.evaluate(() => globalThis.tracebraid.drawNow());
	assert.deepStrictEqual(complaints, []);
}

async function main() {
	const browser = await launch();
	try {
		await checkPage(browser);
		console.log('ok   html: verdict, rows, spans, states, lists, moves, pins, names, selection, address, sizes, search');
		await checkWall(browser);
		console.log('ok   html: dates of wall time');
		await checkPicture(browser, path.join(FOLDER, 'page.html'), FOLDER);
		console.log('ok   html: one frame shows everything');
		await checkHostile(browser);
		console.log('ok   html: hostile names are text');
		await checkEmpty(browser);
		console.log('ok   html: no events');
		for (const trace of TRACES) await checkTables(browser, run, FOLDER, trace.split(','));
		await checkNoFlame(browser, path.join(FOLDER, 'page.html'));
		const sampled = TRACES.find((trace) => trace.includes('samples'));
		await checkFlame(browser, run, FOLDER, sampled);
		console.log('ok   html: a profile as a flame graph');
		console.log(`ok   html: states, stolen time and verdict of ${TRACES.length} traces`);
	} finally {
		await browser.close();
	}
}

main().catch((error) => {
	console.error(`FAIL html: ${error.stack}`);
	process.exit(1);
});
