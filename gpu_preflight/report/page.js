"use strict";
(() => {
  const form = document.getElementById("controls");
  if (!form) return;
  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const findings = [...document.querySelectorAll(".finding")].map((element) => ({
    element,
    severity: element.dataset.severity,
    text: element.textContent.toLowerCase(),
  }));
  const update = () => {
    const severities = new Set([...form.querySelectorAll("[name=severity]:checked")].map((box) => box.value));
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { element, severity, text } of findings) {
      const keep = severities.has(severity) && words.every((word) => text.includes(word));
      element.hidden = !keep;
      count += keep;
    }
    shown.textContent = `${count} of ${findings.length} shown`;
  };
  form.hidden = findings.length === 0;
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  update();
})();
