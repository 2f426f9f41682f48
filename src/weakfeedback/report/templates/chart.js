"use strict";
// Draws the figures: curves with bands as SVG, labels measured so that none is ever cut, drawn again when the width
// changes. A figure is what interactive.py makes of it.
var drawChart = (function () {
  var SVG = "http://www.w3.org/2000/svg", INK = "#1f2933", GRID = "#e4e7eb", SOFT = "#9aa5b1";

  function add(parent, name, attributes, text) {
    var made = document.createElementNS(SVG, name);
    Object.keys(attributes || {}).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    if (text !== undefined) { made.textContent = text; }
    parent.appendChild(made);
    return made;
  }

  function ticks(low, high, most) {
    var raw = (high - low) / Math.max(1, most), size = Math.pow(10, Math.floor(Math.log10(raw)));
    var step = [1, 2, 2.5, 5, 10].map(function (k) { return k * size; }).find(function (s) { return s >= raw * 0.999; });
    var found = [];
    for (var k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) { found.push(k * step); }
    return { at: found, step: step };
  }

  function short(value, step) {
    if (Math.abs(value) < 1e-12) { return "0"; }
    var size = Math.abs(value), text;
    if (step >= 1e6) { text = +(size / 1e6).toPrecision(6) + "M"; }
    else if (step >= 1e3) { text = +(size / 1e3).toPrecision(6) + "k"; }
    else { text = String(+size.toPrecision(8)); }
    return (value < 0 ? "−" : "") + text;
  }

  function written(value) {
    if (value === null) { return "–"; }
    var size = Math.abs(value), text = size >= 1000 ? Math.round(size).toLocaleString("en") : String(+size.toPrecision(4));
    return (value < 0 ? "−" : "") + text;
  }

  // runs of known values: a curve has gaps where there is no value
  function runs(values) {
    var found = [], run = null;
    values.forEach(function (value, k) {
      if (value === null) { run = null; return; }
      if (!run) { run = []; found.push(run); }
      run.push(k);
    });
    return found;
  }

  function path(points) {
    return "M" + points.map(function (p) { return p[0].toFixed(1) + " " + p[1].toFixed(1); }).join("L");
  }

  function band(svg, one, x, y) {
    var both = one.low.map(function (low, k) { return low === null || one.high[k] === null ? null : low; });
    runs(both).forEach(function (run) {
      var up = run.map(function (k) { return [x(k), y(one.high[k])]; });
      var down = run.map(function (k) { return [x(k), y(one.low[k])]; }).reverse();
      add(svg, "path", { d: path(up.concat(down)) + "Z", fill: one.colour, "fill-opacity": 0.18, "class": "band" });
    });
  }

  function line(svg, one, x, y, dots) {
    var dash = { solid: "none", dash: "8 4", dashdot: "8 3 2 3", dot: "2 3" }[one.dash];
    runs(one.mean).forEach(function (run) {
      var points = run.map(function (k) { return [x(k), y(one.mean[k])]; });
      add(svg, "path", {
        d: path(points), fill: "none", stroke: one.colour, "stroke-width": 2.2, "stroke-dasharray": dash,
        "stroke-linejoin": "round", "class": "line"
      });
      if (dots) {
        points.forEach(function (p) { add(svg, "circle", { cx: p[0], cy: p[1], r: 3, fill: one.colour }); });
      }
    });
  }

  function legend(chart, figure) {
    var list = document.createElement("ul");
    list.className = "legend";
    figure.series.forEach(function (one) {
      var item = document.createElement("li"), mark = document.createElement("span");
      mark.style.borderTop = "3px " + { solid: "solid", dash: "dashed", dashdot: "dashed", dot: "dotted" }[one.dash] + " " + one.colour;
      item.appendChild(mark);
      item.appendChild(document.createTextNode(one.name));
      list.appendChild(item);
    });
    chart.appendChild(list);
  }

  // what stands under the pointer: the nearest round, and the value of each curve there
  function hover(chart, svg, figure, x, box) {
    var rule = add(svg, "line", { y1: box.top, y2: box.bottom, stroke: SOFT, visibility: "hidden" });
    var tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    chart.appendChild(tip);
    function leave() { tip.hidden = true; rule.setAttribute("visibility", "hidden"); }
    svg.addEventListener("pointermove", function (event) {
      var at = event.clientX - svg.getBoundingClientRect().left;
      if (at < box.left - 8 || at > box.right + 8) { leave(); return; }
      var near = 0;
      figure.x.forEach(function (_, k) { if (Math.abs(x(k) - at) < Math.abs(x(near) - at)) { near = k; } });
      rule.setAttribute("x1", x(near));
      rule.setAttribute("x2", x(near));
      rule.setAttribute("visibility", "visible");
      tip.textContent = "";
      var head = document.createElement("b");
      head.textContent = figure.x_title + " " + written(figure.x[near]);
      tip.appendChild(head);
      figure.series.forEach(function (one) {
        var row = document.createElement("div"), ends = "";
        if (one.low[near] !== null) { ends = " [" + written(one.low[near]) + ", " + written(one.high[near]) + "]"; }
        row.style.color = one.ink;
        row.textContent = one.name + ": " + written(one.mean[near]) + ends;
        tip.appendChild(row);
      });
      tip.hidden = false;
      var left = x(near) + 12;
      if (left + tip.offsetWidth > chart.clientWidth) { left = x(near) - 12 - tip.offsetWidth; }
      tip.style.left = Math.max(0, left) + "px";
    });
    svg.addEventListener("pointerleave", leave);
  }

  return function (chart, figure) {
    var width = chart.clientWidth, small = width < 480, size = small ? 11 : 13, height = small ? 300 : 380;
    chart.textContent = "";
    chart.dataset.width = width;
    var svg = add(chart, "svg", {
      width: width, height: height, viewBox: "0 0 " + width + " " + height, "font-size": size,
      "font-family": "system-ui, sans-serif", "aria-hidden": "true"
    });
    function wide(text) {
      var probe = add(svg, "text", {}, text), found = probe.getComputedTextLength();
      svg.removeChild(probe);
      return found;
    }
    var room = Math.max.apply(null, figure.series.map(function (one) { return wide(one.name); })) + 12;
    // beside the curves while they leave them two thirds of the width and do not crowd, else in a list below
    var beside = room <= 0.34 * width && figure.series.length * (size + 3) <= height - 60;
    var low = figure.range[0], high = figure.range[1];
    var rows = ticks(low, high, small ? 5 : 6);
    var left = Math.max.apply(null, rows.at.map(function (v) { return wide(short(v, rows.step)); })) + size + 20;
    var first = figure.kind === "curve" ? 0 : Math.min.apply(null, figure.x), last = Math.max.apply(null, figure.x);
    if (first === last) { first -= 0.5; last += 0.5; }
    var edge = figure.kind === "sweep" ? 8 : 0;
    var box = { left: left, right: width - (beside ? room : 16), top: 8, bottom: height - 2 * size - 20 };
    function at(value) { return box.left + edge + (value - first) / (last - first) * (box.right - box.left - 2 * edge); }
    function x(k) { return at(figure.x[k]); }
    function y(value) {
      var seen = Math.min(high, Math.max(low, value));
      return box.bottom - (seen - low) / (high - low) * (box.bottom - box.top);
    }
    rows.at.forEach(function (value) {
      add(svg, "line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value), stroke: GRID });
      add(svg, "text", {
        x: box.left - 6, y: y(value) + 0.35 * size, "text-anchor": "end", fill: INK, "class": "ytick"
      }, short(value, rows.step));
    });
    var columns = ticks(first, last, Math.max(2, Math.floor((box.right - box.left) / 80)));
    columns.at.forEach(function (value) {
      add(svg, "line", { x1: at(value), x2: at(value), y1: box.bottom, y2: box.bottom + 5, stroke: SOFT });
      add(svg, "text", {
        x: Math.min(at(value), width - wide(short(value, columns.step)) / 2), y: box.bottom + size + 7,
        "text-anchor": "middle", fill: INK, "class": "xtick"
      }, short(value, columns.step));
    });
    add(svg, "line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, stroke: SOFT });
    if (figure.kind === "sweep" && first < 0 && last > 0) {
      add(svg, "line", { x1: at(0), x2: at(0), y1: box.top, y2: box.bottom, stroke: SOFT });
    }
    add(svg, "text", {
      x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle", fill: INK, "class": "title"
    }, figure.x_title);
    add(svg, "text", {
      x: 0, y: 0, "text-anchor": "middle", fill: INK, "class": "title",
      transform: "translate(" + size + " " + (box.top + box.bottom) / 2 + ") rotate(-90)"
    }, figure.y_title);
    figure.series.forEach(function (one) { band(svg, one, x, y); });
    figure.series.forEach(function (one) { line(svg, one, x, y, figure.kind === "sweep"); });
    if (beside) {
      var ends = figure.series.map(function (one) {
        var known = one.mean.filter(function (value) { return value !== null; });
        return { name: one.name, ink: one.ink, y: known.length ? y(known[known.length - 1]) : box.bottom };
      }).sort(function (a, b) { return b.y - a.y; });
      var limit = box.bottom;  // upwards from the lowest, then back down from the top where they do not fit
      ends.forEach(function (end) { end.y = Math.min(end.y, limit); limit = end.y - size - 3; });
      limit = box.top + 0.3 * size;
      ends.reverse().forEach(function (end) { end.y = Math.max(end.y, limit); limit = end.y + size + 3; });
      ends.forEach(function (end) {
        add(svg, "text", { x: box.right + 6, y: end.y + 0.35 * size, fill: end.ink, "class": "label" }, end.name);
      });
    } else {
      legend(chart, figure);
    }
    hover(chart, svg, figure, x, box);
  };
})();
