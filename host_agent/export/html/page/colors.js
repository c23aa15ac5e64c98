// SPDX-License-Identifier: GPL-2.0-or-later
/* Colors, by what a thing is called: the same name has the same one everywhere. */

/* A color as a canvas keeps it in memory: red first. */
function packed(r, g, b) {
	return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

function fromHsl(hue, saturation, light) {
	const chroma = saturation * Math.min(light, 1 - light);
	const part = (n) => {
		const k = (n + hue / 30) % 12;
		return Math.round(255 * (light - chroma * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
	};
	return packed(part(0), part(8), part(4));
}

/* @share of one color, the rest of another. */
function mix(a, b, share) {
	const s = Math.round(share * 256),
		t = 256 - s;
	const even = (((a & 0xff00ff) * s + (b & 0xff00ff) * t) >>> 8) & 0xff00ff;
	const odd = (((a >>> 8) & 0xff) * s + ((b >>> 8) & 0xff) * t) & 0xff00;
	return ((255 << 24) | even | odd) >>> 0;
}

function css(color, alpha = 1) {
	return `rgb(${color & 255} ${(color >>> 8) & 255} ${(color >>> 16) & 255} / ${alpha})`;
}

function hashOf(text) {
	let hash = 0x811c9dc5;
	for (let k = 0; k < text.length; k++)
		hash = Math.imul(hash ^ text.charCodeAt(k), 0x01000193);
	return (hash ^ (hash >>> 15)) >>> 0;
}

class Palette {
	constructor(trace, dark) {
		const grey = (light) => fromHsl(220, 0.12, light);
		this.dark = dark;
		/* As in style.css. */
		this.back = dark ? packed(0x16, 0x18, 0x1d) : packed(255, 255, 255);
		this.groupBack = dark ? packed(0x20, 0x23, 0x2b) : packed(0xf3, 0xf4, 0xf7);
		this.backOdd = mix(this.back, this.groupBack, 0.5);
		this.text = dark ? grey(0.88) : grey(0.15);
		this.faint = dark ? grey(0.55) : grey(0.45);
		this.line = dark ? packed(0x36, 0x3b, 0x47) : packed(0xd3, 0xd6, 0xdf);
		this.onSpan = dark ? grey(0.97) : grey(0.08);
		this.loss = dark ? packed(255, 80, 80) : packed(214, 30, 40);
		this.note = dark ? packed(255, 190, 70) : packed(190, 105, 0);
		this.found = dark ? packed(255, 225, 60) : packed(235, 150, 0);
		this.stolen = dark ? packed(255, 176, 0) : packed(222, 110, 0);
		this.exited = dark ? packed(240, 130, 220) : packed(150, 40, 130);
		this.unknown = dark ? grey(0.36) : grey(0.72);
		this.cursor = dark ? packed(240, 240, 250) : packed(40, 40, 60);
		this.selected = dark ? packed(90, 180, 255) : packed(10, 90, 220);
		/* Of each host and guest; and for text in it. */
		const ofGroup = (light) => (group, g) => fromHsl((210 + g * 67) % 360, 0.5, light);
		this.groups = trace.groups.map(ofGroup(0.55));
		this.groupTexts = trace.groups.map(ofGroup(dark ? 0.72 : 0.38));
		this.tick = dark ? grey(0.68) : grey(0.38);
		this.names = Uint32Array.from(trace.nameText, (text, k) =>
			this.ofName(trace.nameType[k], text, trace.nameNumber[k]),
		);
	}

	tone(hue, saturation, shift = 0) {
		/* Yellow and green look lighter than they are, and white is to be read on them. */
		const bright = this.dark && hue > 35 && hue < 190 ? 0.09 : 0;
		return fromHsl(hue, saturation, (this.dark ? 0.43 : 0.7) - bright + shift);
	}

	ofName(type, text, number) {
		const hash = hashOf(type === NAME.TASK ? `${text}/${number}` : text);
		const shift = ((hash >>> 12) & 3) * 0.025;
		switch (type) {
			case NAME.TASK:
				return this.tone(hash % 360, 0.55, shift);
			case NAME.EVENT:
				return fromHsl(hash % 360, 0.6, this.dark ? 0.62 : 0.42);
			case NAME.IRQ:
				return this.tone(15 + (hash % 45), 0.75, shift);
			case NAME.SYSCALL:
				return this.tone(200 + (hash % 70), 0.45, shift);
			case NAME.GUEST:
				return this.tone(135, 0.45);
			case NAME.EXIT:
				/* A vCPU that halts waits for work: the eye need not be drawn to it. */
				return /hlt|halt/i.test(text)
					? this.tone(225, 0.12, this.dark ? -0.17 : 0.14)
					: this.tone(325 + (hash % 50), 0.6, shift);
			case NAME.ON_CPU:
				return this.tone(180 + ((number * 47) % 180), 0.3);
			case NAME.WAITING:
				return this.tone(42, 0.85, this.dark ? 0.05 : -0.05);
		}
		return this.loss;
	}
}
