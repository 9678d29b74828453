// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Replays a check: it shows what happened step by step, and asks what the operator does next. All text goes through textContent.
(function () {
  "use strict";

  if (!data || !byID("replayed")) return;
  const { checks, timeline, faults, replays, replay } = data;
  const list = byID("replay-steps"), question = byID("replay-question"), score = byID("replay-score");
  const pick = byID("replay-check"), start = byID("replay-start");
  const state = { steps: [], next: 0, asked: 0, right: 0 };

  function show(step, verdict) {
    const row = element("li", { class: verdict || "" });
    row.append(element("span", { class: "at" }, `${step.at.toFixed(3)} s`));
    if (verdict) row.append(element("span", { class: "mark" }, verdict === "right" ? "✓" : "✗"), element("span", { class: "hidden" }, verdict === "right" ? "Predicted: " : "Not predicted: "));
    row.append(element("span", { class: "what" }, step.what));
    const moment = step.moments && timeline[step.moments[0]];
    if (moment && step.request) row.append(element("span", { class: "code" }, moment.code ? String(moment.code) : "no answer"));
    if (moment && moment.fault) row.append(element("span", { class: "hit" }, `Fault: ${moment.fault}. ${faults[moment.fault] || ""}`));
    list.append(row);
    row.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  function answer(choice) {
    const step = state.steps[state.next++];
    state.asked++;
    if (choice === step.request) state.right++;
    show(step, choice === step.request ? "right" : "wrong");
    score.textContent = `${choice === step.request ? "Right" : `No: ${step.request}`}. You have predicted ${state.right} of ${state.asked} ${state.asked === 1 ? "step" : "steps"}.`;
    forward();
    const first = question.querySelector("button");
    if (first) first.focus({ preventScroll: true });
    else start.focus({ preventScroll: true });
  }

  // forward shows what comes without a question, then the next question.
  function forward() {
    question.replaceChildren();
    while (state.next < state.steps.length && !state.steps[state.next].choices) show(state.steps[state.next++]);
    if (state.next === state.steps.length) return end();
    const buttons = state.steps[state.next].choices.map((choice, i) => {
      const button = element("button", { type: "button" }, element("kbd", { "aria-hidden": "true" }, String(i + 1)), ` ${choice}`);
      button.addEventListener("click", () => answer(choice));
      return button;
    });
    question.append(
      element("p", { id: "replay-asked" }, "What does the operator do next?"),
      element("div", { class: "choices", role: "group", "aria-labelledby": "replay-asked" }, ...buttons));
  }

  function end() {
    const check = checks[Number(pick.value)];
    question.append(element("p", {}, `That was the check ${check.id}. It ${check.status}. `, element("a", { href: `#check-${check.id}` }, "Read its result")));
    start.textContent = "Start over";
  }

  start.addEventListener("click", () => {
    Object.assign(state, { steps: replays[pick.value], next: 0, asked: 0, right: 0 });
    list.replaceChildren();
    score.textContent = "";
    start.textContent = "Start over";
    forward();
    const first = question.querySelector("button");
    if (first) first.focus({ preventScroll: true });
  });
  pick.addEventListener("change", () => {
    list.replaceChildren();
    question.replaceChildren();
    score.textContent = "";
    start.textContent = "Start";
  });
  byID("replayed").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === pick) return;
    const button = question.querySelectorAll("button")[Number(event.key) - 1];
    if (button) button.click();
  });

  for (const index of Object.keys(replays)) pick.append(element("option", { value: index }, `${checks[index].id} (${checks[index].status})`));
  pick.value = String(replay);
  byID("replayed").hidden = false;
})();
