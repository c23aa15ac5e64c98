// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of traces with holes, resets, losses: what they say is what the analyses say. */
'use strict';

const assert = require('node:assert');
const path = require('node:path');
const { open } = require('./browser.js');
const { stolenSums } = require('./states.js');
const { verdictOf } = require('./verdict.js');

const STATES = [
	['stolen', 5],
	['throttled', 6],
	['halted', 7],
	['blocked', 8],
	['sleeping', 9, 12],
	['stopped', 10],
	['offline', 11],
	['unknown', 0],
	['hypervisor', 2],
	['vmm', 3],
];

/* {"VCPU": [ns of each state]} of the lanes that have states. */
function stateSums() {
	const { trace } = globalThis.tracebraid,
		sums = {};
	for (const { states, group, number } of trace.lanes) {
		if (!states) continue;
		const of = new Array(16).fill(0);
		for (let k = 0; k < states.nr; k++) of[states.state[k]] += states.length(k);
		sums[`${trace.groups[group].name}/vCPU ${number}`] = of;
	}
	return sums;
}

/* {"VCPU": [wake-ups after which a task ran there, ns until it did]} */
function wakeSums() {
	const { trace } = globalThis.tracebraid,
		sums = {};
	for (const { kind, waits, group, number } of trace.lanes) {
		if (kind !== 1 || trace.groups[group].kind === 'host') continue;
		const sum = [0, 0];
		for (let row = 0; row < waits.times.length; row++) {
			const woken = waits.values[5 * row + 2];
			if (woken) {
				sum[0]++;
				sum[1] += woken - 1;
			}
		}
		if (sum[0]) sums[`${trace.groups[group].name}/vCPU ${number}`] = sum;
	}
	return sums;
}

/* What is drawn at times that are in no recording: [what, from, to], from the base. */
function outside(recordings) {
	const { longest, trace } = globalThis.tracebraid,
		found = [];
	const put = (what, from, to) => {
		if (!recordings.some(([start, stop]) => from >= start && to <= stop))
			found.push([what, from, to]);
	};
	for (const { states, group, number } of trace.lanes)
		for (let k = 0; states && k < states.nr; k++)
			put(`${trace.groups[group].name} ${number} ${states.state[k]}`, states.start[k], states.end[k]);
	for (const what of ['stolen', 'gaps'])
		for (const { from, to } of longest.list(what)) put(what, from, to);
	for (const lane of trace.lanes)
		for (const track of lane.tracks || [])
			for (let k = 0; track && k < track.nr; k++) put(`task on ${lane.number}`, track.start[k], track.end[k]);
	return found;
}

/* The incarnations of a guest share a lane, with its VM while no driver runs. */
const laneOf = (vcpu) => vcpu.replace(/ \((\d+|no driver(, \d+)?)\)\//, '/');

function lanesOf(rows) {
	const lanes = {};
	for (const row of rows) {
		const lane = (lanes[laneOf(row.vcpu)] ||= { vcpu: laneOf(row.vcpu) });
		for (const [key, value] of Object.entries(row))
			if (key !== 'vcpu') lane[key] = (lane[key] || 0) + value;
	}
	return Object.values(lanes);
}

function checkStates(found, rows, what) {
	const seen = rows.filter(({ vcpu }) => found[vcpu]);
	assert(seen.length > 0, `${what}: lanes with states`);
	for (const row of seen)
		for (const [name, ...numbers] of STATES) {
			const ns = numbers.reduce((sum, number) => sum + found[row.vcpu][number], 0);
			assert.strictEqual(ns, row[`${name}_ns`] || 0, `${what}: ${row.vcpu} ${name}`);
		}
	for (const row of rows.filter(({ vcpu }) => !found[vcpu]))
		assert.strictEqual(row.unknown_ns, row.observed_ns, `${what}: ${row.vcpu} has no states`);
}

function stolenOf(rows) {
	const sums = {};
	for (const { victim, culprit, total_ns: ns } of rows) {
		const key = `${laneOf(victim)} by ${culprit}`;
		sums[key] = (sums[key] || 0) + ns;
	}
	return sums;
}

async function checkTables(browser, run, folder, captures) {
	const complaints = [],
		file = path.join(folder, 'tables.html'),
		ask = (...words) => JSON.parse(run('analyze', ...words, '--json', ...captures));
	run('export', '--to', 'html', ...captures, '-o', file);
	const page = await open(browser, file, complaints);
	const what = path.basename(captures[0]);
	checkStates(await page.evaluate(stateSums), lanesOf(ask('states').vcpu_states), what);
	assert.deepStrictEqual(
		await page.evaluate(stolenSums),
		stolenOf(ask('steal', '--by', 'task').steal),
		`${what}: stolen time`,
	);
	assert.deepStrictEqual(
		await page.evaluate(wakeSums),
		Object.fromEntries(
			lanesOf(ask('wake').wakeups).map(({ vcpu, count, total_ns: ns }) => [vcpu, [count, ns]]),
		),
		`${what}: wake-ups`,
	);
	const { summary, stalls } = await page.evaluate(verdictOf);
	assert.deepStrictEqual(summary, ask('summary'), what);
	assert.deepStrictEqual(stalls, ask('stalls', '-n', '3'), what);
	const base = await page.evaluate(() => String(globalThis.tracebraid.trace.base));
	const recordings = run('sql', '--json', captures[0], ...captures.slice(1), 'SELECT * FROM recordings')
		.trimEnd()
		.split('\n')
		.filter((line) => line)
		.map((line) => JSON.parse(line))
		.map(({ start_ns: start, stop_ns: stop }) => [start - Number(base), stop - Number(base)]);
	if (recordings.length)
		assert.deepStrictEqual(await page.evaluate(outside, recordings), [], `${what}: outside`);
	assert.deepStrictEqual(complaints, []);
	await page.context().close();
}

module.exports = { checkTables };
