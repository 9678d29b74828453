// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Draws the timeline of a run and lets a person pick checks and moments in it. All text goes through textContent: what a
// submission has written is never HTML.
(function () {
  "use strict";

  // A link to a check opens it.
  function openTarget() {
    const target = location.hash.length > 1 && byID(decodeURIComponent(location.hash.slice(1)));
    const details = target && target.querySelector("details");
    if (details) details.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  if (!data) return;
  const { checks, timeline, faults } = data;
  timeline.forEach((moment, i) => { moment.index = i; moment.kind = kindOf(moment); });
  const ran = checks.map((check, i) => ({ ...check, index: i })).filter((check) => check.status !== "skipped" && check.at > 0);
  const chart = byID("chart");
  const state = { check: null, moment: null, from: 0, to: 0, width: 0 };

  // From the first event to the last. A watch that continues does not extend it.
  const whole = { from: Infinity, to: 0 };
  for (const one of [...ran, ...timeline]) {
    whole.from = Math.min(whole.from, one.at);
    whole.to = Math.max(whole.to, one.at + (one.kind === "watch" ? 0 : one.seconds));
  }
  const margin = Math.max(0.02, (whole.to - whole.from) * 0.015);
  whole.from = Math.max(0, whole.from - margin);
  whole.to += margin;
  const closest = Math.min(0.05, whole.to - whole.from);

  function kindOf(moment) {
    if (moment.service === "operator") return "life";
    if (moment.service === "freezer" || moment.service === "cloud") return moment.service;
    if (moment.service === "objects") return "objects";
    const verb = moment.what.split(" ", 1)[0].toLowerCase();
    if (verb === "watch") return "watch";
    return verb === "get" || verb === "list" ? "read" : "write";
  }

  // What an operator does for its own sake says nothing of the lab, and what only looks at a service says less than what moves.
  const quiet = (moment) => /^\S+ (leases\b|events\b|\/)/.test(moment.what) || ((moment.kind === "freezer" || moment.kind === "cloud") && moment.what.startsWith("get "));

  const lanes = [
    { name: "checks", height: 30 },
    { name: "operator", has: (m) => m.kind === "life" },
    { name: "faults", has: (m) => m.fault },
    { name: "writes", has: (m) => m.kind === "write" },
    { name: "reads", has: (m) => m.kind === "read" },
    { name: "watches", has: (m) => m.kind === "watch" },
    { name: "freezer", has: (m) => m.kind === "freezer" },
    { name: "cloud", has: (m) => m.kind === "cloud" },
    { name: "objects", has: (m) => m.kind === "objects" },
  ].filter((lane) => !lane.has || timeline.some(lane.has));

  const round = (n) => Math.round(n * 100) / 100;
  const within = (moment, check) => moment.at >= check.at && moment.at <= check.at + check.seconds;
  const checkAt = (at) => ran.find((check) => at >= check.at && at <= check.at + check.seconds);
  const inSeconds = (s) => (s < 0.1 ? `${round(s * 1000)} ms` : `${s.toFixed(2)} s`);
  const clock = (s) => `${s.toFixed(3)} s`;

  // A long name may be broken where it has a joint.
  function words(text) {
    const pieces = text.split(/(?<=[/:])/);
    return pieces.flatMap((piece, i) => (i ? [element("wbr"), piece] : [piece]));
  }

  // Drawing.

  function draw() {
    const width = chart.clientWidth;
    if (!width) return;
    state.width = width;
    const narrow = width < 560;
    const gutter = narrow ? 8 : 84;
    const right = width - (narrow ? 8 : 14);
    const scale = (right - gutter) / (state.to - state.from);
    const x = (at) => gutter + (at - state.from) * scale;
    state.at = (px) => state.from + (px - gutter) / scale;
    state.lanes = [];

    let y = 8;
    for (const lane of lanes) {
      if (narrow) y += 14; // its name stands above it
      state.lanes.push({ ...lane, top: y, height: lane.height || 24 });
      y += (lane.height || 24) + (narrow ? 4 : 8);
    }
    const bottom = y;
    const svg = element("svg", { viewBox: `0 0 ${width} ${bottom + 26}`, height: bottom + 26, "aria-hidden": "true" });
    const clip = element("clipPath", { id: "inside" }, element("rect", { x: gutter - 5, y: 0, width: right - gutter + 10, height: bottom }));
    const inside = element("g", { "clip-path": "url(#inside)" });
    svg.append(clip);
    axis(svg, x, gutter, right, bottom);
    svg.append(inside);

    for (const check of ran) {
      const left = x(check.at), span = Math.max(2, check.seconds * scale);
      if (left > right + 5 || left + span < gutter - 5) continue;
      inside.append(element("rect", {
        class: "ground" + (check === state.check ? " picked" : ""), x: round(left), y: 4, width: round(span), height: bottom - 4,
      }));
    }
    for (const lane of state.lanes) {
      svg.append(element("text", narrow ? { x: gutter, y: lane.top - 4 } : { x: 10, y: lane.top + lane.height / 2 + 4 }, lane.name));
      if (!lane.has) ran.forEach((check) => inside.append(drawCheck(check, lane, x, scale, gutter, right)));
      else timeline.filter(lane.has).forEach((moment) => drawMoment(moment, lane, inside, x, scale, gutter, right));
    }
    if (state.moment) {
      const at = round(x(state.moment.at));
      inside.append(element("line", { class: "cursor", x1: at, x2: at, y1: 4, y2: bottom }));
    }
    chart.replaceChildren(svg);
    const all = state.from <= whole.from && state.to >= whole.to;
    byID("whole").disabled = byID("wider").disabled = all;
    byID("earlier").disabled = state.from <= whole.from;
    byID("later").disabled = state.to >= whole.to;
    byID("closer").disabled = state.to - state.from <= closest;
  }

  function axis(svg, x, left, right, bottom) {
    const wanted = (state.to - state.from) / Math.max(2, (right - left) / 70);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
      const px = round(x(at));
      svg.append(element("line", { class: "rule", x1: px, x2: px, y1: 4, y2: bottom }));
      const anchor = px < left + 16 ? "start" : px > right - 16 ? "end" : "middle";
      svg.append(element("text", { x: px, y: bottom + 15, "text-anchor": anchor }, `${at.toFixed(digits)} s`));
    }
  }

  function drawCheck(check, lane, x, scale, left, right) {
    const start = x(check.at), span = Math.max(4, check.seconds * scale);
    const group = element("g", {
      class: `span ${check.status}` + (check === state.check ? " picked" : ""), "data-check": check.index,
    }, element("title", {}, `${check.id}: ${check.title} (${check.status})`));
    group.append(element("rect", { x: round(start), y: lane.top, width: round(span), height: lane.height, rx: 4 }));
    group.append(element("rect", { class: "bar", x: round(start), y: lane.top + lane.height - 4, width: round(span), height: 4, rx: 2 }));
    const mark = check.status === "failed" ? "✗ " : "";
    const from = Math.max(start, left), room = Math.min(start + span, right) - from - 10;
    const letters = Math.floor(room / 6.6);
    const label = mark + check.id;
    if (letters >= label.length) group.append(element("text", { x: round(from + 6), y: lane.top + 17 }, label));
    else if (letters >= 5) group.append(element("text", { x: round(from + 6), y: lane.top + 17 }, label.slice(0, letters - 1) + "…"));
    else if (mark && room > -4) group.append(element("text", { x: round(from + 3), y: lane.top + 17 }, "✗"));
    return group;
  }

  function drawMoment(moment, lane, inside, x, scale, left, right) {
    const px = x(moment.at), length = moment.seconds * scale;
    if (px > right + 5 || px + length < left - 5) return;
    const classes = ["moment", lane.name === "faults" ? "fault" : moment.kind];
    if (quiet(moment) && lane.name !== "faults") classes.push("quiet");
    if (state.check) classes.push(within(moment, state.check) ? "within" : "outside");
    if (moment === state.moment) classes.push("chosen");
    const attributes = { class: classes.join(" "), "data-moment": moment.index };
    const middle = lane.top + lane.height / 2;
    if (lane.name === "faults") {
      inside.append(element("path", { ...attributes, d: `M${round(px)} ${middle - 8}l7 8l-7 8l-7-8z` }));
      return;
    }
    const shape = moment.kind === "life" ? [0, 4] : moment.kind === "watch" ? [lane.height / 2 - 2, 4] : [3, 3];
    const [above, size] = shape;
    if (moment.kind === "watch") {
      inside.append(element("rect", { ...attributes, x: round(px), y: lane.top + above, width: round(Math.max(4, length)), height: size, rx: 2 }));
    } else if (moment.kind === "life") {
      const start = moment.what.includes("started"); // a flag; what ends it is a cross at its left
      inside.append(element("path", start
        ? { ...attributes, d: `M${round(px - 1.5)} ${lane.top + 2}h3l9 5l-9 5v${lane.height - 14}h-3z` }
        : { ...attributes, class: attributes.class + " cross", d: `M${round(px - 14)} ${middle - 5}l10 10m0 -10l-10 10` }));
    } else {
      // What took long must not look like many: only its beginning is solid.
      const box = { x: round(px), y: lane.top + above, height: lane.height - 2 * size, rx: 1.5 };
      if (length > 12) inside.append(element("rect", { ...box, class: attributes.class.replace("moment", "shade") + " long", width: round(length) }));
      inside.append(element("rect", { ...attributes, ...box, width: round(length > 12 ? 3 : Math.max(3, length)) }));
    }
  }

  // What is picked, in words.

  function tell() {
    const box = byID("moment"), moment = state.moment;
    box.replaceChildren();
    box.className = moment ? (moment.fault ? "fault" : moment.kind) : "";
    if (!moment) return;
    const where = { api: " to the API server", freezer: " to the freezer", cloud: " to the cloud" }[moment.service] || "";
    box.append(element("strong", {}, ...words(moment.what)), where);
    const check = checkAt(moment.at);
    const facts = element("p", {}, `At ${clock(moment.at)}`);
    if (moment.service !== "operator") {
      facts.append(moment.seconds ? `, took ${inSeconds(moment.seconds)}` : "");
      const lost = moment.fault === "lost-answer" || moment.fault === "kill-after";
      facts.append(moment.code ? `, answered with ${moment.code}${lost ? ", which never arrived" : ""}` : ", no answer arrived");
    }
    if (check) {
      const button = element("button", { type: "button" }, check.id);
      button.addEventListener("click", () => pickCheck(check));
      facts.append(", during ", button);
    }
    box.append(facts);
    if (moment.fault) {
      const hit = element("p", {}, element("span", { class: "hit" }, `Fault: ${moment.fault}. `));
      hit.append(faults[moment.fault] || "");
      box.append(hit);
    }
  }

  function list() {
    const box = byID("requests"), check = state.check;
    byID("pick").value = check ? String(check.index) : "";
    box.replaceChildren();
    if (!check) return;
    const rows = timeline.filter((moment) => within(moment, check));
    const near = element("button", { type: "button" }, "Zoom in on it");
    near.addEventListener("click", () => { zoomTo(check); chart.focus(); });
    box.append(element("h3", { id: "listed" }, `During ${check.id}: ${rows.length === 1 ? "1 moment" : `${rows.length} moments`}`, near));
    if (!rows.length) return;
    const body = element("tbody");
    for (const moment of rows) {
      const button = element("button", { type: "button", class: moment.kind }, ...words(moment.what));
      button.addEventListener("click", () => pickMoment(moment));
      body.append(element("tr", { "data-moment": moment.index, class: moment === state.moment ? "chosen" : "" },
        element("td", { class: "number" }, clock(moment.at)), element("td", {}, button),
        element("td", { class: moment.fault ? "hit" : "" }, [moment.code || "", moment.fault || ""].filter(Boolean).join(" ")),
        element("td", { class: "number took" }, moment.seconds ? inSeconds(moment.seconds) : "")));
    }
    const head = element("tr", {}, ...[["at", "number"], ["what", ""], ["answer", ""], ["took", "number took"]]
      .map(([name, kind]) => element("th", { scope: "col", class: kind }, name)));
    box.append(element("div", { class: "list", tabindex: "0", role: "region", "aria-labelledby": "listed" },
      element("table", {}, element("thead", {}, head), body)));
  }

  function pickCheck(check) {
    state.check = check;
    if (state.moment && check && !within(state.moment, check)) state.moment = null;
    if (check) show(check.at, check.at + check.seconds);
    draw(); tell(); list();
  }

  function pickMoment(moment) {
    state.moment = moment;
    show(moment.at, moment.at);
    draw(); tell();
    byID("requests").querySelectorAll("tr[data-moment]").forEach((row) => {
      const chosen = Number(row.dataset.moment) === moment.index;
      row.classList.toggle("chosen", chosen);
      if (chosen) row.scrollIntoView({ block: "nearest", behavior: "instant" });
    });
  }

  // What part of the run is shown.

  function view(from, to) {
    const length = Math.min(whole.to - whole.from, Math.max(closest, to - from));
    state.from = Math.max(whole.from, Math.min(from, whole.to - length));
    state.to = state.from + length;
  }

  function show(from, to) {
    if (from >= state.from && to <= state.to) return;
    const half = Math.max((state.to - state.from) / 2, (to - from) * 0.55);
    view((from + to) / 2 - half, (from + to) / 2 + half);
  }

  function zoom(factor, around = state.moment ? state.moment.at : (state.from + state.to) / 2) {
    const share = (around - state.from) / (state.to - state.from);
    const length = Math.max(closest, (state.to - state.from) * factor);
    view(around - share * length, around + (1 - share) * length);
    draw();
  }

  function zoomTo(check) {
    const edge = Math.max(0.01, check.seconds * 0.06);
    view(check.at - edge, check.at + check.seconds + edge);
    draw();
  }

  function move(share) {
    const by = (state.to - state.from) * share;
    view(state.from + by, state.to + by);
    draw();
  }

  // Hands on it.

  // Marks are small, so the nearest one in the lane that was hit counts.
  function nearest(event) {
    const box = chart.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const lane = state.lanes.find((one) => py >= one.top - 6 && py <= one.top + one.height + 4);
    if (!lane) return null;
    const at = state.at(px), reach = 14 * (state.at(1) - state.at(0));
    if (!lane.has) return { check: ran.find((c) => at >= c.at && at <= c.at + c.seconds) };
    let best = null, distance = Infinity;
    for (const moment of timeline.filter(lane.has)) {
      const away = at < moment.at ? moment.at - at : Math.max(0, at - moment.at - moment.seconds);
      // Of two that cover the place, the one that began last is the smaller.
      if (away < distance || (away === distance && away < reach)) [best, distance] = [moment, away];
    }
    return distance <= reach ? { moment: best } : null;
  }

  chart.addEventListener("click", (event) => {
    const hit = nearest(event);
    if (hit && hit.moment) pickMoment(hit.moment);
    else if (hit && hit.check) pickCheck(hit.check === state.check ? null : hit.check);
  });
  chart.addEventListener("dblclick", () => state.check && zoomTo(state.check));
  chart.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // otherwise it scrolls the page
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, state.at(event.clientX - chart.getBoundingClientRect().left));
  }, { passive: false });

  function step(all, current, by) {
    if (!all.length) return null;
    const i = all.indexOf(current);
    return all[i < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, i + by))];
  }

  function stepMoment(by) {
    const all = state.check ? timeline.filter((moment) => within(moment, state.check)) : timeline;
    const moment = step(all, state.moment, by);
    if (moment) pickMoment(moment);
  }

  const keys = {
    ArrowLeft: () => stepMoment(-1), ArrowRight: () => stepMoment(1),
    ArrowUp: () => pickCheck(step(ran, state.check, -1)), ArrowDown: () => pickCheck(step(ran, state.check, 1)),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    Escape: () => { state.moment = null; view(whole.from, whole.to); pickCheck(null); },
  };
  chart.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });

  const buttons = {
    earlier: () => move(-0.5), later: () => move(0.5), closer: () => zoom(0.5), wider: () => zoom(2),
    whole: () => { view(whole.from, whole.to); draw(); },
  };
  for (const [id, act] of Object.entries(buttons)) byID(id).addEventListener("click", act);

  const pick = byID("pick");
  for (const check of ran) pick.append(element("option", { value: check.index }, `${check.id} (${check.status})`));
  pick.addEventListener("change", () => pickCheck(ran.find((check) => String(check.index) === pick.value) || null));
  document.querySelectorAll("button.show").forEach((button) => button.addEventListener("click", () => {
    const check = ran.find((one) => String(one.index) === button.dataset.check);
    if (!check) return;
    pickCheck(check);
    byID("timeline").scrollIntoView();
    chart.focus({ preventScroll: true });
  }));

  byID("drawn").hidden = false;
  view(whole.from, whole.to);
  draw();
  new ResizeObserver(() => { if (chart.clientWidth !== state.width) draw(); }).observe(chart);
})();
