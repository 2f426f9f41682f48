// How the search ranks what it finds: what helps to do something first, the reference last.
var Scorer = {
  score: function (result) {
    var page = result[0], score = result[4];
    if (page.indexOf("howto/") === 0) { return score + 30; }
    if (page === "index" || page === "which-setting" || page.indexOf("settings/") === 0) { return score + 20; }
    if (page === "examples" || page.indexOf("algorithms/") === 0) { return score + 10; }
    return page.indexOf("api/") === 0 ? score - 20 : score;
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
