// SPDX-License-Identifier: GPL-2.0-or-later
/* What is typed into search and filter: words that must all match; panels.js explains the rest. */

/* [{key, word, not}]; words in quotes may hold spaces. */
function parseQuery(text) {
	const terms = [];
	for (const [, not, key, quoted, bare] of text.matchAll(
		/(!?)(?:(event|system|task|pid|stream|cpu):)?(?:"([^"]*)"|(\S+))/g,
	)) {
		const word = quoted ?? bare;
		if (word) terms.push({ not: !!not, key: key || 'any', word });
	}
	return terms;
}

/* A word without capitals matches those with them too. */
function finder(word) {
	const exact = word !== word.toLowerCase();
	const fold = exact ? (text) => text : (text) => text.toLowerCase();
	return { fold, has: (text) => fold(text).includes(word) };
}

/* For each name, whether a test says yes; each is asked once. */
function nameTable(trace, type, test) {
	return Uint8Array.from(trace.nameType, (t, k) => type === t && test(k));
}

function laneTable(trace, test) {
	return Uint8Array.from(trace.lanes, (lane) => test(lane));
}

/* A term as a test of a row; what its text says is looked up in @inText, a mark for each row. */
function rowTest(trace, { key, word }, inText) {
	const { kind, task, lane } = trace,
		{ has } = finder(word);
	if (key === 'stream') {
		const yes = laneTable(trace, (l) => has(trace.groups[l.group].name));
		return (row) => yes[lane[row]];
	}
	if (key === 'cpu') {
		const yes = laneTable(
			trace,
			(l) => l.kind !== LANE.GROUP && l.number === Number(word),
		);
		return (row) => yes[lane[row]];
	}
	if (key === 'system') {
		const yes = nameTable(trace, NAME.EVENT, (k) =>
			has(trace.nameText[trace.nameNumber[k]]),
		);
		return (row) => yes[kind[row]];
	}
	const named = trace.nameText.map((text, k) => has(text) && trace.nameType[k] <= NAME.EVENT);
	if (key === 'event') return (row) => named[kind[row]];
	const tasks = nameTable(trace, NAME.TASK, (k) =>
		key === 'pid'
			? trace.nameNumber[k] === Number(word)
			: has(`${trace.nameText[k]}-${trace.nameNumber[k]}`),
	);
	const byTask = (row) => task[row] && tasks[task[row] - 1];
	return key === 'any' ? (row) => named[kind[row]] || byTask(row) || inText[row] : byTask;
}

/* Marks the rows in whose texts a word is, block by block so that the page stays alive. */
async function searchTexts(trace, word, marks, keepOn, progress) {
	const { fold } = finder(word),
		texts = trace.texts;
	for (let block = 0; block < texts.packed.length; block++) {
		const { text, offsets } = await texts.load(block);
		const folded = fold(text),
			first = texts.firsts[block];
		/* A letter that folds to two would shift what follows it. */
		const whole = folded.length === text.length;
		for (let k = 0; !whole && k + 1 < offsets.length; k++)
			marks[first + k] = fold(text.slice(offsets[k], offsets[k + 1])).includes(
				word,
			);
		for (let at = whole ? folded.indexOf(word) : -1; at >= 0; ) {
			const k = upperBound(offsets, at) - 1;
			marks[first + k] = 1;
			at = folded.indexOf(word, offsets[k + 1]);
		}
		if (!keepOn()) return false;
		await progress(block / texts.packed.length);
	}
	return true;
}

/*
 * The rows that match, in order; null when @keepOn said no. An empty query matches
 * nothing that is not asked for: null as well.
 */
async function runQuery(trace, text, keepOn, progress) {
	const tests = [];
	for (const term of parseQuery(text)) {
		let marks = null;
		if (term.key === 'any') {
			marks = new Uint8Array(trace.nr);
			if (!(await searchTexts(trace, term.word, marks, keepOn, progress)))
				return null;
		}
		const test = rowTest(trace, term, marks);
		tests.push(term.not ? (row) => !test(row) : test);
	}
	if (!tests.length) return null;
	const rows = new Uint32Array(trace.nr);
	let nr = 0;
	for (let row = 0; row < trace.nr; row++)
		if (tests.every((test) => test(row))) rows[nr++] = row;
	return rows.slice(0, nr);
}
