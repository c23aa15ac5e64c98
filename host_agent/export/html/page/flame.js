// SPDX-License-Identifier: GPL-2.0-or-later
/* The profile as a flame graph: what divides the vCPUs' time, as wide as it is long. */

const FRAME_HEIGHT = 17,
	LEAST_FRAME = 1, /* pixels: narrower ones are drawn together */
	ALL = -1; /* instead of a frame */

/* Frames as columns; a frame's parent precedes it. */
class Profile {
	constructor(bytes) {
		const { rows, columns } = columnsOf(bytes, 5),
			[parent, name, own, combined, names] = columns;
		this.nr = rows;
		this.parent = Int32Array.from({ length: rows }, () => parent.next() - 1);
		this.name = Uint32Array.from({ length: rows }, () => name.next());
		this.own = Float64Array.from({ length: rows }, () => own.next());
		this.combined = Uint32Array.from({ length: rows }, () => combined.next());
		this.names = [];
		while (names.more()) this.names.push(names.text(names.next()));
		this.total = Float64Array.from(this.own);
		for (let k = rows - 1; k >= 0; k--)
			if (this.parent[k] >= 0) this.total[this.parent[k]] += this.total[k];
		this.place();
	}

	/* Siblings from the widest to the narrowest; those that are combined come last. */
	place() {
		const { nr, parent, total, combined } = this,
			used = new Float64Array(nr + 1), /* by children: of each frame, and of all */
			order = Uint32Array.from({ length: nr }, (_, k) => k);
		this.depth = new Uint16Array(nr);
		for (let k = 0; k < nr; k++)
			this.depth[k] = parent[k] >= 0 ? this.depth[parent[k]] + 1 : 0;
		order.sort(
			(a, b) =>
				this.depth[a] - this.depth[b] ||
				!!combined[a] - !!combined[b] ||
				total[b] - total[a] ||
				a - b,
		);
		this.start = new Float64Array(nr);
		for (const k of order) {
			const at = parent[k] >= 0 ? parent[k] : nr;
			this.start[k] = (at < nr ? this.start[at] : 0) + used[at];
			used[at] += total[k];
		}
		this.order = order.sort(
			(a, b) => this.depth[a] - this.depth[b] || this.start[a] - this.start[b],
		); /* rows of frames, each from left to right */
		this.ns = used[nr];
	}

	text(k) {
		return this.names[this.name[k]];
	}

	end(k) {
		return this.start[k] + this.total[k];
	}

	/* Whether @k is @of or below it. */
	within(k, of) {
		return (
			of === ALL ||
			(this.depth[k] >= this.depth[of] &&
				this.start[k] >= this.start[of] &&
				this.end(k) <= this.end(of) &&
				this.ancestors(k, this.depth[of]) === of)
		);
	}

	/* The frame above @k that is at a depth. */
	ancestors(k, depth) {
		while (this.depth[k] > depth) k = this.parent[k];
		return k;
	}

	/* From the outermost frame to @k. */
	path(k) {
		const path = [];
		for (; k >= 0; k = this.parent[k]) path.unshift(k);
		return path;
	}

	/* Frames whose names have a text in them, and the time of all: of nested ones once. */
	find(text, of) {
		const wanted = text.toLowerCase(),
			yes = this.names.map((name) => name.toLowerCase().includes(wanted)),
			found = new Uint8Array(this.nr),
			under = new Uint8Array(this.nr);
		let ns = 0;
		for (let k = 0; k < this.nr; k++) {
			const above = this.parent[k] >= 0 && under[this.parent[k]];
			found[k] = yes[this.name[k]];
			under[k] = above || (found[k] && this.within(k, of)) ? 1 : 0;
			if (under[k] && !above) ns += this.total[k];
		}
		return { found, ns };
	}
}

function profileColor(palette, text, depth) {
	const hash = hashOf(text),
		shift = ((hash >>> 12) & 3) * 0.025;
	switch (text) {
		case '[stolen]':
		case '[throttled]':
			return palette.stolen;
		case '[interrupts off]':
		case '[timer late]':
			return palette.exited;
		case '[hypervisor]':
			return palette.tone(340, 0.6);
		case '[VMM]':
			return palette.tone(200, 0.5);
		case '[no sample]':
		case '[unknown]':
		case '[others]':
			return palette.unknown;
	}
	if (/^\[[a-z ]+\]$/.test(text)) return palette.tone(225, 0.12);
	return depth < 3
		? palette.tone(hash % 360, 0.3, shift)
		: palette.tone(5 + (hash % 50), 0.6, shift);
}

class FlameGraph {
	constructor(app) {
		this.app = app;
		this.profile = app.trace.profile;
		$('profilebutton').hidden = !this.profile;
		if (!this.profile) return;
		this.zoomed = ALL;
		this.focused = ALL;
		this.up = false; /* callers below what they call */
		this.found = null;
		this.boxes = []; /* by row: {x, width, k, nr, ns} from left to right */
		this.fill();
		this.listen();
		new ResizeObserver(() => this.draw()).observe($('profilebox'));
	}

	/* Guests, and their vCPUs. */
	fill() {
		const { profile } = this,
			option = (value, text) => el('option', { value: String(value) }, text);
		$('profileof').replaceChildren(option(ALL, 'all guests'));
		for (let k = 0; k < profile.nr; k++)
			if (profile.depth[k] < 2 && !profile.combined[k])
				$('profileof').append(
					option(
						k,
						profile
							.path(k)
							.map((of) => profile.text(of))
							.join(' / '),
					),
				);
	}

	listen() {
		const canvas = $('profilecanvas'),
			at = (event) => this.at(event.offsetX, event.offsetY);
		canvas.addEventListener('pointermove', (event) => this.tip(at(event), event));
		canvas.addEventListener('pointerleave', () => ($('profiletip').hidden = true));
		canvas.addEventListener('click', (event) => {
			const box = at(event);
			if (box && box.k >= 0) this.zoom(box.k);
		});
		$('profileof').addEventListener('change', () =>
			this.zoom(Number($('profileof').value)),
		);
		$('profileall').addEventListener('click', () => this.zoom(ALL));
		$('profileflip').addEventListener('click', () => {
			this.up = !this.up;
			$('profileflip').setAttribute('aria-pressed', String(this.up));
			this.draw();
		});
		$('profileform').addEventListener('submit', (event) => event.preventDefault());
		$('profilesearch').addEventListener('input', () => this.search());
		$('profilebox').addEventListener('keydown', (event) => this.down(event));
	}

	/* ALL: everything. */
	zoom(k) {
		this.zoomed = this.focused = k;
		$('profileof').value = String(
			k === ALL || this.profile.depth[k] < 2 ? k : this.profile.ancestors(k, 1),
		);
		$('profiletip').hidden = true;
		this.search();
	}

	search() {
		const { profile, zoomed } = this,
			text = $('profilesearch').value.trim(),
			{ found, ns } = text ? profile.find(text, zoomed) : { found: null, ns: 0 };
		this.found = found;
		$('profilefound').textContent = text
			? `${this.share(ns, this.whole())} matched, ${durationText(ns)}`
			: '';
		this.draw();
	}

	/* The time of what is shown. */
	whole() {
		return this.zoomed === ALL ? this.profile.ns : this.profile.total[this.zoomed];
	}

	share(ns, of) {
		return `${(of ? (100 * ns) / of : 0).toFixed(2)} %`;
	}

	/* Drawing ------------------------------------------------------------------------- */

	/* What is shown, by rows; frames narrower than a pixel are joined to one box. */
	lay(width) {
		const { profile, zoomed } = this,
			from = zoomed === ALL ? 0 : profile.start[zoomed],
			whole = this.whole() || 1,
			above = new Set(zoomed === ALL ? [] : profile.path(zoomed).slice(0, -1));
		this.boxes = [];
		for (const k of profile.order) {
			const row = (this.boxes[profile.depth[k]] ||= []),
				last = row[row.length - 1];
			if (above.has(k)) {
				row.push({ x: 0, width, k, nr: 1, ns: profile.total[k] });
				continue;
			}
			if (!profile.within(k, zoomed)) continue;
			const x = ((profile.start[k] - from) / whole) * width,
				wide = (profile.total[k] / whole) * width;
			if (wide >= LEAST_FRAME) {
				row.push({ x, width: wide, k, nr: 1, ns: profile.total[k] });
			} else if (last && last.k === ALL && x <= last.x + last.width + 1) {
				last.width = x + wide - last.x;
				last.nr += profile.combined[k] || 1;
				last.ns += profile.total[k];
			} else {
				row.push({
					x,
					width: wide,
					k: ALL,
					nr: profile.combined[k] || 1,
					ns: profile.total[k],
				});
			}
		}
		while (this.boxes.length && !this.boxes[this.boxes.length - 1].length) this.boxes.pop();
	}

	draw() {
		if (!this.profile || $('profile').hidden) return;
		const canvas = $('profilecanvas'),
			width = $('profilebox').clientWidth,
			scale = devicePixelRatio || 1;
		this.lay(width);
		sizeCanvas(canvas, width, this.boxes.length * FRAME_HEIGHT, scale);
		const pen = canvas.getContext('2d');
		pen.setTransform(scale, 0, 0, scale, 0, 0);
		pen.clearRect(0, 0, width, this.boxes.length * FRAME_HEIGHT);
		pen.font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
		pen.textBaseline = 'middle';
		this.letter = pen.measureText('0').width;
		this.boxes.forEach((row, depth) =>
			row.forEach((box) => this.drawBox(pen, box, this.top(depth))),
		);
		this.fillPath();
		this.say();
	}

	top(depth) {
		return (this.up ? this.boxes.length - 1 - depth : depth) * FRAME_HEIGHT;
	}

	drawBox(pen, { x, width, k }, y) {
		const { profile, found } = this,
			{ palette } = this.app,
			text = k === ALL ? '' : profile.text(k),
			color =
				k === ALL
					? palette.unknown
					: profileColor(palette, text, profile.depth[k]),
			faint = found && !(k !== ALL && found[k]);
		pen.fillStyle = css(color, faint ? 0.35 : 1);
		pen.fillRect(x, y, Math.max(width - 0.5, 0.5), FRAME_HEIGHT - 1);
		if (found && !faint) {
			pen.fillStyle = css(palette.found);
			pen.fillRect(x, y + FRAME_HEIGHT - 4, Math.max(width - 0.5, 0.5), 3);
		}
		if (k !== ALL && k === this.focused) {
			pen.strokeStyle = css(palette.selected);
			pen.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1.5, 1), FRAME_HEIGHT - 2);
		}
		const letters = Math.floor((width - 6) / this.letter);
		if (letters < 3) return;
		pen.fillStyle = css(palette.onSpan, faint ? 0.6 : 1);
		pen.fillText(
			text.length > letters ? `${text.slice(0, letters - 1)}…` : text,
			x + 3,
			y + FRAME_HEIGHT / 2,
		);
	}

	/* Texts --------------------------------------------------------------------------- */

	fillPath() {
		const { profile, zoomed } = this,
			link = (text, k) => {
				const button = el('button', { type: 'button', className: 'link' }, text);
				button.addEventListener('click', () => this.zoom(k));
				return button;
			};
		$('profilepath').replaceChildren(
			...(zoomed === ALL ? [] : profile.path(zoomed)).flatMap((k) => [
				' › ',
				link(profile.text(k), k),
			]),
		);
	}

	describe(k) {
		const { profile } = this,
			ns = profile.total[k],
			parts = [
				`${durationText(ns)}, ${this.share(ns, profile.ns)} of all`,
				...(this.zoomed === ALL
					? []
					: [`${this.share(ns, this.whole())} of what is shown`]),
				...(profile.own[k] && profile.own[k] !== ns
					? [`${durationText(profile.own[k])} itself`]
					: []),
				...(profile.combined[k]
					? [`${countText(profile.combined[k])} narrower frames together`]
					: []),
			];
		return [profile.text(k), parts.join('; ')];
	}

	say() {
		const { profile, focused } = this;
		$('profilesaid').textContent =
			focused === ALL
				? `${durationText(profile.ns)} of vCPU time; click a frame to zoom`
				: this.describe(focused).join(': ');
	}

	at(x, y) {
		const row = Math.floor(y / FRAME_HEIGHT),
			depth = this.up ? this.boxes.length - 1 - row : row;
		return (this.boxes[depth] || []).find(
			(box) => x >= box.x && x < box.x + Math.max(box.width, 1),
		);
	}

	tip(box, event) {
		const tip = $('profiletip');
		tip.hidden = !box;
		$('profilecanvas').style.cursor = box && box.k !== ALL ? 'pointer' : '';
		if (!box) return;
		const [name, text] =
			box.k === ALL
				? [
						`${countText(box.nr)} narrow frame${box.nr === 1 ? '' : 's'}`,
						`${durationText(box.ns)}, ${this.share(box.ns, this.profile.ns)} of all`,
					]
				: this.describe(box.k);
		tip.replaceChildren(el('b', name), el('div', text));
		const { width, height } = tip.getBoundingClientRect(),
			below = event.clientY + 16;
		tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4))}px`;
		tip.style.top = `${below + height < innerHeight ? below : event.clientY - height - 8}px`;
	}

	/* Keys ---------------------------------------------------------------------------- */

	/* Of what is drawn: the frame above, below, or beside the focused one. */
	beside(key) {
		const { profile, focused, boxes, up } = this,
			frames = (depth) =>
				(boxes[depth] || []).map(({ k }) => k).filter((k) => k !== ALL);
		if (focused === ALL) return frames(0)[0] ?? ALL;
		const depth = profile.depth[focused],
			row = frames(depth),
			inward = up ? 'ArrowUp' : 'ArrowDown';
		if (key === 'ArrowLeft') return row[row.indexOf(focused) - 1] ?? focused;
		if (key === 'ArrowRight') return row[row.indexOf(focused) + 1] ?? focused;
		return key === inward
			? (frames(depth + 1).find((k) => profile.parent[k] === focused) ?? focused)
			: Math.max(profile.parent[focused], ALL);
	}

	down(event) {
		if (event.ctrlKey || event.altKey || event.metaKey) return;
		if (/^Arrow/.test(event.key)) {
			this.focused = this.beside(event.key);
			this.draw();
		} else if (event.key === 'Enter') {
			this.zoom(this.focused);
		} else if (event.key === 'Escape' && this.zoomed !== ALL) {
			this.zoom(ALL);
		} else {
			return;
		}
		event.preventDefault();
		event.stopPropagation();
	}
}
