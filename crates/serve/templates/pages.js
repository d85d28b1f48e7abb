// What pages do by themselves: a filter for the list of runs, and a run that is followed. All of it is there without, too.
"use strict";

// Shows only the rows that have all words.
for (const input of document.querySelectorAll("[data-filter]")) {
  const rows = document.getElementById(input.dataset.filter).tBodies[0].rows;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}

// Takes the report, or all of the page, from the server again.
async function again(whole) {
  const got = await fetch(location.href);
  if (!got.ok) return;
  const page = new DOMParser().parseFromString(await got.text(), "text/html");
  for (const id of whole ? ["report", "live"] : ["report"]) {
    const [before, after] = [document.getElementById(id), page.getElementById(id)];
    if (before && after) before.replaceWith(after);
    else if (before) before.remove();
  }
}

function time(seconds) {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

const live = document.getElementById("live");
if (live) {
  const events = new EventSource(live.dataset.events);
  const place = (name) => document.querySelector(`#live [data-live=${name}]`);
  events.addEventListener("progress", (event) => {
    const p = JSON.parse(event.data);
    const bar = document.querySelector("#live progress");
    bar.max = p.trials || 1;
    bar.value = p.done;
    place("done").textContent = `${p.done} of ${p.trials} trials done`;
    place("left").textContent = p.left_s == null ? "" : `, about ${time(p.left_s)} left`;
    place("doing").replaceChildren(...p.doing.map((d) => {
      const line = document.createElement("li");
      line.textContent = `trial ${d.id}, ${d.trial}: ${d.now}`;
      return line;
    }));
  });
  events.addEventListener("trials", () => again(false));
  events.addEventListener("end", () => { events.close(); again(true); });
}
