"use strict";
(function () {
  function draw(chart) {
    var figure = JSON.parse(document.getElementById(chart.dataset.figure).textContent);
    var small = chart.clientWidth < 480;
    if (small) {
      figure.layout.height = 330;
      figure.layout.font.size = 11;
      figure.layout.margin.r = 18;
      figure.layout.xaxis.nticks = 5;
      figure.layout.annotations.forEach(function (label) {  // no room beside the curves: above their ends
        Object.assign(label, { xanchor: "right", xshift: 0, yanchor: "bottom", yshift: 1 });
        label.font.size = 11;
      });
    }
    Plotly.newPlot(chart, figure.data, figure.layout, { displayModeBar: false, responsive: true });
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

  document.querySelectorAll(".chart").forEach(draw);
  document.querySelectorAll("th button").forEach(function (button) {
    button.addEventListener("click", function () { sort(button); });
  });
})();
