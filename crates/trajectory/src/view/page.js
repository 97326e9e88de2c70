(function () {
  "use strict";
  var find = document.getElementById("find"), count = document.getElementById("count");
  var all = Array.prototype.slice.call(document.querySelectorAll(".e"));
  var texts = all.map(function (e) { return e.textContent.toLowerCase(); });
  function search() {
    var words = find.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
    all.forEach(function (e, i) {
      var fits = words.every(function (w) { return texts[i].indexOf(w) >= 0; });
      e.hidden = !fits;
      if (fits) shown++;
    });
    count.textContent = words.length ? shown + " of " + all.length : all.length + " events";
  }
  function each(open) {
    document.querySelectorAll("main details").forEach(function (d) { d.open = open; });
  }
  find.addEventListener("input", search);
  document.getElementById("open").addEventListener("click", function () { each(true); });
  document.getElementById("close").addEventListener("click", function () { each(false); });
  search();
})();
