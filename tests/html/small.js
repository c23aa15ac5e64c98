// SPDX-License-Identifier: GPL-2.0-or-later
/* What a reader sees while working with a page: tips, pins, names, dates, and the recording's end. */
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const frame = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));

/* A point with a tip. */
async function hoverSomewhere(page) {
	const { left, top, right, bottom } = await page.evaluate(() => {
		const box = document.getElementById('lanes').getBoundingClientRect();
		return { left: box.left, top: box.top, right: box.right, bottom: box.bottom };
	});
	for (let y = top + 40; y < bottom; y += 9) {
		await page.mouse.move(left + 0.6 * (right - left), y);
		await frame(page);
		if (await page.isVisible('#tip')) return;
	}
	assert.fail('there is a tip somewhere');
}

/* A tip is of what is under the pointer: it does not stay when that has changed. */
async function checkTips(page) {
	await page.keyboard.press('0');
	for (const [what, act] of [
		['the filter', () => page.fill('#filter', 'event:none_is_called_so')],
		['a key', () => page.keyboard.press('e')],
		['folding', () => page.evaluate(() => document.querySelector('.label.group button').click())],
	]) {
		await hoverSomewhere(page);
		await act();
		await page.waitForFunction(() => document.getElementById('tip').hidden, null, {
			timeout: 3000,
		}).catch(() => assert.fail(`a tip is left behind by ${what}`));
		await page.fill('#filter', '');
		await page.press('#filter', 'Escape');
		await page.keyboard.press('Escape');
		await page.keyboard.press('0');
	}
	await page.evaluate(() => document.querySelector('.label.group button').click());
}

/* A pinned lane stays where it is while the others scroll, and is still what is under the pointer. */
async function checkPins(page) {
	const size = page.viewportSize();
	await page.setViewportSize({ width: 1000, height: 700 });
	await page.evaluate(() => globalThis.tracebraid.makeRoom());
	await frame(page);
	const name = await page.evaluate(() => {
		const { view, trace } = globalThis.tracebraid,
			place = view.places.findLast(({ lane }) => lane.kind === 1);
		return trace.laneText(place.lane);
	});
	const pin = `#labels button[aria-label="pin ${name}"]`;
	await page.focus(pin);
	await page.keyboard.press('Enter');
	for (const scrollTop of [0, 150]) {
		await page.evaluate((y) => (globalThis.tracebraid.view.scroller.scrollTop = y), scrollTop);
		await frame(page);
		await frame(page);
		const seen = await page.evaluate((text) => {
			const { view, trace } = globalThis.tracebraid,
				label = [...document.querySelectorAll('.label')].find(
					({ title }) => title === text,
				),
				box = document.getElementById('lanes').getBoundingClientRect();
			return {
				top: Math.round(label.getBoundingClientRect().top - box.top),
				hit: trace.laneText(view.at(300, 10).place.lane),
				below: view.at(300, view.pinnedHeight + 10).place.pinned === true,
			};
		}, name);
		assert.deepStrictEqual(seen, { top: 0, hit: name, below: false }, `scrolled by ${scrollTop}`);
	}
	await page.focus(pin);
	await page.keyboard.press('Enter');
	assert.strictEqual(await page.evaluate(() => globalThis.tracebraid.view.pinnedHeight), 0);
	await page.setViewportSize(size);
}

/* What assistive programs call an element. */
function unnamed() {
	const shown = (one) => one.closest('[hidden]') === null,
		nameOf = (one) =>
			one.getAttribute('aria-label') ||
			(one.labels && one.labels.length && one.labels[0].textContent.trim()) ||
			(['BUTTON', 'A'].includes(one.tagName) ? one.textContent.trim() : '');
	const all = [
		...document.querySelectorAll(
			'button, input, [tabindex], section, aside, dialog, main, [role=table], [role=list]',
		),
	].filter((one) => one.id !== 'bottom');
	const seen = new Map();
	const missing = all.filter((one) => !nameOf(one)).map((one) => one.id || one.outerHTML.slice(0, 80));
	for (const one of all.filter((button) => button.tagName === 'BUTTON' && shown(button)))
		seen.set(nameOf(one), (seen.get(nameOf(one)) || 0) + 1);
	const twice = [...seen].filter(([name, nr]) => nr > 1 && name !== 'close').map(([name]) => name);
	const orphans = [...document.querySelectorAll('[role=row]')].filter(
		(row) => !row.closest('[role=rowgroup]'),
	).length;
	return { missing, twice, orphans };
}

async function checkNames(page) {
	await page.click('#kindsbutton');
	assert.deepStrictEqual(await page.evaluate(unnamed), { missing: [], twice: [], orphans: 0 });
	await page.click('#kindsbutton');
	const labels = await page.$$eval('.label', (all) =>
		all.map((label) => {
			const group = label.title;
			return label.classList.contains('group') ? '' : `${group.split(' ')[0]} ${label.firstChild.textContent}`;
		}),
	);
	const lanes = labels.filter((text) => text);
	assert.strictEqual(new Set(lanes).size, lanes.length, `each lane has its own name: ${lanes}`);
}

/* After the last stop nothing is known: no pixel of a lane differs there, and no span lasts so long. */
function afterStop() {
	const app = globalThis.tracebraid,
		{ trace, view, win } = app,
		stop = trace.lastStop;
	win.set(stop - 1e6, stop + 1e6);
	app.drawNow();
	const x = Math.ceil((view.x(stop) + 2) * view.scale),
		wide = view.base.width - x,
		copy = new OffscreenCanvas(view.base.width, view.base.height).getContext('2d');
	copy.drawImage(view.base, 0, 0);
	const pixels = copy.getImageData(x, 0, wide, view.base.height).data.buffer;
	const longer = [];
	for (const lane of trace.lanes)
		for (const track of lane.tracks)
			for (let k = 0; track && k < track.nr; k++)
				if (track.end[k] > stop) longer.push([trace.laneText(lane), track.end[k] - stop]);
	return { colors: new Set(new Uint32Array(pixels)).size, longer, later: trace.last > stop, wide };
}

async function checkEnd(page) {
	const { colors, longer, later, wide } = await page.evaluate(afterStop);
	assert(later && wide > 100, 'the capture has events after its stop');
	assert.deepStrictEqual(longer, [], 'no span lasts longer');
	assert.strictEqual(colors, 1, 'nothing is drawn there');
	await page.keyboard.press('0');
}

/* With wall time, moments have dates, as in the report. */
async function checkDates(page, lines) {
	const date = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z/;
	assert.match(lines[0], date);
	assert.match(await page.textContent('#corner'), date);
	await page.keyboard.press('g');
	assert.match(await page.textContent('#details'), date);
	assert.match(await page.textContent('#verdict'), date);
	const from = await page.evaluate(() => {
		const { state, trace } = globalThis.tracebraid;
		return trace.timeText(state.range.from);
	});
	assert(
		lines.some((line) => line.includes(` ${from}: `)),
		`${from} is the time of an event in the report`,
	);
}

/* Colors of the lanes in the frame in which they get another size, when it is about to be shown. */
function resizedColors() {
	const { view } = globalThis.tracebraid,
		copy = new OffscreenCanvas(view.base.width, 100).getContext('2d');
	return new Promise((resolve) => {
		let calls = 0;
		new ResizeObserver((entries, observer) => {
			if (!calls++) {
				document.getElementById('bottom').style.height = '123px';
				return;
			}
			observer.disconnect();
			copy.drawImage(view.base, 0, 0);
			const pixels = copy.getImageData(0, 0, view.base.width, 100).data.buffer;
			resolve(new Set(new Uint32Array(pixels)).size);
		}).observe(document.getElementById('lanes'));
	});
}

async function checkResize(page) {
	const colors = await page.evaluate(resizedColors);
	assert(colors > 20, `lanes are drawn in the frame in which they are resized: ${colors} colors`);
	await page.evaluate(() => (document.getElementById('bottom').style.height = ''));
}

/* A browser that makes one frame and no more has drawn everything in it. */
async function checkPicture(browser, page, folder) {
	const file = path.join(folder, 'picture.png');
	execFileSync(
		'/usr/bin/chromium',
		[
			'--headless',
			'--disable-gpu',
			'--no-sandbox',
			'--window-size=1000,700',
			'--virtual-time-budget=20000',
			`--screenshot=${path.resolve(file)}`,
			pathToFileURL(path.resolve(page)).href,
		],
		{ stdio: 'ignore', timeout: 120000 },
	);
	const look = await browser.newPage(),
		png = `data:image/png;base64,${fs.readFileSync(file).toString('base64')}`;
	const shares = await look.evaluate(async (src) => {
		const image = new Image();
		image.src = src;
		await image.decode();
		const canvas = document.createElement('canvas');
		Object.assign(canvas, { width: image.width, height: image.height });
		const context = canvas.getContext('2d');
		context.drawImage(image, 0, 0);
		const all = new Uint32Array(
			context.getImageData(0, 0, image.width, image.height).data.buffer,
		);
		const black = all.filter((pixel) => (pixel & 0xffffff) === 0).length;
		return { black: black / all.length, colors: new Set(all).size };
	}, png);
	assert(shares.black < 0.02 && shares.colors > 100, `a picture: ${JSON.stringify(shares)}`);
	await look.close();
}

module.exports = { checkDates, checkEnd, checkNames, checkPicture, checkPins, checkResize, checkTips };
