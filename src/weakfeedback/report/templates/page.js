(function () {
  function draw(chart) {
    if (Number(chart.dataset.width) === chart.clientWidth || !chart.clientWidth) { return; }
    drawChart(chart, JSON.parse(document.getElementById(chart.dataset.figure).textContent));
  }

  function drawWhenNear(charts) {
    // a narrowed window or a turned phone; after the notice itself, which drawing would repeat
    var again = "ResizeObserver" in window && new ResizeObserver(function (entries) {
      window.setTimeout(function () { entries.forEach(function (entry) { draw(entry.target); }); }, 0);
    });
    window.addEventListener("resize", function () {
      charts.filter(function (chart) { return chart.dataset.width; }).forEach(draw);
    });
    function begin(chart) {
      draw(chart);
      if (again) { again.observe(chart); }
    }
    if (!("IntersectionObserver" in window) || charts.length < 4) {
      charts.forEach(begin);
      return;
    }
    var watch = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { watch.unobserve(entry.target); begin(entry.target); }
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

  // claims: those of the chosen verdict that have all the words searched for
  var verdict = "", search = document.getElementById("search");
  function filter() {
    var words = (search ? search.value : "").toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
    document.querySelectorAll(".found > li").forEach(function (item) {
      if (!item.dataset.text) { item.dataset.text = item.textContent.toLowerCase().replace(/\s+/g, " "); }
      var all = words.every(function (word) { return item.dataset.text.indexOf(word) >= 0; });
      item.hidden = !all || (verdict !== "" && item.dataset.verdict !== verdict);
      shown += item.hidden ? 0 : 1;
    });
    var count = document.getElementById("count");
    if (count) { count.textContent = words.length || verdict ? shown + (shown === 1 ? " claim" : " claims") : ""; }
  }
  function choose(button) {
    verdict = button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.verdict;
    document.querySelectorAll("#filter button").forEach(function (other) {
      other.setAttribute("aria-pressed", String(other.dataset.verdict === verdict));
    });
    filter();
  }

  var charts = Array.prototype.slice.call(document.querySelectorAll(".chart"));
  drawWhenNear(charts);
  document.querySelectorAll("th button").forEach(function (button) {
    button.addEventListener("click", function () { sort(button); });
  });
  document.querySelectorAll("#filter button").forEach(function (button) {
    button.addEventListener("click", function () { choose(button); });
  });
  if (search) {
    search.addEventListener("input", filter);
    if (search.value) { filter(); }  // a browser that goes back keeps what was typed
  }

  // the contents stay open beside a wide page, and fold away above a narrow one
  var contents = document.getElementById("contents");
  if (contents) {
    var wide = window.matchMedia("(min-width: 64rem)");
    var fold = function () { contents.open = wide.matches; };
    fold();
    wide.addEventListener("change", fold);
    contents.addEventListener("click", function (event) {
      if (event.target.tagName === "A" && !wide.matches) { contents.open = false; }
    });
  }

  function unfold() {  // a link to a folded module, or to a claim that the search has hidden
    var target = window.location.hash && document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    if (!target) { return; }
    if (target.hidden && search) { search.value = ""; verdict = ""; filter(); }
    if (target.tagName === "DETAILS") { target.open = true; }
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  unfold();
  window.addEventListener("beforeprint", function () {  // paper cannot be unfolded
    document.querySelectorAll("details:not([open]):not(.source):not(#contents)").forEach(function (part) {
      part.dataset.folded = "yes";
      part.open = true;
    });
    charts.forEach(draw);
  });
  window.addEventListener("afterprint", function () {
    document.querySelectorAll("details[data-folded]").forEach(function (part) {
      part.open = false;
      delete part.dataset.folded;
    });
  });
})();
