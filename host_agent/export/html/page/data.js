// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the chunks out of the page: letters to bytes, bytes unpacked, columns of numbers. */

const CHUNKS = 'script[type="application/octet-stream"]';

function fromLetters(text) {
	if (Uint8Array.fromBase64)
		return Uint8Array.fromBase64(text, { lastChunkHandling: 'loose' });
	const bytes = atob(text),
		out = new Uint8Array(bytes.length);
	for (let k = 0; k < bytes.length; k++) out[k] = bytes.charCodeAt(k);
	return out;
}

async function inflate(packed) {
	const stream = new Blob([packed])
		.stream()
		.pipeThrough(new DecompressionStream('deflate-raw'));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Numbers of 7 bits a byte, low ones first; beyond 2^53 the last digits are lost. */
class Numbers {
	constructor(bytes, at = 0, end = bytes.length) {
		this.bytes = bytes;
		this.at = at;
		this.end = end;
	}

	next() {
		const bytes = this.bytes;
		let byte = bytes[this.at++],
			value = byte & 127,
			scale = 128;
		while (byte >= 128 && this.at < this.end) {
			byte = bytes[this.at++];
			value += (byte & 127) * scale;
			scale *= 128;
		}
		return value;
	}

	/* 0, -1, 1, -2 ... */
	signed() {
		const value = this.next();
		return value % 2 ? -(value + 1) / 2 : value / 2;
	}

	more() {
		return this.at < this.end;
	}

	text(bytes) {
		const from = this.at;
		this.at += bytes;
		return UTF8.decode(this.bytes.subarray(from, this.at));
	}
}

const UTF8 = new TextDecoder();

/* A chunk of columns: how many rows, and a reader of each column. */
function columnsOf(bytes, nr) {
	const head = new Numbers(bytes),
		rows = head.next(),
		lengths = [];
	for (let k = 0; k < nr; k++) lengths.push(head.next());
	let at = head.at;
	const columns = lengths.map((length) => new Numbers(bytes, at, (at += length)));
	return { rows, columns };
}

/* All chunks, by kind. Texts stay packed: they are many, and few are seen. */
async function takeChunks(progress) {
	const elements = [...document.querySelectorAll(CHUNKS)];
	const chunks = { names: [], rows: [], spans: [], states: [], waits: [], texts: [], meta: [],
		verdict: [], flame: [] };
	let done = 0;
	for (const element of elements) {
		const kind = element.dataset.kind,
			packed = fromLetters(element.textContent);
		element.remove();
		if (chunks[kind])
			chunks[kind].push(kind === 'texts' ? packed : await inflate(packed));
		if (++done % 32 === 0) await progress(done / elements.length);
	}
	return chunks;
}

/* The texts of the rows, a block of rows at a time. */
class Texts {
	constructor(packed, firsts) {
		this.packed = packed;
		this.firsts = firsts; /* of each block, and the end */
		this.cache = new Map(); /* block: {text, offsets}, the latest last */
		this.loading = new Map();
	}

	blockOf(row) {
		let low = 0,
			high = this.packed.length - 1;
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (this.firsts[middle] <= row) low = middle;
			else high = middle - 1;
		}
		return low;
	}

	async unpack(block) {
		const text = UTF8.decode(await inflate(this.packed[block]));
		const offsets = new Uint32Array(this.firsts[block + 1] - this.firsts[block] + 1);
		for (let k = 0, at = 0; k + 1 < offsets.length; k++)
			offsets[k + 1] = at = text.indexOf('\n', at) + 1;
		return { text, offsets };
	}

	load(block) {
		const there = this.cache.get(block);
		if (there) return Promise.resolve(there);
		if (!this.loading.has(block)) {
			const loaded = this.unpack(block).then((unpacked) => {
				this.loading.delete(block);
				this.cache.set(block, unpacked);
				if (this.cache.size > 24)
					this.cache.delete(this.cache.keys().next().value);
				return unpacked;
			});
			this.loading.set(block, loaded);
		}
		return this.loading.get(block);
	}

	/* A row's text, or null; then @later is called when it can be had. */
	of(row, later) {
		const block = this.blockOf(row),
			there = this.cache.get(block);
		if (!there) {
			this.load(block).then(later);
			return null;
		}
		const k = row - this.firsts[block];
		return there.text.slice(there.offsets[k], there.offsets[k + 1] - 1);
	}

	async get(row) {
		await this.load(this.blockOf(row));
		return this.of(row, () => {});
	}
}
