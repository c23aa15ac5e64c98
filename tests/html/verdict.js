// SPDX-License-Identifier: GPL-2.0-or-later
/* The verdict that a page opens with, and where its links and those of the longest lead. */
'use strict';

const assert = require('node:assert');

/* A figure of the trace's base, without its moments' origin. */
function verdictOf() {
	const { trace } = globalThis.tracebraid,
		shift = (rows) =>
			rows.map((row) =>
				Object.fromEntries(
					Object.entries(row).map(([key, value]) => [
						key,
						key.endsWith('at_ns') && value !== null
							? Number(trace.base + BigInt(value))
							: value,
					]),
				),
			);
	const { summary, stalls } = trace.verdict;
	return {
		summary: { ...summary, guests: shift(summary.guests) },
		stalls: { ...stalls, stalls: shift(stalls.stalls) },
	};
}

/* What is framed: a time, and where the lane is that it is about. */
function framed() {
	const { win, state, view, trace } = globalThis.tracebraid,
		{ selection, range } = state;
	const lane = selection.state
		? selection.state.states.lane
		: selection.span
			? selection.span.track.lane
			: trace.lanes[trace.lane[selection.row]];
	const place = view.placeOf(lane),
		top = view.top(place);
	return {
		t0: win.t0,
		t1: win.t1,
		range,
		lane: `${trace.groups[lane.group].name}/vCPU ${lane.number}`,
		seen: top >= 0 && top + Math.min(place.height, view.shown) <= view.shown + 1,
		shown: view.shown,
	};
}

function assertFrame(at, from, to, vcpu, what) {
	assert(at.t0 < from && at.t1 > to, `${what}: all of ${from} to ${to} in ${at.t0} to ${at.t1}`);
	assert(at.t1 - at.t0 < 2 * (to - from) + 100, `${what}: fills the view`);
	assert.strictEqual(at.lane, vcpu, `${what}: its victim`);
	assert(at.seen, `${what}: ${vcpu} is in view, of ${at.shown} pixels`);
}

const SIZES = [
	[1400, 900],
	[800, 600],
];

async function reset(page) {
	for (const name of ['verdict', 'longest', 'head'])
		if ((await page.getAttribute(`#${name}button`, 'aria-expanded')) !== String(name === 'verdict'))
			await page.click(`#${name}button`);
	await page.keyboard.press('Escape');
	await page.keyboard.press('0');
}

/* Its figures are those of the analyses, to the last digit; and as text. */
async function checkFigures(page, ask, print) {
	assert(await page.isVisible('#verdict'), 'a page opens with the verdict');
	const { summary, stalls } = await page.evaluate(verdictOf);
	assert.deepStrictEqual(summary, ask('summary'));
	assert.deepStrictEqual(stalls, ask('stalls', '-n', '3'));
	const lines = print('summary').split('\n');
	const rows = await page.$$eval('#verdict tbody tr', (all) =>
		all.map((row) => [...row.children].map((cell) => cell.textContent)),
	);
	assert.strictEqual(rows.length, summary.guests.length);
	for (const cells of rows) {
		const words = lines.find((line) => line.startsWith(`${cells[0]} `)).split(/ {2,}/);
		for (const cell of cells)
			assert(words.includes(cell.replaceAll('\u202f', '')), `${cell} in ${words}`);
	}
}

async function checkLinks(page) {
	const size = page.viewportSize();
	for (const [width, height] of SIZES) {
		await page.setViewportSize({ width, height });
		const { stalls } = await page.evaluate(() => globalThis.tracebraid.trace.verdict.stalls);
		for (let k = 0; k < stalls.length; k++) {
			await reset(page);
			const { at_ns: at, duration_ns: ns, vcpu } = stalls[k];
			await (await page.$$('#verdict .worst button'))[k].click();
			const what = `worst stall ${k} at ${width}x${height}`,
				shown = await page.evaluate(framed);
			assertFrame(shown, at, at + ns, vcpu, what);
			assert.deepStrictEqual(shown.range, { from: at, to: at + ns }, what);
		}
		const guests = await page.evaluate(
			() => globalThis.tracebraid.trace.verdict.summary.guests,
		);
		for (const guest of guests) {
			if (guest.worst_wakeup_at_ns === null) continue;
			await reset(page);
			await page.click(`#verdict button[aria-label^="${guest.guest}: show the worst wakeup"]`);
			const { t0, t1 } = await page.evaluate(framed),
				at = guest.worst_wakeup_at_ns;
			assert(t0 < at && t1 > at + guest.worst_wakeup_ns, 'the worst wake-up is framed');
			const details = await page.textContent('#details');
			assert(details.includes('woken by'), details);
		}
	}
	await page.setViewportSize(size);
	await reset(page);
}

/* Each of the longest is framed as a whole, by a click and by a key, the worst first. */
async function checkEpisodes(page) {
	const size = page.viewportSize();
	for (const [width, height] of SIZES) {
		await page.setViewportSize({ width, height });
		for (const [what, column, key] of [
			['stolen', 1, 'e'],
			['gaps', 2, 'g'],
		]) {
			const items = await page.evaluate(
				(list) =>
					globalThis.tracebraid.longest.list(list).map(({ lane, from, to }) => ({
						vcpu: `${globalThis.tracebraid.trace.groups[lane.group].name}/vCPU ${lane.number}`,
						from,
						to,
					})),
				what,
			);
			for (const k of [0, Math.min(7, items.length - 1)]) {
				const { from, to, vcpu } = items[k];
				await reset(page);
				await page.click('#longestbutton');
				await (await page.$$(`#longest > div:nth-child(${column}) button`))[k].click();
				const name = `${what} ${k} at ${width}x${height}`;
				assertFrame(await page.evaluate(framed), from, to, vcpu, name);
			}
			await reset(page);
			for (const { from, to, vcpu } of items.slice(0, 2)) {
				await page.keyboard.press(key);
				assertFrame(await page.evaluate(framed), from, to, vcpu, `${key} at ${height}`);
			}
		}
	}
	await page.setViewportSize(size);
	await reset(page);
}

async function checkVerdict(page, ask, print) {
	await checkFigures(page, ask, print);
	await checkLinks(page);
	await checkEpisodes(page);
}

module.exports = { checkVerdict, verdictOf };
