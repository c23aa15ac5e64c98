// SPDX-License-Identifier: GPL-2.0-or-later
/* What a page shows of vCPUs' states, against what the analyses print. */
'use strict';

const assert = require('node:assert');

/* {"VICTIM by CULPRIT": ns} of stolen time. */
function stolenSums() {
	const { trace } = globalThis.tracebraid,
		sums = {};
	for (const { states, group, number } of trace.lanes)
		for (let k = 0; states && k < states.nr; k++) {
			if (states.state[k] !== 5) continue;
			const name = trace.nameText[states.culprit[k]],
				key = `${trace.groups[group].name}/vCPU ${number} by ${name}`;
			sums[key] = (sums[key] || 0) + states.length(k);
		}
	return sums;
}

/* The longest stolen part whose culprit has a lane, in view: where it is, and what it is. */
function stolenPart() {
	const { trace, view, win } = globalThis.tracebraid;
	let best = null;
	for (const { states } of trace.lanes)
		for (let k = 0; states && k < states.nr; k++)
			if (
				states.state[k] === 5 &&
				trace.nameNumber[states.culprit[k]] &&
				(!best || states.length(k) > best.states.length(best.k))
			)
				best = { states, k };
	const { states, k } = best,
		margin = 3 * states.length(k);
	win.set(states.start[k] - margin, states.end[k] + margin);
	const place = view.places.find(({ lane }) => lane === states.lane);
	view.revealLane(states.lane);
	const { left, top } = view.over.getBoundingClientRect();
	return {
		x: left + view.x((states.start[k] + states.end[k]) / 2),
		y: top + place.y - view.scroller.scrollTop + place.states.y + 8,
		culprit: trace.nameText[states.culprit[k]],
		lane: trace.nameNumber[states.culprit[k]] - 1,
		ns: states.length(k),
	};
}

/* Stolen time is what the analysis says; hovering says who ran, and a click goes there. */
async function checkStates(page, ask) {
	const { steal: rows } = ask('steal', '--by', 'task'),
		want = {};
	for (const { victim, culprit, total_ns: ns } of rows)
		want[`${victim} by ${culprit}`] = (want[`${victim} by ${culprit}`] || 0) + ns;
	assert(Object.keys(want).length > 10, 'time is stolen');
	assert.deepStrictEqual(await page.evaluate(stolenSums), want, 'stolen time adds up');
	const { x, y, culprit, lane } = await page.evaluate(stolenPart);
	const nr = await page.evaluate(colorsOfStates);
	assert(nr > 100, `stolen time is hatched: ${nr} pixels`);
	await page.mouse.move(x, y);
	await page.waitForFunction(() => !document.getElementById('tip').hidden);
	const tip = await page.textContent('#tip');
	assert(tip.startsWith('stolen') && tip.includes(culprit), `${culprit} in ${tip}`);
	await page.mouse.click(x, y);
	const details = await page.textContent('#details');
	assert(details.includes(`by`) && details.includes(culprit), `${culprit} in ${details}`);
	const seen = await page.evaluate((index) => {
		const { view } = globalThis.tracebraid,
			place = view.places.find((one) => one.lane.index === index),
			{ scrollTop } = view.scroller;
		return place.y >= scrollTop && place.y + place.height <= scrollTop + view.shown;
	}, lane);
	assert(seen, 'the lane of the culprit is in view');
	await page.keyboard.press('Escape');
	await page.keyboard.press('0');
}

/* Pixels in the color of stolen time on the screen. */
function colorsOfStates() {
	const { view, palette } = globalThis.tracebraid;
	globalThis.tracebraid.drawNow();
	const near = (a, b) =>
		[0, 8, 16].every((k) => Math.abs(((a >>> k) & 255) - ((b >>> k) & 255)) < 20);
	return view.painter.pixels.filter((pixel) => near(pixel, palette.stolen)).length;
}

/* The lists as the analyses have them: [vCPU, ns, from]. */
function listOf(what) {
	const { longest, trace } = globalThis.tracebraid;
	return longest
		.list(what)
		.map(({ lane, ns, from }) => [
			`${trace.groups[lane.group].name}/vCPU ${lane.number}`,
			ns,
			Number(trace.base) + from,
		]);
}

/* As if there were no kvm events: a vCPU whose guest is idle sleeps, and does not halt. */
function sleepsForHalts() {
	const { longest, trace } = globalThis.tracebraid;
	for (const { states } of trace.lanes)
		if (states && states.busy.has(6)) {
			states.state.forEach((state, k) => (states.state[k] = state === 6 ? 10 : state));
			states.busy.set(10, states.busy.get(6));
			states.busy.delete(6);
		}
	longest.lists = {};
}

/* Where a key went. */
function gone() {
	const { longest, win, state } = globalThis.tracebraid,
		{ from, to } = longest.current.item;
	return {
		rank: Object.values(longest.lists)
			.find((list) => list.includes(longest.current.item))
			.indexOf(longest.current.item),
		seen: win.t0 < from && win.t1 > to,
		row: state.selection.row,
	};
}

/* As if a recording had ended within the longest gap: its length then, and before. */
function cutGap() {
	const { longest, trace } = globalThis.tracebraid,
		{ recordingEnds } = trace,
		[{ lane, from, to }] = longest.list('gaps');
	trace.recordingEnds = [from + 1000];
	longest.lists = {};
	const left = longest.list('gaps').find((gap) => gap.lane === lane && gap.from === from);
	trace.recordingEnds = recordingEnds;
	longest.lists = {};
	return { whole: to - from, left: left ? left.to - left.from : 0 };
}

/* The lists of the longest are the analyses'; keys and clicks go along them. */
async function checkLongest(page, ask) {
	const stolen = ask('steal', '-n', '100').longest.map((row) => [
		row.victim,
		row.duration_ns,
		row.at_ns,
	]);
	assert.deepStrictEqual(await page.evaluate(listOf, 'stolen'), stolen);
	/* The threads of the other guest are not known, nor whether it had work. */
	const gapsOf = async () =>
		(await page.evaluate(listOf, 'gaps')).filter(([vcpu]) => vcpu.startsWith('guest2'));
	const nr = (await gapsOf()).length;
	const stalls = ask('stalls', '-n', '100', '--stream', 'guest2').stalls.slice(0, nr);
	const gaps = stalls.map((row) => [row.vcpu, row.duration_ns - row.idle_ns, row.at_ns]);
	assert(
		stalls.some((row) => row.idle_ns),
		'in one of the gaps the guest was idle for a while',
	);
	assert.deepStrictEqual(await gapsOf(), gaps);
	await page.evaluate(sleepsForHalts);
	assert.deepStrictEqual(await gapsOf(), gaps, 'idle guests');
	const { whole, left } = await page.evaluate(cutGap);
	assert(whole > 1000 && left <= 1000, `a gap of ${whole} ns ends with its recording: ${left}`);
	for (const [key, back] of ['eE', 'gG']) {
		await page.keyboard.press('Escape');
		await page.keyboard.press('0');
		await page.keyboard.press(key);
		const one = await page.evaluate(gone);
		await page.keyboard.press(key);
		const two = await page.evaluate(gone);
		assert(one.rank === 0 && two.rank === 1, `${key} begins with the worst, and goes on`);
		assert(one.seen && two.seen, `${key} goes there`);
		await page.keyboard.press(back);
		assert.deepStrictEqual(await page.evaluate(gone), one, `${back} goes back`);
	}
	await page.keyboard.press('Escape');
	await page.click('#longestbutton');
	const [button] = await page.$$('#longest > div:first-child button');
	await button.click();
	const details = await page.textContent('#details');
	assert(details.includes('Runnable, not running'), details);
	await page.click('#longestbutton');
	await page.keyboard.press('Escape');
	await page.keyboard.press('0');
}

/* A span whose task was woken, in view: where it is, and its task. */
function wokenSpan() {
	const { trace, view, win } = globalThis.tracebraid;
	for (const { lane, rows } of view.places)
		for (const { track, y } of rows)
			for (let k = 0; track.row === 0 && k < track.nr; k++) {
				const at = lane.waits.times.indexOf(track.start[k]),
					woken = at < 0 ? 0 : lane.waits.values[5 * at + 2];
				if (!woken || track.length(k) < 5000) continue;
				win.set(track.start[k] - track.length(k), track.end[k] + track.length(k));
				view.revealLane(lane);
				const { left, top } = view.over.getBoundingClientRect();
				const place = view.places.find((one) => one.lane === lane);
				return {
					x: left + view.width / 2,
					y: top + place.y - view.scroller.scrollTop + y + 8,
					pid: trace.nameNumber[track.name[k]],
					at: track.start[k] - woken + 1 + Number(trace.base),
				};
			}
	return null;
}

/* The wake-up of a span is shown, and leads to its event. */
async function checkWakes(page, { items }) {
	const { x, y, pid, at } = await page.evaluate(wokenSpan);
	const wakeup = items.find(
		({ event, ns, fields }) =>
			ns === at && event.startsWith('sched_wak') && fields.pid === pid,
	);
	assert(wakeup, `${pid} was woken at ${at}`);
	await page.mouse.move(x, y);
	await page.waitForFunction(() =>
		document.getElementById('tip').textContent.includes('woken by'),
	);
	await page.mouse.click(x, y);
	await page.click('#details button:has-text("woken by")');
	const details = await page.textContent('#details');
	assert(details.includes(`sched:${wakeup.event}`), details);
	await page.keyboard.press('Escape');
	await page.keyboard.press('0');
}

module.exports = { checkLongest, checkStates, checkWakes, stolenSums };
