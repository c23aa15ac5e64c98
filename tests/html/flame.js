// SPDX-License-Identifier: GPL-2.0-or-later
/* The flame graph of a page's profile. */
'use strict';

const assert = require('node:assert');
const path = require('node:path');
const { open } = require('./browser.js');

/* {"guest1;vCPU 0;...": ns} of frames with time of their own. */
function stacks() {
	const { profile } = globalThis.tracebraid.flame,
		sums = {};
	for (let k = 0; k < profile.nr; k++)
		if (profile.own[k])
			sums[profile.path(k).map((of) => profile.text(of)).join(';')] = profile.own[k];
	return sums;
}

/* What is drawn: [name, ns, from, to] of the boxes of each row. */
function drawn() {
	const { flame } = globalThis.tracebraid;
	return flame.boxes.map((row) =>
		row.map(({ k, ns, x, width }) => [k < 0 ? null : flame.profile.text(k), ns, x, x + width]),
	);
}

/* The point in the middle of the widest box of a row, on the screen. */
function pointOf(depth) {
	const { flame } = globalThis.tracebraid,
		box = flame.boxes[depth].reduce((best, one) => (one.width > best.width ? one : best)),
		{ left, top } = document.getElementById('profilecanvas').getBoundingClientRect();
	return {
		x: left + box.x + box.width / 2,
		y: top + flame.top(depth) + 8,
		name: flame.profile.text(box.k),
		ns: box.ns,
	};
}

/* Boxes of a row don't overlap, and are within those above. */
function checkBoxes(rows, width, whole, what) {
	rows.forEach((row, depth) => {
		let end = 0;
		for (const [, , from, to] of row) {
			assert(from >= end - 1e-6 && to <= width + 1e-6, `${what}: boxes of row ${depth}`);
			end = to;
		}
		const ns = row.reduce((sum, one) => sum + one[1], 0);
		assert(ns <= rows[0].reduce((sum, one) => sum + one[1], 0), `${what}: time of row ${depth}`);
	});
	assert(Math.abs(rows[0].at(-1)[3] - width) < 1e-6, `${what}: the first row is as wide as the graph`);
	assert.strictEqual(rows[0].reduce((sum, one) => sum + one[1], 0), whole, `${what}: all of the time`);
}

const text = (page, id) => page.textContent(`#${id}`);
const widthOf = (page) => page.evaluate(() => document.getElementById('profilebox').clientWidth);

/* A click zooms to a frame, a link leads back. */
async function checkZoom(page, sums, whole) {
	const guest = await page.evaluate(pointOf, 0);
	await page.mouse.click(guest.x, guest.y);
	const vcpu = await page.evaluate(pointOf, 1);
	await page.mouse.move(vcpu.x, vcpu.y);
	const tip = await text(page, 'profiletip'),
		share = ((100 * vcpu.ns) / whole).toFixed(2);
	assert(tip.startsWith(vcpu.name) && tip.includes(`${share} % of all`), `${vcpu.name}, ${share} in ${tip}`);
	await page.mouse.click(vcpu.x, vcpu.y);
	const rows = await page.evaluate(drawn),
		prefix = `${guest.name};${vcpu.name};`,
		ns = Object.keys(sums)
			.filter((stack) => `${stack};`.startsWith(prefix))
			.reduce((sum, stack) => sum + sums[stack], 0);
	assert.deepStrictEqual(
		rows.slice(0, 2).map((row) => row.map(([name]) => name)),
		[[guest.name], [vcpu.name]],
		'what is zoomed to is as wide as the graph',
	);
	assert.strictEqual(rows[1][0][1], ns);
	assert.strictEqual(rows[2].reduce((sum, one) => sum + one[1], 0), ns, 'tasks of the vCPU');
	assert.strictEqual(
		await page.evaluate(() => document.getElementById('profileof').selectedOptions[0].textContent),
		`${guest.name} / ${vcpu.name}`,
	);
	await page.click('#profilepath button');
	assert.deepStrictEqual((await page.evaluate(drawn))[0].map(([name]) => name), [guest.name]);
	await page.click('#profileall');
	assert((await page.evaluate(drawn))[0].length > 1, 'all guests');
}

/* The share of what matches: of nested frames once. */
async function checkSearch(page, sums, whole) {
	for (const word of ['TIMER', '[stolen]', 'vCPU 1', '<i>', 'no such function']) {
		await page.fill('#profilesearch', word);
		const ns = Object.keys(sums)
			.filter((stack) => stack.toLowerCase().includes(word.toLowerCase()))
			.reduce((sum, stack) => sum + sums[stack], 0);
		assert.strictEqual(ns > 0, !word.startsWith('no'), `${word} is there`);
		const found = await text(page, 'profilefound');
		assert(found.startsWith(`${((100 * ns) / whole).toFixed(2)} % matched`), `${word}: ${found}`);
	}
	await page.fill('#profilesearch', '');
	assert.strictEqual(await text(page, 'profilefound'), '');
}

/* Arrows lead along frames, Enter zooms, Esc leads back; and the lanes do not move. */
async function checkKeys(page) {
	const range = () => {
			const { win, flame } = globalThis.tracebraid;
			return { t0: win.t0, t1: win.t1, zoomed: flame.zoomed };
		},
		before = await page.evaluate(range);
	await page.focus('#profilebox');
	for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowLeft', 'Enter']) await page.keyboard.press(key);
	assert.match(await text(page, 'profilesaid'), /^vCPU \d: .*of what is shown/);
	await page.keyboard.press('Escape');
	assert.deepStrictEqual(await page.evaluate(range), before);
	assert(await page.isVisible('#profile'), 'the graph stays');
	await page.keyboard.press('Escape');
	assert(!(await page.isVisible('#profile')), 'another Esc closes it');
	await page.click('#profilebutton');
}

/* Names are text; and upwards, the first row is the lowest. */
async function checkRest(page) {
	const above = await page.evaluate(pointOf, 0);
	await page.click('#profileflip');
	const below = await page.evaluate(pointOf, 0);
	assert(below.y > above.y && below.name === above.name);
	await page.click('#profileflip');
	const markup = await page.evaluate(() => {
		const { flame } = globalThis.tracebraid,
			k = flame.profile.names.findIndex((name) => name.includes('<i>'));
		flame.zoom(flame.profile.name.indexOf(k));
		return document.querySelectorAll('i').length;
	});
	assert.strictEqual(markup, 0);
	assert((await text(page, 'profilepath')).includes('<i>'), 'a name with markup is shown');
	await page.click('#profileall');
	await page.setViewportSize({ width: 700, height: 600 });
	await page.waitForFunction(() => {
		const row = globalThis.tracebraid.flame.boxes[0],
			last = row[row.length - 1];
		return Math.abs(last.x + last.width - document.getElementById('profilebox').clientWidth) < 1;
	});
}

async function checkFlame(browser, run, folder, capture) {
	const complaints = [],
		file = path.join(folder, 'flame.html'),
		sums = {};
	run('export', '--to', 'html', capture, '-o', file);
	for (const line of run('analyze', 'profile', '--folded', capture).trimEnd().split('\n')) {
		const at = line.lastIndexOf(' '),
			stack = line.slice(0, at);
		sums[stack] = (sums[stack] || 0) + Number(line.slice(at));
	}
	const whole = Object.values(sums).reduce((sum, ns) => sum + ns, 0),
		page = await open(browser, file, complaints);
	assert.deepStrictEqual(await page.evaluate(stacks), sums, 'stacks and their time');
	assert(!(await page.isVisible('#profile')), 'the graph is shown on demand');
	await page.click('#profilebutton');
	checkBoxes(await page.evaluate(drawn), await widthOf(page), whole, 'all');
	await checkZoom(page, sums, whole);
	await checkSearch(page, sums, whole);
	await checkKeys(page);
	await checkRest(page);
	assert.deepStrictEqual(complaints, []);
	await page.context().close();
}

async function checkNoFlame(browser, file) {
	const complaints = [],
		page = await open(browser, file, complaints);
	assert(!(await page.isVisible('#profilebutton')), 'no profile without samples');
	await page.keyboard.press('Escape');
	assert.deepStrictEqual(complaints, []);
	await page.context().close();
}

module.exports = { checkFlame, checkNoFlame };
