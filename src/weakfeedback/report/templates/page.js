"use strict";
(function () {
  var INK = "#1f2933", GRID = "#e4e7eb";

  function rgba(colour) {
    var parts = [1, 3, 5].map(function (k) { return parseInt(colour.substr(k, 2), 16); });
    return "rgba(" + parts.join(",") + ",0.18)";
  }

  function traces(figure) {
    var bands = [], lines = [];
    figure.series.forEach(function (one) {
      var known = one.low.every(function (low, k) { return low !== null || one.mean[k] === null; });
      if (known) {
        var at = figure.x.filter(function (_, k) { return one.low[k] !== null; });
        var low = one.low.filter(function (value) { return value !== null; });
        var high = one.high.filter(function (value) { return value !== null; });
        bands.push({
          type: "scatter", mode: "lines", x: at.concat(at.slice().reverse()), y: high.concat(low.slice().reverse()),
          fill: "toself", fillcolor: rgba(one.colour), line: { width: 0 }, hoverinfo: "skip"
        });
      }
      lines.push({
        type: "scatter", mode: figure.kind === "sweep" ? "lines+markers" : "lines", name: one.name,
        x: figure.x, y: one.mean, customdata: one.low.map(function (low, k) { return [low, one.high[k]]; }),
        line: { color: one.colour, width: 2.2, dash: one.dash }, marker: { color: one.colour, size: 6 },
        hovertemplate: "%{y:.4~g}" + (known ? " [%{customdata[0]:.4~g}, %{customdata[1]:.4~g}]" : "")
      });
    });
    return bands.concat(lines);
  }

  function layout(figure, small) {
    var axis = { fixedrange: true, gridcolor: GRID, zeroline: false, ticks: "outside", tickcolor: GRID };
    var longest = Math.max.apply(null, figure.labels.map(function (label) { return label[0].length; }));
    var size = small ? 11 : 13, first = figure.x[0], last = figure.x[figure.x.length - 1];
    var room = small ? 0.08 * (figure.range[1] - figure.range[0]) : 0;  // labels stand above their curves there
    var crosses = figure.kind === "sweep" && first < 0 && last > 0;
    return {
      showlegend: false, hovermode: "x unified", dragmode: false, height: small ? 330 : 400,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: size, color: INK },
      margin: { l: 30, r: small ? 18 : Math.min(24 + 7 * longest, 150), t: 12, b: 30 },
      xaxis: Object.assign({}, axis, {
        title: { text: figure.x_title, standoff: 8 }, range: figure.kind === "curve" ? [0, last] : undefined,
        nticks: small ? 5 : 6, showgrid: false, automargin: true, zeroline: crosses, zerolinecolor: "#9aa5b1"
      }),
      yaxis: Object.assign({}, axis, {
        title: { text: figure.y_title, standoff: 10 }, range: [figure.range[0], figure.range[1] + room], automargin: true
      }),
      annotations: figure.labels.map(function (label) {
        // on a phone there is no room beside the curves: above their ends
        var place = small ? { xanchor: "right", yanchor: "bottom", yshift: 1 } : { xanchor: "left", xshift: 6 };
        return Object.assign({
          text: label[0], x: 1, xref: "paper", y: label[1], align: "left", showarrow: false,
          font: { color: label[2], size: size }
        }, place);
      })
    };
  }

  function draw(chart) {
    if (chart.dataset.drawn) { return; }
    chart.dataset.drawn = "yes";
    var figure = JSON.parse(document.getElementById(chart.dataset.figure).textContent);
    var options = { displayModeBar: false, responsive: true };
    Plotly.newPlot(chart, traces(figure), layout(figure, chart.clientWidth < 480), options);
  }

  function drawWhenNear(charts) {
    if (!("IntersectionObserver" in window) || charts.length < 4) {
      charts.forEach(draw);
      return;
    }
    var watch = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { watch.unobserve(entry.target); draw(entry.target); }
      });
    }, { rootMargin: "800px" });
    charts.forEach(function (chart) { watch.observe(chart); });
  }

  function value(row, column) {
    var cell = row.cells[column];
    if (!("value" in cell.dataset)) { return cell.textContent.trim().toLowerCase(); }
    return cell.dataset.value === "" ? Infinity : Number(cell.dataset.value);
  }

  function sort(button) {
    var head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
    var up = head.getAttribute("aria-sort") !== "ascending";
    Array.prototype.forEach.call(head.parentNode.cells, function (cell) { cell.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var x = value(a, head.cellIndex), y = value(b, head.cellIndex);
      return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }

  function choose(button) {
    var wanted = button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.verdict;
    document.querySelectorAll("#filter button").forEach(function (other) {
      other.setAttribute("aria-pressed", String(other.dataset.verdict === wanted));
    });
    document.querySelectorAll("#all-claims > li").forEach(function (item) {
      item.hidden = wanted !== "" && item.dataset.verdict !== wanted;
    });
  }

  drawWhenNear(Array.prototype.slice.call(document.querySelectorAll(".chart")));
  document.querySelectorAll("th button").forEach(function (button) {
    button.addEventListener("click", function () { sort(button); });
  });
  document.querySelectorAll("#filter button").forEach(function (button) {
    button.addEventListener("click", function () { choose(button); });
  });
  function unfold() {  // a link to a folded module
    var target = window.location.hash && document.getElementById(window.location.hash.slice(1));
    if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", unfold);
  unfold();
  window.addEventListener("beforeprint", function () {  // paper cannot be unfolded
    document.querySelectorAll("details:not([open]):not(.source)").forEach(function (part) {
      part.dataset.folded = "yes";
      part.open = true;
    });
  });
  window.addEventListener("afterprint", function () {
    document.querySelectorAll("details[data-folded]").forEach(function (part) {
      part.open = false;
      delete part.dataset.folded;
    });
  });
})();
