// SPDX-License-Identifier: GPL-2.0-or-later
/* The page's address, its table while the view moves, and windows of other sizes. */
'use strict';

const assert = require('node:assert');

/* What the address holds. */
function place() {
	const { win, state, trace } = globalThis.tracebraid,
		{ selection, range } = state;
	return {
		from: trace.timeText(win.t0),
		to: trace.timeText(win.t1),
		row: selection && selection.row,
		span: selection && selection.span && selection.span.k,
		state: selection && selection.state && selection.state.k,
		range: range && trace.timeText(range.from),
	};
}

/* Waits until the address says what is shown. */
async function settled(page) {
	await page.waitForFunction(
		() => location.hash === `#${globalThis.tracebraid.fragment.text()}`,
	);
	return await page.evaluate(() => location.hash);
}

/* A reload shows the same; Back shows what was before. */
async function checkAddress(page) {
	await settled(page);
	await page.keyboard.press('g');
	const gap = await settled(page),
		one = await page.evaluate(place);
	await page.keyboard.press('e');
	const stolen = await settled(page),
		two = await page.evaluate(place);
	assert.match(stolen, /^#t=[0-9.]+,[0-9.]+&row=\d+&span=[0-9.]+&state=[0-9.]+$/);
	assert(one.range && two.state !== null, 'both are selected');
	await page.goBack();
	await page.waitForFunction((hash) => location.hash === hash, gap);
	assert.deepStrictEqual(await page.evaluate(place), one, 'Back');
	await page.goForward();
	await page.waitForFunction((hash) => location.hash === hash, stolen);
	assert.deepStrictEqual(await page.evaluate(place), two, 'and forward');
	await page.reload();
	await page.waitForFunction(() => document.getElementById('loading').hidden);
	assert.deepStrictEqual(await page.evaluate(place), two, 'a reload');
	/* What makes no sense does no harm. */
	const time = `t=${two.from},${two.to}`;
	for (const bad of [
		't=1,2',
		'row=5',
		`${time}&row=99999999999`,
		`${time}&row=-5&span=-1.9.x`,
		`${time}&span=3.7.1&state=1e9.1`,
		`${time}&range=${two.to},${two.from}`,
	]) {
		await page.evaluate(
			(hash) =>
				new Promise((resolve) => {
					addEventListener('hashchange', resolve, { once: true });
					location.hash = hash;
				}),
			bad,
		);
		await settled(page);
		assert(!bad.startsWith(time) || (await page.evaluate(place)).row === null, bad);
	}
	await page.keyboard.press('Escape');
	await page.keyboard.press('0');
	assert((await page.evaluate(place)).row === null);
}

/* The table begins where the view does. */
async function checkFollow(page) {
	const nr = await page.evaluate(() => globalThis.tracebraid.trace.nr);
	for (const share of [0.5, 0.25]) {
		const row = Math.floor(nr * share);
		await page.evaluate((middle) => {
			const { trace, win } = globalThis.tracebraid;
			win.set(trace.time[middle], trace.time[middle] + 50000);
		}, row);
		/* The first line is the first event in view. */
		await page.waitForFunction(() => {
			const { trace, win, table } = globalThis.tracebraid;
			return table.top === trace.time.findIndex((time) => time >= win.t0);
		});
	}
	await page.keyboard.press('0');
}

/* Wherever the pointer is, the tip lies in the window and covers nothing of the lane. */
function tipAt([x, y]) {
	const { view } = globalThis.tracebraid,
		over = view.over.getBoundingClientRect(),
		lane = view.places.find((one) => {
			const at = y - over.top + view.scroller.scrollTop;
			return at >= one.y && at < one.y + one.height;
		}),
		tip = document.getElementById('tip');
	if (tip.hidden || !lane) return null;
	const box = tip.getBoundingClientRect(),
		top = over.top + lane.y - view.scroller.scrollTop;
	return {
		inside:
			box.left >= 0 &&
			box.top >= 0 &&
			box.right <= innerWidth &&
			box.bottom <= innerHeight,
		beside: box.bottom <= top || box.top >= top + lane.height || box.right < x || box.left > x,
		text: tip.textContent,
	};
}

/* Nothing is cut off at the window's right edge, and lanes and table have room. */
function layout() {
	const outside = [...document.querySelectorAll('header > *, #top > *, #lanes, #bottom, #status')]
		.filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
		.map(({ id, tagName }) => id || tagName);
	const heightOf = (id) => document.getElementById(id).clientHeight;
	const search = document.getElementById('search');
	return { outside, lanes: heightOf('lanes'), rows: heightOf('rows'), search: search.clientWidth };
}

async function checkSizes(page) {
	const before = page.viewportSize(),
		long = 'event:sched_switch stream:guest1 prev_state=R+';
	await page.fill('#search', long);
	const hidden = await page.evaluate(() => {
		const { scrollWidth, clientWidth } = document.getElementById('search');
		return scrollWidth - clientWidth;
	});
	assert(hidden <= 0, `the search shows all that was typed, but ${hidden} pixels`);
	await page.press('#search', 'Escape');
	for (const [width, height] of [
		[1500, 900],
		[800, 600],
		[390, 844],
	]) {
		const size = `${width}x${height}`;
		await page.setViewportSize({ width, height });
		await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
		if ((await page.evaluate(() => document.getElementById('head').hidden)) !== width < 1000)
			await page.click('#headbutton');
		const { outside, lanes, rows, search } = await page.evaluate(layout);
		assert.deepStrictEqual(outside, [], `${size}: all is within the window`);
		assert(lanes >= 120 && rows >= 60 && search >= 80, `${size}: ${lanes} ${rows} ${search}`);
		const { left, top, right, bottom } = await page.evaluate(() => {
			const box = document.getElementById('lanes').getBoundingClientRect();
			return { left: box.left, top: box.top, right: box.right, bottom: box.bottom };
		});
		let tips = 0;
		for (const x of [0.4, 0.7, 0.97])
			for (const y of [0.1, 0.3, 0.5, 0.7, 0.95]) {
				const at = [left + (right - left) * x, top + (bottom - top) * y];
				await page.mouse.move(...at);
				await page.evaluate(
					() => new Promise((resolve) => requestAnimationFrame(resolve)),
				);
				const tip = await page.evaluate(tipAt, at);
				if (!tip || !++tips) continue;
				assert(tip.inside, `${size}: the tip at ${at} is in the window: ${tip.text}`);
				assert(tip.beside, `${size}: the tip at ${at} covers its lane: ${tip.text}`);
			}
		assert(tips > 5, `${size}: ${tips} tips`);
	}
	await page.setViewportSize(before);
	if (await page.evaluate(() => document.getElementById('head').hidden))
		await page.click('#headbutton');
}

module.exports = { checkAddress, checkFollow, checkSizes };
