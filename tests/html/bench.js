// SPDX-License-Identifier: GPL-2.0-or-later
/* bench.js PAGE: the time to load, to search, and to draw while zooming and moving. */
'use strict';

const { launch, open } = require('./browser.js');

function middle(values, share = 0.5) {
	return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * share)];
}

/* From the complete trace down to microseconds, with a move at each step. */
function frames(nr) {
	const app = globalThis.tracebraid,
		drawn = [],
		{ win, trace } = app;
	const at = trace.first + (trace.last - trace.first) * 0.4;
	win.all();
	for (let k = 0; k < nr; k++) {
		const before = performance.now();
		if (k % 2) win.pan(0.03);
		else win.zoom(0.93, at);
		app.drawNow();
		drawn.push(performance.now() - before);
	}
	return drawn;
}

/* Simulates a held key: the time from one frame of the browser to the next. */
function held(ms) {
	const app = globalThis.tracebraid,
		times = [],
		until = performance.now() + ms;
	app.win.all();
	return new Promise((resolve) => {
		let before = performance.now();
		const frame = () => {
			const now = performance.now();
			times.push(now - before);
			before = now;
			app.win.zoom(0.985);
			if (now < until) requestAnimationFrame(frame);
			else resolve(times);
		};
		requestAnimationFrame(frame);
	});
}

async function search(text) {
	const before = performance.now(),
		app = globalThis.tracebraid;
	await app.search(text);
	return { ms: performance.now() - before, found: app.matches.length };
}

async function main() {
	const browser = await launch(),
		complaints = [],
		before = Date.now();
	const page = await open(browser, process.argv[2], complaints);
	const loaded = Date.now() - before;
	const say = (what, values) =>
		console.log(
			`${what.padEnd(22)} median ${middle(values).toFixed(1)} ms, ` +
				`99 % ${middle(values, 0.99).toFixed(1)} ms, worst ${middle(values, 1).toFixed(1)} ms`,
		);
	console.log(
		`${await page.evaluate(() => globalThis.tracebraid.trace.nr)} rows loaded in ${loaded} ms`,
	);
	await page.evaluate(frames, 20);
	say('drawing', await page.evaluate(frames, 300));
	say('frame to frame', await page.evaluate(held, 4000));
	const { ms, found } = await page.evaluate(search, 'swapper');
	console.log(`search for a word      ${ms.toFixed(0)} ms, ${found} found`);
	console.log(...complaints);
	await browser.close();
}

main();
