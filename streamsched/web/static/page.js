// The script of the pages. Everything works without it; with it, pages follow what happens.
"use strict";
(() => {
  document.documentElement.classList.add("js");
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const words = (seconds) => {
    const whole = Math.round(Math.abs(seconds));
    for (const [unit, size] of UNITS) if (whole >= size) return `${Math.floor(whole / size)} ${unit}`;
    return "0 s";
  };
  const relative = () => {
    for (const each of document.querySelectorAll('time[data-as="ago"]')) {
      const seconds = (Date.now() - Date.parse(each.dateTime)) / 1000;
      const text = seconds >= 0 ? `${words(seconds)} ago` : `in ${words(seconds)}`;
      if (each.textContent !== text) each.textContent = text;
    }
  };
  setInterval(relative, 5000);

  // At phone width the places scroll: the current one is in view.
  const place = document.querySelector('nav[aria-label="Main"] [aria-current]');
  if (place) place.parentElement.scrollLeft = place.offsetLeft - place.parentElement.offsetLeft - 40;

  // Makes an element like another one by changing only what differs, so that nothing flickers and focus stays.
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
  const morph = (from, to) => {
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.isEqualNode(to)) return;
    for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== "open" && name !== "class") from.removeAttribute(name);
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    const known = new Map([...from.children].filter((child) => child.id).map((child) => [child.id, child]));
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      const same = wanted.id && known.get(wanted.id);
      if (same) {
        if (same !== at) from.insertBefore(same, at); else at = at.nextSibling;
        morph(same, wanted);
      } else if (at && alike(at, wanted) && !at.id) {
        const next = at.nextSibling;
        morph(at, wanted);
        at = next;
      } else from.insertBefore(document.importNode(wanted, true), at);
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  };
  const busy = (region) => region.querySelector("form :focus") !== null || (region.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"));
  const regions = () => [...document.querySelectorAll("[data-live]")];

  const mark = document.getElementById("live");
  let seen = Date.now(), due = false, every = 1000, last = 0, away = false, reading = false;
  const show = () => {
    if (!mark) return;
    mark.hidden = false;
    mark.classList.toggle("away", away);
    const text = away ? `data from ${words((Date.now() - seen) / 1000)} ago` : "live";
    const word = document.getElementById("live-word");
    if (word.textContent !== text) word.textContent = text;
  };
  const reread = async () => {
    if (!due || reading || document.hidden || Date.now() - last < every) return;
    due = false; reading = true; last = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.status === 401) { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = [...fresh.querySelectorAll("[data-live]")];
      regions().forEach((region, index) => { if (found[index] && !busy(region)) morph(region, found[index]); });
      relative();
      seen = Date.now(); away = false;
      document.dispatchEvent(new Event("reread"));
    } catch { away = true; due = true; }
    reading = false;
    show();
  };
  if (mark && window.EventSource) {
    // A page that is not seen has no feed: a browser opens six connections to a server, for all its tabs together.
    let feed;
    const known = (event) => { every = Number(event.data) || every; away = false; seen = Date.now(); show(); };
    const follow = () => {
      feed?.close();
      if (document.hidden) return;
      feed = new EventSource("/ui/live");
      feed.addEventListener("open", (event) => { if (event.data) known(event); });
      feed.addEventListener("changed", (event) => { known(event); if (regions().length) due = true; });
      feed.addEventListener("away", () => { away = true; show(); });
      feed.onerror = () => { away = true; due = true; show(); };
    };
    follow();
    document.addEventListener("visibilitychange", () => { if (!document.hidden && regions().length) due = true; follow(); });
    // A run that goes on reports no decision: its page is read again in any case.
    const often = () => Number(document.querySelector("[data-every]")?.dataset.every ?? 0) * 1000;
    setInterval(() => { if (often() && Date.now() - last > often()) due = true; void reread(); if (away) show(); else seen = Math.max(seen, Date.now() - 1000); }, 500);
    addEventListener("pagehide", () => feed?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

  // The zone of this browser can be chosen beside UTC.
  const zone = document.getElementById("zone");
  if (zone) {
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (own && ![...zone.options].some((option) => option.value === own)) zone.add(new Option(`${own} (this browser)`, own));
    zone.addEventListener("change", () => zone.form.requestSubmit());
  }

  // `/` filters; j and k move over rows, Enter opens, a dot acts; Escape closes what is open.
  const rows = () => [...document.querySelectorAll("table.rows tbody tr")];
  let row = -1;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const each of document.querySelectorAll(".actions details[open]")) each.open = false;
    if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const filter = document.getElementById("filter");
    if (event.key === "/" && filter) { event.preventDefault(); filter.focus(); filter.select(); }
    if (event.key === "j" || event.key === "k") {
      const all = rows();
      if (!all.length) return;
      all[row]?.classList.remove("at");
      row = Math.max(0, Math.min(all.length - 1, row + (event.key === "j" ? 1 : -1)));
      all[row].classList.add("at");
      all[row].scrollIntoView({ block: "nearest" });
    }
    if (event.key === "Enter" && event.target === document.body) rows()[row]?.querySelector("a")?.click();
    const act = document.querySelector(".actions > details > summary");
    if (event.key === "." && act) { event.preventDefault(); act.parentElement.open = true; act.focus(); }
  });
  // What is copied has the instants that hovering shows.
  document.addEventListener("copy", (event) => {
    const chosen = getSelection();
    if (!chosen?.rangeCount || event.target.matches?.("input, textarea")) return;
    const part = chosen.getRangeAt(0).cloneContents(), times = part.querySelectorAll("time[title]");
    if (!times.length) return;
    for (const each of times) each.textContent = each.title;
    const holder = document.createElement("div"), lines = part.querySelectorAll("tr, li, p");
    for (const each of part.querySelectorAll("td, th")) each.append("\t");
    for (const each of lines) each.append("\n");
    holder.append(part);
    event.clipboardData.setData("text/plain", holder.textContent.trim());
    event.preventDefault();
  });
  // Ctrl-K or Cmd-K finds anything by a part of its name.
  const finder = document.getElementById("find");
  if (/Mac|iP/.test(navigator.platform)) for (const each of document.querySelectorAll("kbd.ctrl-k")) each.textContent = "⌘K";
  if (finder && window.HTMLDialogElement) {
    const dialog = document.createElement("dialog"), input = document.createElement("input"), list = document.createElement("ul");
    dialog.className = "finder";
    dialog.setAttribute("aria-label", "Find");
    input.type = "search";
    input.placeholder = "Part of a name, or the id of a job or run";
    input.setAttribute("aria-label", input.placeholder);
    list.className = "found";
    dialog.append(input, list);
    document.body.append(dialog);
    let wanted = 0;
    const look = async () => {
      const mine = ++wanted, address = new URL(finder.href);
      address.searchParams.set("q", input.value);
      const answer = await fetch(address, { cache: "no-store" });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine !== wanted) return;
      list.replaceChildren(...[...fresh.querySelectorAll("#found li")].map((each) => document.importNode(each, true)));
      if (!list.children.length && input.value) list.append(Object.assign(document.createElement("li"), { className: "dim", textContent: "Nothing has that name." }));
    };
    let timer = 0;
    input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 120); });
    dialog.addEventListener("keydown", (event) => {
      const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
      if (event.key === "Enter" && event.target === input) { event.preventDefault(); links[0]?.click(); }
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      const next = at + (event.key === "ArrowDown" ? 1 : -1);
      (next < 0 ? input : links[Math.min(next, links.length - 1)])?.focus();
    });
    const open = (event) => { event.preventDefault(); if (!dialog.open) dialog.showModal(); input.select(); };
    finder.addEventListener("click", open);
    document.addEventListener("keydown", (event) => { if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") open(event); });
  }
  // The list of schedules: pick all, and how many are picked.
  const bulk = document.getElementById("bulk");
  if (bulk) {
    const picks = () => [...document.querySelectorAll('input[form="bulk"][type="checkbox"]')];
    const all = document.getElementById("pick-all"), said = document.getElementById("picked");
    const count = () => { const number = picks().filter((each) => each.checked).length; if (said) said.textContent = number ? `${number} picked` : ""; };
    all?.addEventListener("change", () => { for (const each of picks()) each.checked = all.checked; count(); });
    document.addEventListener("change", (event) => { if (event.target.matches('input[form="bulk"]')) count(); });
  }
  // The graph: zoom, and the path of the node under the pointer.
  const graph = () => document.getElementById("graph");
  if (graph()) {
    let scale = 1;
    const zoom = () => {
      const svg = graph(), [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
      svg.setAttribute("width", String(width * scale));
      svg.setAttribute("height", String(height * scale));
    };
    document.addEventListener("click", (event) => {
      const by = event.target.closest?.(".zoom")?.dataset.zoom;
      if (!by) return;
      const svg = graph(), width = Number(svg.getAttribute("viewBox").split(" ")[2]);
      scale = by === "fit" ? (svg.parentElement.clientWidth - 2) / width : scale * Number(by);
      scale = Math.max(0.05, Math.min(4, scale));
      zoom();
    });
    document.addEventListener("wheel", (event) => {
      if (!event.ctrlKey || !event.target.closest?.(".graph-box")) return;
      event.preventDefault();
      scale = Math.max(0.05, Math.min(4, scale * (event.deltaY < 0 ? 1.1 : 0.9)));
      zoom();
    }, { passive: false });
    document.addEventListener("reread", () => { if (graph() && scale !== 1) zoom(); });
    const light = (event) => {
      const svg = graph(), node = event.target.closest?.(".graph .node");
      if (!svg) return;
      for (const each of svg.querySelectorAll(".on")) each.classList.remove("on");
      svg.classList.toggle("lit", Boolean(node));
      if (!node) return;
      const arrows = [...svg.querySelectorAll("[data-ends]")].map((each) => [each, ...each.dataset.ends.split(" ")]);
      const walk = (from, to) => {
        const known = new Set([node.dataset.node]), open = [...known];
        while (open.length) {
          const at = open.pop();
          for (const arrow of arrows) if (arrow[from] === at) { arrow[0].classList.add("on"); if (!known.has(arrow[to])) { known.add(arrow[to]); open.push(arrow[to]); } }
        }
        for (const each of known) svg.querySelector(`[data-node="${each}"]`)?.classList.add("on");
      };
      walk(1, 2);
      walk(2, 1);
    };
    document.addEventListener("mouseover", light);
    document.addEventListener("focusin", light);
  }
  // A form is sent once.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    setTimeout(() => { for (const each of event.target.querySelectorAll("button")) each.disabled = true; }, 0);
  });

  // The log of a run: followed while the run is active, searched in what is here.
  const card = document.getElementById("log-card");
  if (card) {
    const box = document.getElementById("log-box"), pre = document.getElementById("log-text"), find = document.getElementById("log-find");
    const follow = document.getElementById("log-follow"), state = document.getElementById("log-state");
    const MOST = 20000;
    let lines = pre.textContent.split("\n"), rest = lines.pop() ?? "", offset = card.dataset.offset, ended = card.dataset.ended === "yes";
    let complete = ended;
    const draw = (from) => {
      const wanted = find.value.toLowerCase();
      if (from === 0) pre.textContent = "";
      const part = document.createDocumentFragment();
      let shown = 0;
      for (const line of lines.slice(from)) {
        const at = wanted ? line.toLowerCase().indexOf(wanted) : -1;
        if (wanted && at < 0) continue;
        shown += 1;
        if (!wanted) part.append(line + "\n");
        else {
          const mark = document.createElement("mark");
          mark.textContent = line.slice(at, at + wanted.length);
          part.append(line.slice(0, at), mark, line.slice(at + wanted.length) + "\n");
        }
      }
      pre.append(part);
      if (wanted && from === 0) state.textContent = `${shown} of ${lines.length} lines`;
      else if (!wanted) state.textContent = complete ? "complete" : "follows";
      if (follow.checked) box.scrollTop = box.scrollHeight;
    };
    const more = async () => {
      if (complete || document.hidden) return;
      try {
        const answer = await fetch(`${card.dataset.log}?offset=${offset}`, { cache: "no-store" });
        if (!answer.ok) return;
        const text = await answer.text();
        const over = ["COMPLETED", "FAILED", "KILLED", "LOST"].includes(answer.headers.get("Streamsched-Run-State"));
        offset = answer.headers.get("Streamsched-Log-Offset") ?? offset;
        if (over && !text) { complete = true; if (rest) { lines.push(rest); rest = ""; } }
        if (text) {
          document.getElementById("log-empty")?.remove();
          const added = (rest + text).split("\n");
          rest = added.pop();
          const from = lines.length;
          lines.push(...added);
          if (lines.length > MOST) { lines = lines.slice(-MOST); draw(0); } else draw(from);
        } else if (complete) draw(0);
      } catch { /* the mark at the top says that the server is away */ }
    };
    find.form.addEventListener("submit", (event) => event.preventDefault());
    find.addEventListener("input", () => draw(0));
    if (new URLSearchParams(location.search).get("find")) { location.replace(location.pathname); }
    draw(0);
    setInterval(more, 1000);
    void more();
  }
})();
