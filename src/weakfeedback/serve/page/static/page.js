"use strict";
// Draws the charts, and puts in what the server sends. Everything else is in the HTML already.
(function () {
  const root = document.documentElement;
  root.classList.add("js");
  const holder = document.getElementById("charts");
  const table = document.getElementById("table");
  if (table) table.open = false; // behind the charts
  const plots = new Map();
  let shown = holder ? JSON.parse(holder.dataset.charts) : null;

  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const stage = (k) => colour("--s" + (k % 8));
  const short = (x) => x == null ? "–" : Math.abs(x) >= 100 ? x.toFixed(0) : String(+x.toPrecision(3));
  const percent = (x) => x == null ? "–" : (100 * x).toFixed(1) + " %";

  // vertical lines where an alarm was raised
  const marks = { hooks: { draw: (u) => {
    u.ctx.save();
    u.ctx.strokeStyle = colour("--bad");
    u.ctx.setLineDash([3, 3]);
    for (const [at] of shown.marks) {
      const x = u.valToPos(at, "x", true);
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  } } };

  // times in UTC, as everywhere on the page
  const clock = (at) => new Date(1000 * at).toISOString();
  const day = (at) => new Date(1000 * at).toUTCString().replace(/^(...), (..).*/, "$1 $2");
  const times = (u, ticks) => {
    const days = ticks[ticks.length - 1] - ticks[0] > 172800;
    return ticks.map((at) => days ? (at % 86400 ? "" : day(at)) : ticks[1] - ticks[0] < 60 ? clock(at).slice(11, 19) : clock(at).slice(11, 16));
  };

  function axes(format) {
    const common = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return [Object.assign({ values: times, space: 70 }, common), Object.assign({ values: (u, ticks) => ticks.map(format), size: 64 }, common)];
  }

  // running values are those at the end of a step, the last ones those of now; one or two steps are dots
  const ends = (c) => c.at.map((at) => Math.min(at + c.step, c.now));
  const dots = (c, fill) => ({ show: c.at.length - c.born < 3, size: 8, fill });

  // each chart: its data, and the options that belong to it
  const makers = {
    stops: (c) => {
      const sums = c.at.map(() => 0);
      const stacked = c.unit === "given" ? c.stops : c.stops.map((one) => one.map((x, k) => (sums[k] += x)));
      const order = c.names.map((_, k) => k).reverse(); // the highest first, lower ones drawn over it
      const area = c.unit !== "given";
      const series = order.map((k) => ({
        label: c.names[k], stroke: stage(k), fill: area ? stage(k) : undefined, width: area ? 1 : 2, points: dots(c, stage(k)),
      }));
      const legend = (at) => c.names.map((name, k) => [stage(k), name, short(c.stops[k][at])]);
      return { data: [c.at, ...order.map((k) => stacked[k])], series, legend, format: short, from0: true };
    },
    pairs: (c) => {
      if (!c.pairs || !c.pairs.length) return null;
      const data = [ends(c)], series = [], bands = [];
      c.pairs.forEach((pair, k) => {
        const line = stage(k), n = data.length;
        data.push(pair.share, pair.high, pair.low);
        series.push({ label: pair.label, stroke: line, width: 2, points: dots(c, line) });
        // borders of its own colour, so that intervals which lie over each other can be told apart
        series.push({ label: "to", stroke: line, width: 1, dash: [2, 3], points: { ...dots(c, colour("--card")), size: 5 } });
        series.push({ label: "from", stroke: line, width: 1, dash: [2, 3], points: { ...dots(c, colour("--card")), size: 5 } });
        bands.push({ series: [n + 1, n + 2], fill: line + "22" });
        if (pair.pays <= 1) {
          data.push(c.at.map(() => pair.pays));
          series.push({ label: "pays above", stroke: line, width: 1, dash: [6, 5], points: { show: false } });
        }
      });
      const legend = (at) => c.pairs.map((p, k) => [stage(k), p.label, p.share[at] == null ? "–" :
        `${percent(p.share[at])} (${percent(p.low[at])} to ${percent(p.high[at])})`]);
      return { data, series, bands, legend, format: (x) => (100 * x).toFixed(0) + " %", from0: true };
    },
    money: (c) => {
      if (!c.money) return null;
      const colours = ["--s1", "--good", "--bad"];
      const series = c.money.map((line, k) => ({ label: line.label, stroke: colour(colours[k]), width: 2, points: dots(c, colour(colours[k])) }));
      const legend = (at) => c.money.map((line, k) => [colour(colours[k]), line.label, short(line.values[at])]);
      return { data: [ends(c), ...c.money.map((line) => line.values)], series, legend, format: short, from0: false };
    },
  };

  // what stands under a chart: the values at the cursor, or the last ones
  function tell(kept) {
    const under = kept.plot.cursor.idx, at = under == null ? shown.at.length - 1 : under;
    kept.list.replaceChildren(...kept.made.legend(at).map(([paint, label, value]) => {
      const item = document.createElement("li"), dot = document.createElement("span"), bold = document.createElement("b");
      dot.className = "dot";
      dot.style.background = paint;
      bold.textContent = value;
      item.append(dot, label + " ", bold);
      return item;
    }), Object.assign(document.createElement("li"), { textContent: clock(kept.made.data[0][at]).slice(0, 19).replace("T", " ") + " UTC" }));
  }

  function shape(made) { return made.series.map((s) => s.label + s.stroke).join("|"); }

  function draw() {
    if (!holder || !window.uPlot) return;
    for (const box of holder.querySelectorAll("[data-chart]")) {
      const name = box.dataset.chart, made = makers[name](shown), old = plots.get(name);
      box.classList.toggle("none", !made);
      if (!made) { box.textContent = "Nothing to draw yet."; continue; }
      if (old && old.shape === shape(made)) { old.made = made; old.plot.setData(made.data); tell(old); continue; }
      if (old) old.plot.destroy();
      box.textContent = "";
      const kept = { shape: shape(made), made };
      kept.list = Object.assign(document.createElement("ul"), { className: "legend" });
      kept.plot = new uPlot({
        width: box.clientWidth, height: 240, padding: [10, 26, 0, 0], bands: made.bands || [],
        plugins: [marks, { hooks: { setCursor: () => kept.plot && tell(kept) } }],
        scales: { x: { range: () => [shown.from, shown.to] }, y: { range: (u, low, high) => {
          const bottom = made.from0 ? 0 : Math.min(0, low);
          return [bottom, high > bottom ? high + 0.06 * (high - bottom) : bottom + 1];
        } } },
        axes: axes(made.format), legend: { show: false }, cursor: { drag: { x: false, y: false } },
        tzDate: (at) => uPlot.tzDate(new Date(1000 * at), "Etc/UTC"),
        series: [{}, ...made.series],
      }, made.data, box);
      box.append(kept.list);
      tell(kept);
      plots.set(name, kept);
    }
  }

  function redraw() { for (const kept of plots.values()) kept.plot.destroy(); plots.clear(); draw(); }
  draw();
  if (holder && window.ResizeObserver) {
    let width = holder.clientWidth;
    new ResizeObserver(() => {
      if (holder.clientWidth === width) return;
      width = holder.clientWidth;
      for (const [name, kept] of plots) {
        kept.plot.setSize({ width: holder.querySelector(`[data-chart="${name}"]`).clientWidth, height: 240 });
      }
    }).observe(holder);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // changes: each form is one request of the API; the header proves that it comes from this page
  async function send(method, path, body) {
    const headers = { "Content-Type": "application/json", "X-Weakfeedback-Form": document.body.dataset.form };
    const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.detail || answer.statusText);
    return told;
  }

  function fields(form) {
    const body = {};
    for (const one of form.querySelectorAll("[data-type]")) {
      const value = one.dataset.type === "flag" ? one.value === "true" : Number(one.value);
      if (one.dataset.type === "numbers") (body[one.name] = body[one.name] || []).push(value);
      else body[one.name] = one.dataset.type === "percent" ? value / 100 : value;
    }
    return Object.keys(body).length ? body : undefined;
  }

  // the rows of a CSV text: quoted cells may hold commas, line ends and doubled quotes
  function rowsOf(text) {
    const rows = [[]];
    for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
      rows[rows.length - 1].push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
      if (end === "") break;
      if (end !== ",") rows.push([]);
    }
    return rows.filter((row) => row.length > 1 || row[0] !== "");
  }

  async function audit(form) {
    const [head, ...rows] = rowsOf(await form.querySelector("input").files[0].text());
    const place = (name) => {
      const k = head ? head.map((one) => one.trim()).indexOf(name) : -1;
      if (k < 0) throw new Error(`The first line must name the columns: ${name} is missing.`);
      return k;
    };
    const stages = JSON.parse(form.dataset.stages).map(place), truth = place("truth");
    const begun = await send("POST", form.dataset.audit, { outputs: rows.map((row) => stages.map((k) => row[k])) });
    const labels = Object.fromEntries(begun.rows.map((row) => [row, rows[row][truth]]));
    return (await send("POST", `${form.dataset.audit}/${begun.id}/labels`, { labels })).text;
  }

  async function create(form) {
    const list = (name) => form.elements[name].value.split(",").map((one) => one.trim());
    const kind = form.elements.kind.value, router = kind === "router", config = { kind };
    config[router ? "models" : "stages"] = list("names");
    config[router ? "prices" : "stage_costs"] = list("prices").map(Number);
    if (form.elements.agree.value) config.agree = Number(form.elements.agree.value) / 100;
    if (form.elements.error_cost.value) config.error_cost = Number(form.elements.error_cost.value);
    if (form.elements.currency.value) config.currency = form.elements.currency.value;
    const name = form.elements.name.value;
    const prefix = document.body.dataset.root;
    await send("PUT", prefix + "/v1/learners/" + name, config);
    location.href = prefix + "/learners/" + name;
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target, data = form.dataset;
    if (!data.path && !data.audit && data.create === undefined) return;
    event.preventDefault();
    const output = form.querySelector("output"), button = form.querySelector("button");
    button.disabled = true;
    output.className = "";
    output.textContent = "…";
    try {
      if (data.audit) output.textContent = await audit(form);
      else if (data.path) { await send(data.method, data.path, fields(form)); location.reload(); return; }
      else { await create(form); return; }
      output.className = "good";
    } catch (error) {
      output.className = "bad";
      output.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  });

  // "why?" opens below its row; without the script, or with a modifier, it is a page of its own
  async function tellWhy(link) {
    const old = link.closest("tr").nextElementSibling;
    if (old && old.classList.contains("told")) { old.remove(); return; }
    const answer = await fetch(link.dataset.why), told = await answer.json();
    const now = link.isConnected ? link : document.querySelector(`[data-why="${link.dataset.why}"]`); // rows may be new
    if (!now) return;
    const row = now.closest("tr");
    const more = document.createElement("tr"), cell = document.createElement("td"), list = document.createElement("ol");
    const lines = answer.ok ? told.text.split("\n") : [told.detail || answer.statusText];
    list.append(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    more.className = "told";
    cell.colSpan = row.children.length;
    cell.append(list);
    more.append(cell);
    row.after(more);
  }

  document.addEventListener("click", async (event) => {
    if (event.target.matches("[data-why]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      await tellWhy(event.target);
      return;
    }
    if (!event.target.matches(".copy")) return;
    await navigator.clipboard.writeText(event.target.previousElementSibling.textContent);
    event.target.textContent = "Copied";
  });

  // what another promise would cost, between the two offers around it
  const cost = document.querySelector("[data-cost]");
  const field = cost && cost.closest(".act").querySelector("input[name=agree]");
  function tellCost() {
    const told = JSON.parse(cost.dataset.cost), wanted = Number(field.value) / 100, curve = told.curve;
    const k = curve.findIndex(([agree]) => agree >= wanted), [to, upper] = curve[k] || [], [from, lower] = curve[k - 1] || [];
    if (k < 0 || (k === 0 && to !== wanted)) { cost.textContent = ""; return; }
    const share = to === wanted ? upper : lower + (upper - lower) * (wanted - from) / (to - from);
    const more = (share - told.share) * told.thousand, unit = told.currency ? " " + told.currency : "";
    cost.textContent = `${field.value} % would cost about ${(100 * share).toFixed(0)} % of ${told.name} alone instead of ` +
      `${(100 * told.share).toFixed(0)} %: about ${short(Math.abs(more))}${unit} ${more < 0 ? "less" : "more"} for 1000 requests.`;
  }
  if (field) field.addEventListener("input", tellCost);

  // narrow screens: the last sections start closed; a link to one opens it
  const folds = document.querySelectorAll("details.fold");
  if (innerWidth < 700) folds.forEach((one) => { if (!one.querySelector("#trust")) one.open = false; });
  addEventListener("hashchange", () => {
    const target = location.hash && document.getElementById(location.hash.slice(1)), fold = target && target.closest("details");
    if (fold) { fold.open = true; target.scrollIntoView(); }
  });

  const pulse = document.getElementById("pulse");
  function say(state, words) { if (pulse) { pulse.className = "pulse " + state; pulse.textContent = words; } }

  const address = document.body.dataset.live;
  if (!address || !window.EventSource) return;
  const source = new EventSource(address);
  source.onopen = () => say("on", "live");
  source.onerror = () => say("off", "not connected, trying again");
  source.onmessage = (message) => {
    const news = JSON.parse(message.data);
    for (const [id, html] of Object.entries(news.pieces || {})) {
      const place = document.getElementById(id);
      // what is being read or used stays as it is until the next time
      if (place && !place.contains(document.activeElement) && !place.querySelector(".told")) place.innerHTML = html;
    }
    if (news.charts) { shown = news.charts; draw(); }
    root.dataset.updates = String(1 + Number(root.dataset.updates || 0));
  };
  addEventListener("pagehide", () => source.close());
})();
