// The search: an index of words, loaded when somebody types. Pages work without it.
"use strict";
(() => {
	const form = document.getElementById("site-search");
	const field = form.elements.q;
	const found = document.getElementById("site-found");
	const root = form.dataset.root;
	form.hidden = false;

	let loading;
	const load = () => loading ??= new Promise((resolve, reject) => {
		const script = document.createElement("script");
		script.src = root + "search-index.js";
		script.onload = () => resolve(searchIndex);
		script.onerror = reject;
		document.head.append(script);
	});

	// score is 0 where a section does not have the beginning of every word of the query.
	const score = (section, query) => {
		const words = " " + section.w;
		const heading = " " + section.h.toLowerCase();
		const title = " " + section.p.toLowerCase();
		let sum = section.u.startsWith("guides/") ? 2 : section.u.startsWith("decisions/") || section.u.startsWith("threats") || section.u.startsWith("CHANGELOG") ? 0 : 1;
		for (const word of query) {
			if (!words.includes(" " + word)) return 0;
			sum += 1 + (heading.includes(" " + word) ? 6 : 0) + (title.includes(" " + word) ? 3 : 0) + (words.includes(" " + word + " ") ? 1 : 0);
		}
		return sum;
	};

	const show = async () => {
		const query = field.value.toLowerCase().split(/[^\p{L}\p{N}_-]+/u).filter((word) => word.length > 1);
		if (query.length === 0) {
			found.hidden = true;
			return;
		}
		const sections = await load();
		const best = sections.map((section) => [score(section, query), section]).filter(([sum]) => sum > 0)
			.sort(([a], [b]) => b - a).slice(0, 12);
		found.replaceChildren(...best.map(([, section]) => {
			const item = document.createElement("li");
			const link = document.createElement("a");
			link.href = root + section.u;
			link.textContent = section.h;
			if (section.h !== section.p) {
				const page = document.createElement("small");
				page.textContent = section.p;
				link.append(" ", page);
			}
			item.append(link);
			return item;
		}));
		if (best.length === 0) {
			const item = document.createElement("li");
			item.textContent = "Nothing found.";
			found.append(item);
		}
		found.hidden = false;
	};

	field.addEventListener("input", show);
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		found.querySelector("a")?.click();
	});
	document.addEventListener("keydown", (event) => {
		if (event.key === "Escape") found.hidden = true;
		if (event.key === "/" && document.activeElement !== field) {
			event.preventDefault();
			field.focus();
		}
	});
	document.addEventListener("click", (event) => {
		if (!form.contains(event.target) || event.target.closest("#site-found a")) found.hidden = true;
	});
})();
